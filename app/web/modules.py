"""The browser's modules: the files of app/stage, and the constants that Python gives them.

A browser fetches the stage as one file, and the page Workbench as a second one (joined.py). The server joins both from
the modules when it starts. A file's source map has the modules themselves. The server offers them too.

The packages of the Workbench's editor are vendor/codemirror.mjs. After a change of package-lock.json or of
vendor/codemirror.mts, run `npm run vendor --prefix app/stage`.
"""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from app.store import vega
from app.web.joined import joined, plain
from explainers.charts import palette
from explainers.story import glossary, marks, terms

STAGE = Path(__file__).parents[1] / "stage"
TALKS = Path(__file__).parents[1] / "talks"
ENTRY = "stage.js"  # of the page
ORIGIN = "shell/origin.js"  # runs before Streamlit


@cache
def modules() -> dict[str, str]:
    """name -> text of every module and style, of the joined files and of their source maps."""
    folders = ("core", "views", "shell", "workbench", "vendor")
    paths = sorted(
        path for folder in folders for path in (STAGE / folder).rglob("*") if path.suffix in (".js", ".mjs", ".css")
    )
    found = {path.relative_to(STAGE).as_posix(): path.read_text() for path in paths}
    found |= {"core/data.js": _constants(), "talks/ours.js": _sequences()}
    stage = {name: text for name, text in found.items() if re.match(r"(core|views|shell|talks)/.*\.js$", name)}
    workbench = {name: text for name, text in found.items() if name.startswith("workbench/")}
    return found | joined(ENTRY, "shell/app.js", stage) | joined("workbench.js", "workbench/main.js", workbench)


@cache
def style() -> str:
    """The whole style: core/stage.css, and after it the styles of shell/."""
    return "\n".join(plain(text) for name, text in modules().items() if re.match(r"(core|shell)/.*\.css$", name))


@cache
def version() -> str:
    """Names the modules by their content, and the charts' script by its version."""
    return hashlib.sha256(json.dumps([modules(), vega.made_by()], sort_keys=True).encode()).hexdigest()[:16]


def _constants() -> str:
    given = {
        "VEGA": vega.made_by(),
        "PALETTE": palette.for_browser(),
        "TERMS": terms.for_browser(),
        "PROVENANCE": glossary.PROVENANCE,
        "LABELS": glossary.LABELS,
        "MARKS": marks.MARKS,
    }
    return "\n".join(f"export const {name} = {json.dumps(value)};" for name, value in given.items())


def _sequences() -> str:
    """The sequences of the app, each under the name of its file."""
    talks = [{"id": path.stem, **json.loads(path.read_text())} for path in sorted(TALKS.glob("*.json"))]
    return f"export const TALKS = {json.dumps(talks)};"
