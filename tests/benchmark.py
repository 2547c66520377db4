"""Prints the figures of DESIGN.md's budgets on this machine: python tests/benchmark.py [--no-browser]

With a browser it starts the app as the README does and drives a real Chromium. Without one it times decoding and runs
through the worker processes alone, on every backend there is. Nothing here asserts: budgets are read, tests never time.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser.conftest import FLAGS, Server, ready  # noqa: E402

from kernels.build import Mode, disassembly  # noqa: E402
from kernels.catalog import KERNELS  # noqa: E402
from kernels.core.request import Request, Scope  # noqa: E402
from kernels.families.dense.problem import DenseProblem  # noqa: E402
from kernels.run import execute, workers  # noqa: E402
from kernels.trace.probes import sites_of  # noqa: E402
from kernels.trace.trace import decode  # noqa: E402

STORIES = {
    "tiling": "seed",
    "online_softmax": "seed",
    "block_table?view=walk&scenario=one_long": "seed",
    "bank_conflicts": "stride",
    "bank_conflicts?view=attention": "seq_len",
    "coalescing": "seq_len",
    "compare": "seed",
    "any_kernel?kernel=03_flash": "seed",
}  # and the field that is changed to time a new trace
PRESS_AND_PAINT = """async () => {
  const times = [];
  for (let i = 0; i < 60; i++) {  // pauses of every length: a key comes at any point between two frames
    await new Promise(done => setTimeout(done, 40 + (i * 7) % 17));
    const start = performance.now();
    const key = i < 10 || i % 2 ? 'ArrowRight' : 'ArrowLeft';
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, composed: true }));
    const worked = performance.now() - start;
    await new Promise(done => requestAnimationFrame(() => {
      const c = new MessageChannel();
      c.port1.onmessage = done;
      c.port2.postMessage(0);
    }));
    times.push([worked, performance.now() - start]);
  }
  return times;
}"""


def report(what, figure, budget=""):
    print(f"{what:66s} {figure:>28s}   {budget}", flush=True)


def decoding():
    problem = DenseProblem(seq_len=512, head_dim=64, num_heads=1)
    request = Request(KERNELS["03_flash"], problem, (), Scope(0, 4))
    _, _, _, raw = execute._launch_probed(request)
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        rows = decode(raw, sites_of(request)).table.num_rows
        rates.append(rows / (time.perf_counter() - start))
    report(
        f"decoding a trace of {rows:,} records",
        f"{statistics.median(rates) / 1e6:.1f} million records/s",
        "budget >= 20",
    )


def runs(backend):
    """From a changed parameter to a decoded trace, through the worker: warm build, then a new compile."""

    def timed(request):
        start = time.perf_counter()
        workers.submit(execute.run, request, backend=backend, what="benchmark").result()
        return time.perf_counter() - start

    base = Request(KERNELS["03_flash"], DenseProblem(), (), Scope(), backend)
    for _ in range(3):
        timed(base)
    warm = [timed(replace(base, problem=DenseProblem(seed=s))) for s in range(1, 16)]
    report(
        f"{backend}: changed seed to new trace, worker only, warm build",
        f"median {1e3 * statistics.median(warm):.0f} ms, max {1e3 * max(warm):.0f} ms",
        "page budget <= 1 s cpu, <= 300 ms gpu",
    )
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WARPGLASS_CACHE"] = cache
        workers.stop()
        timed(replace(base, problem=DenseProblem(head_dim=128)))
        fresh = timed(replace(base, settings=(("BLOCK_KV", 32),)))
        del os.environ["WARPGLASS_CACHE"]
        workers.stop()
    report(
        f"{backend}: changed tile size to new trace, worker only, new compile",
        f"{1e3 * fresh:.0f} ms",
        "page budget <= 1.5 s gpu",
    )


def machine_code():
    """The source page's listing of every kernel, into an empty cache and then again, through a worker."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WARPGLASS_CACHE"] = cache
        for arch in ("sm_80", "sm_90a", "sm_100a"):
            first, again = [], []
            for kernel in KERNELS.values():
                case = next(iter(kernel.problem_type.check_cases(kernel)))
                for times in (first, again):
                    start = time.perf_counter()
                    workers.submit(
                        disassembly.listing,
                        kernel,
                        case.problem,
                        case.settings,
                        Mode.TIMED,
                        arch,
                        backend="cpu",
                        what="benchmark",
                    ).result()
                    times.append(time.perf_counter() - start)
            report(
                f"{arch}: SASS and PTX of {len(first)} kernels, first time",
                f"median {statistics.median(first):.2f} s, max {max(first):.2f} s",
                "budget <= 3 s",
            )
            report(
                f"{arch}: the same again",
                f"median {1e3 * statistics.median(again):.0f} ms, max {1e3 * max(again):.0f} ms",
            )
        del os.environ["WARPGLASS_CACHE"]
        workers.stop()


