"""One moment as one file that steps without a server and asks for nothing: python -m app.one_page LINK FILE.html

A link is what the address bar has after the host, such as "tiling?kernel=KERNEL&step=3". The file holds the stage,
the bundle of that moment, and the charts' script if its pictures are charts.
"""

import argparse
import base64
import gzip
import html
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl

from app.choices.estimates import requests_in
from app.choices.links import read_link
from app.parts.story import Story
from app.store import vega
from app.stories import STORIES
from app.web import asking, modules
from explainers.stories.occupancy import story as occupancy
from explainers.stories.source import story as source
from explainers.story import encoding
from explainers.story.glossary import LABELS
from kernels.catalog import Catalog, current
from kernels.core.request import Request
from kernels.errors import ProblemError, WarpglassError
from kernels.run import workers

MODULE = "stage.js"
WRITER = """const unpacked = async id => {
  const text = document.getElementById(id)?.textContent, bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
};
// An inline script, because a host with a policy of its own, such as VS Code, refuses the address of a blob.
const run = async id => {
  const script = document.createElement('script');
  script.textContent = new TextDecoder().decode(await unpacked(id));
  document.head.append(script);
};
await run('stage');
const root = document.getElementById('root');
mount(root, {
  state: JSON.parse(document.getElementById('state').textContent),
  bundle: () => unpacked('bundle'),
  onState() {},
  charts: async () => {
    if (!document.getElementById('charts')) throw new Error('This page has no charts.');
    await run('charts');
    return globalThis.vegaEmbed;
  },
});"""


def page(data: bytes, title: str, state: dict[str, object]) -> str:
    """The HTML of a moment.

    data: a bundle, as encoding.encode makes it.
    title: of the page, such as the story's.
    state: its step, from 0, and its picture, as app/stage/core/host.js takes them."""
    data = encoding.without_server(data)
    content = encoding.decode(data)
    kinds = {view["kind"] for view in content["views"]}
    origin = content.get("provenance") or {}
    parts = {
        "stage": _script(),
        "bundle": gzip.compress(data, mtime=0),
        **({"charts": vega.bundle()} if "chart" in kinds else {}),
    }
    held = "\n".join(
        f'<script type="application/gzip" id="{id}">{base64.b64encode(packed).decode()}</script>'
        for id, packed in parts.items()
    )
    said = json.dumps({"bundle": "bundle", **state}).replace("<", "\\u003c")
    label = {**LABELS, "executed": "run on a CPU"}.get(origin.get("label", ""), "")
    foot = ". ".join(filter(None, [f"Warpglass, {label}".rstrip(", "), content.get("headline")]))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval';
 style-src 'unsafe-inline'; img-src data: blob:">
<title>{html.escape(title)}</title><style>
{_theme()}
{modules.style()}
#root {{ height: calc(100dvh - 2rem); min-height: 0; }}
footer {{ height: 2rem; padding: 0.2rem 0.8rem; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }}
</style></head><body><main class="wg" id="root"></main><footer>{html.escape(foot)}</footer>
{held}
<script type="application/json" id="state">{said}</script>
<script type="module">
{WRITER}
</script></body></html>
"""


def of_link(link: str) -> str:
    """The HTML of a link. Runs its kernel if need be.

    Raises the WarpglassError of the run, and ProblemError for a link that leads to no page or has a wrong value."""
    path, _, query = link.lstrip("/").partition("?")
    return _of_subject(_story(path), dict(parse_qsl(query)))[0]


def of_request(path: str, request: Request, params: Mapping[str, str]) -> str:
    """The HTML of a page that shows a request, of any kernel. Runs it as the page does.

    params: further parameters of the link.
    Raises as of_link, and ProblemError for a page that cannot show the request."""
    story, known, kernel = _story(path), current(), request.kernel
    if kernel.name not in known.kernels or known.kernels[kernel.name].files != kernel.files:
        known = replace(known, kernels={**known.kernels, kernel.name: kernel})
    page = story.page(known)
    texts = request.problem.texts() | {name: str(value) for name, value in request.constants.items()}
    chosen = asking.translated(page, {"kernel": kernel.name, "backend": request.backend, **texts})
    taken = page.choices(read_link(page, chosen)[0])
    own = {name: text for name, text in chosen.items() if name in taken or name == "kernel"}
    text, subject = _of_subject(story, {**own, **params}, known)
    shown = requests_in(subject)
    if isinstance(subject, (occupancy.Build, source.Build)):
        shown = [Request(subject.kernel, subject.problem, subject.settings)]
    if request.identity not in [one.identity for one in shown if one.kernel.files == kernel.files]:
        raise ProblemError(f"{story.title} cannot show these values of the fields and constants. Try any_kernel.")
    return text


def _story(path: str) -> Story:
    if path not in STORIES or path == "start":
        raise ProblemError(
            f"{path!r} is no page with a picture. The pages are {', '.join(sorted({*STORIES} - {'start'}))}."
        )
    return STORIES[path]


def _of_subject(story: Story, params: Mapping[str, str], known: Catalog | None = None) -> tuple[str, object]:
    """The HTML of a story with these parameters, and what it shows."""
    answer = asking.ask(story, params, workers.survey(), catalog=known)
    if why := answer.error or next(iter([*answer.refused.values(), *answer.told]), ""):
        raise ProblemError(why)
    step = params.get("step", "1")
    if not step.isdigit() or not int(step):
        raise ProblemError(f"step is {step!r}. It must be a whole number from 1.")
    state = {"step": int(step) - 1, **({"picture": params["picture"]} if "picture" in params else {})}
    return page(encoding.encode(story.make(answer.subject)), f"{story.title} - Warpglass", state), answer.subject


@cache
def _script() -> bytes:
    """The stage as one script, packed. It gives the global function mount."""
    texts = {n: t for n, t in modules.modules().items() if n.startswith(("core/", "views/")) and n.endswith(".js")}
    text = modules.joined(MODULE, "core/mount.js", texts)[MODULE]
    code = text.partition("\nexport ")[0]
    return gzip.compress(f"'use strict'; {{\n{code}\nglobalThis.mount = $own_mount;\n}}".encode(), mtime=0)


@cache
def _theme() -> str:
    """What a site without a server has in place of Streamlit's theme, with the reader's own fonts."""
    text = modules.plain((modules.STAGE / "site" / "site.css").read_text())
    return text[text.index(":root") :]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m app.one_page", description="Writes one moment as one file.")
    parser.add_argument("link", help='what the address bar has after the host, such as "tiling?kernel=KERNEL&step=3"')
    parser.add_argument("file", type=Path)
    args = parser.parse_args(words)
    try:
        text = of_link(args.link)
        args.file.write_text(text)
    except ProblemError as error:
        print(error, file=sys.stderr)
        return 2
    except (WarpglassError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        workers.stop()
    print(f"{args.file}: {len(text.encode()) / 1e6:.2f} MB. Open it in a browser. It needs no network.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
