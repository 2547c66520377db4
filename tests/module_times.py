"""Sizes and times of the kernels that a site runs in a browser: python tests/module_times.py

It prints for each kernel the bytes of its module, raw and packed, and in headless Chromium the milliseconds to compile
it, of its first run, and of the median of 20 runs with 64 tokens and one head of 32 numbers.
"""

import base64
import gzip
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.run_here import TOKENS, can_run, meta
from app.web.modules import STAGE
from kernels.build import wasm
from kernels.catalog import current
from kernels.core.request import Request

TIME = """async ([code, bytes, meta, tokens]) => {
  const { Kernel, tensorsOf } = await import(`data:text/javascript;base64,${code}`);
  const module = Uint8Array.from(atob(bytes), c => c.charCodeAt(0)), times = [];
  const timed = async run => {
    const begun = performance.now(), made = await run();
    return [performance.now() - begun, made];
  };
  const [compiled, kernel] = await timed(() => Kernel.load(module, meta));
  const tensors = tensorsOf(meta, tokens, { seed: 0, spread: 1 }), sizes = { tokens, causal: false };
  for (let n = 0; n < 21; ++n) times.push((await timed(() => kernel.run(sizes, tensors)))[0]);
  const [first, ...others] = times;
  return [compiled, first, others.sort((a, b) => a - b)[10]];
}"""


def main() -> None:
    code = base64.b64encode((STAGE / "views" / "run_here_rule.js").read_bytes()).decode()
    program = shutil.which("chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        print(f"Chromium {browser.version}. Bytes, packed, ms to compile, of the first run, of a run")
        for kernel in current().kernels.values():
            request = Request(kernel, kernel.problem_type())
            if not can_run(request):
                continue
            module = wasm.build(kernel, request.defines)
            page = browser.new_page()
            times = page.evaluate(TIME, [code, base64.b64encode(module).decode(), meta(request, ""), TOKENS])
            print(kernel.name, len(module), len(gzip.compress(module, 9)), *(f"{ms:.1f}" for ms in times))
            page.close()


if __name__ == "__main__":
    main()