def pages():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for label, cache in (("builds cached", None), ("empty build cache", tempfile.mkdtemp())):
            start = time.perf_counter()
            server = Server(**({"WARPGLASS_CACHE": cache} if cache else {}))
            page = browser.new_page()
            page.goto(f"{server.url}/tiling")
            for part in ("#warpglass-clock", "canvas[aria-label]", ".code .row"):
                page.wait_for_selector(part, timeout=60_000)
            usable = time.perf_counter() - start
            ready(page)
            report(
                f"command to first story usable, {label}",
                f"{usable:.2f} s (all drawn {time.perf_counter() - start:.2f})",
                "budget <= 6 s",
            )
            page.close()
            if cache:
                shutil.rmtree(cache)
                server.stop()
            else:
                kept = server
        for story, field in STORIES.items():
            story_figures(browser, kept, story, field)
        kept.stop()
        browser.close()


def story_figures(browser, server, story, name):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    received, sent = [], []

    def listen(socket):
        socket.on("framereceived", lambda payload: received.append(len(payload)))
        socket.on("framesent", lambda payload: sent.append(len(payload)))

    page.on("websocket", listen)
    page.goto(f"{server.url}/{story}")
    ready(page)
    page.wait_for_timeout(4000)
    report(f"{story}: data sent for the default story", f"{sum(received) / 1e6:.2f} MB", "budget <= 1 MB")
    before = len(sent)
    times = np.array(page.evaluate(PRESS_AND_PAINT))
    page.wait_for_timeout(800)
    work, paint = np.median(times, axis=0)
    report(
        f"{story}: key press to repainted step, all views",
        f"median {paint:.1f} ms ({work:.1f} ms of it work)",
        "budget <= 16 ms",
    )
    report(f"{story}: websocket messages for {len(times)} steps", f"{len(sent) - before}", "budget 0")

    page.keyboard.press("Home")
    page.evaluate(
        "window.seen = []; window.__warpglass.addEventListener('step', "
        "e => window.seen.push([e.detail.step, performance.now()]))"
    )
    page.locator("[data-part=speed]").select_option("30")
    page.locator("[data-part=play]").click()
    page.wait_for_function("window.__warpglass.step === window.__warpglass.count - 1")
    seen = page.evaluate("window.seen")
    skipped = sum(b - a != 1 for (a, _), (b, _) in zip(seen, seen[1:]))
    rate = (len(seen) - 1) / (seen[-1][1] - seen[0][1]) * 1e3
    report(f"{story}: playing at 30 steps/s", f"{skipped} skipped, {rate:.1f} steps/s", "budget 0 skipped")

    changes = []
    field = page.locator("[data-testid=stSidebar]").get_by_role("spinbutton", name=name)
    for value in range(1, 8):
        old = page.evaluate("window.__warpglass.run")
        field.fill(str(value + {"seed": 1000 * (story == "tiling"), "seq_len": 64, "stride": 32}[name]))
        start = time.perf_counter()
        page.keyboard.press("Enter")
        page.wait_for_function(f"window.__warpglass.run !== {old!r}", polling=5)
        changes.append(time.perf_counter() - start)
    report(
        f"{story}: changed parameter to new trace on the page, warm build",
        f"median {1e3 * statistics.median(changes):.0f} ms",
        "budget <= 1 s on the CPU",
    )
    page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-browser", action="store_true")
    arguments = parser.parse_args()
    decoding()
    machine_code()
    for name in workers.survey().devices:
        if name != "recorded":
            runs(name)
    if not arguments.no_browser:
        pages()
    workers.stop()
