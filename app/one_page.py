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
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl

from app.store import vega
from app.stories import STORIES
from app.web import asking, modules
from explainers.story import encoding
from explainers.story.glossary import LABELS
from kernels.errors import ProblemError, WarpglassError
from kernels.run import workers

MODULE = "stage.js"
WRITER = """const unpacked = async id => {
  const text = document.getElementById(id)?.textContent, bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
};
const address = async id => URL.createObjectURL(new Blob([await unpacked(id)], { type: 'text/javascript' }));
const { mount } = await import(await address('stage')), root = document.getElementById('root');
mount(root, {
  state: JSON.parse(document.getElementById('state').textContent),
  bundle: () => unpacked('bundle'),
  onState() {},
  charts: async () => {
    if (!document.getElementById('charts')) throw new Error('This page has no charts.');
    await import(await address('charts'));
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
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:;
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
    if path not in STORIES or path == "start":
        raise ProblemError(
            f"{path!r} is no page with a picture. The pages are {', '.join(sorted({*STORIES} - {'start'}))}."
        )
    params = dict(parse_qsl(query))
    story, answer = STORIES[path], asking.ask(STORIES[path], params, workers.survey())
    if why := answer.error or next(iter([*answer.refused.values(), *answer.told]), ""):
        raise ProblemError(why)
    step = params.get("step", "1")
    if not step.isdigit() or not int(step):
        raise ProblemError(f"step is {step!r}. It must be a whole number from 1.")
    state = {"step": int(step) - 1, **({"picture": params["picture"]} if "picture" in params else {})}
    return page(encoding.encode(story.make(answer.subject)), f"{story.title} - Warpglass", state)


@cache
def _script() -> bytes:
    """The stage in one file, packed."""
    texts = {n: t for n, t in modules.modules().items() if n.startswith(("core/", "views/")) and n.endswith(".js")}
    text = modules.joined(MODULE, "core/mount.js", texts)[MODULE]
    return gzip.compress(text.partition("\n//# sourceMappingURL")[0].encode(), mtime=0)


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
