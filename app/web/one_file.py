"""One moment as one file that steps without a server and asks for nothing.

The file holds the stage, the bundle of the moment, and the charts' script if its pictures are charts. A viewer without
scripts, such as a preview of a notebook, shows the moment in words.
"""

import base64
import gzip
import html
import json
from functools import cache
from typing import Any

from app.store import vega
from app.web import modules
from explainers.story import encoding
from explainers.story.glossary import ELSEWHERE, logged

MODULE = "stage.js"
ROOT = '<main class="wg" id="root">'
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
const { clock } = mount(root, {
  state: JSON.parse(document.getElementById('state').textContent),
  bundle: () => unpacked('bundle'),
  onState() {},
  charts: async () => {
    if (!document.getElementById('charts')) throw new Error('This page has no charts.');
    await run('charts');
    return globalThis.vegaEmbed;
  },
});
// A notebook (warpglass/live.py) hears the step, from 1, and the pinned thing, and sets the step.
if (parent !== window) {
  const tell = said => parent.postMessage({ warpglass: JSON.stringify(said) }, '*');
  clock.follow(step => tell({ step: step + 1 }));
  clock.addEventListener('pinned', ({ detail }) => tell({ pinned: detail ?? {} }));
  addEventListener('message', ({ source, data }) => {
    if (source === parent && Number.isInteger(data?.step)) clock.set(data.step - 1, 'user');
  });
}"""


def page(data: bytes, title: str, step: int = 0, picture: str = "") -> str:
    """The HTML of a moment.

    data: a bundle, as encoding.encode makes it.
    title: of the story.
    step: from 0.
    picture: its id, or "" for the story's first."""
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
    state = {"bundle": "bundle", "step": step, **({"picture": picture} if picture else {})}
    said = json.dumps(state).replace("<", "\\u003c")
    label = ELSEWHERE.get(origin.get("label", ""), "")
    foot = ". ".join(filter(None, [f"Warpglass, {label}".rstrip(", "), content.get("headline")]))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval';
 style-src 'unsafe-inline'; img-src data: blob:">
<title>{html.escape(title)} - Warpglass</title><style>
{_theme()}
{modules.style()}
#root {{ height: calc(100dvh - 2rem); min-height: 0; }}
footer {{ height: 2rem; padding: 0.2rem 0.8rem; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }}
</style></head><body>{ROOT}{words(content, step, picture)}</main><footer>{html.escape(foot)}</footer>
{held}
<script type="application/json" id="state">{said}</script>
<script type="module">
{WRITER}
</script></body></html>
"""


def words(content: dict[str, Any], step: int, picture: str) -> str:
    """A moment without its picture, as HTML: its sentence, its lit lines of code and its values.

    content: of a bundle.
    step: from 0.
    picture: its id, or "" for the story's first."""
    views = {view["id"]: view["meta"] for view in reversed(content["views"])}  # of two with one id, the first
    meta = views.get(picture, content["views"][0]["meta"] if views else {})
    frames, state = ((meta if meta.get("clock") else content)[name] for name in ("frames", "state"))
    said, rows = [content.get("headline")], []
    if frames:
        step = min(step, len(frames) - 1)
        frame = frames[step]
        told = ": ".join(filter(None, [frame.get("title"), frame.get("sentence")]))
        said.append(f"Step {step + 1} of {len(frames)}. {told}")
        texts = {file["name"]: file["lines"] for code in content["codes"] for file in code["files"]}
        lit = {place for code in content["codes"] for place in frame.get(code["lit"], ())}
        for file, line in sorted((file, int(line)) for file, _, line in (place.rpartition(":") for place in lit)):
            rows.append((f"{file}:{line}", texts[file][line - 1].strip()))
        values = [(one["name"], one["values"][step], one["unit"]) for one in state]
        rows += [(name, f"{_shown(value)} {unit}".strip()) for name, value, unit in values if value is not None]
    text = "".join(f"<p>{html.escape(one)}</p>" for one in said if one)
    cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"{text}<table>{cells}</table>" if cells else text


def _shown(value: object) -> str:
    return logged(value) if isinstance(value, float) else str(value)


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
