"""The browser's modules: the files of app/stage, and the constants that Python gives them.

A browser that asks for each module sends 120 requests. `python .ci/stage_bundle.py` therefore joins them in one file,
app/stage/bundle/HASH.js.gz. HASH names the sources. After an edit the page imports the modules themselves.

The workbench is a second bundle, with the packages of its editor. Only its page fetches it.
"""

import gzip
import hashlib
import json
from functools import cache
from pathlib import Path

from app.store import vega
from explainers.charts import palette
from explainers.story import glossary, marks, terms

STAGE = Path(__file__).parents[1] / "stage"
BUNDLES = STAGE / "bundle"
TALKS = Path(__file__).parents[1] / "talks"
ENTRY, BUNDLE = "shell/app.js", "stage.js"  # what the page imports: the bundle, if there is one
WORKBENCH, WORKBENCH_ENTRY = "workbench.js", "workbench/main.js"
ORIGIN = "shell/origin.js"  # runs before Streamlit
CONSTANTS, SEQUENCES = "core/data.js", "talks/ours.js"  # made here, so no bundle has them


def sources() -> dict[str, str]:
    """name -> text of the modules and styles on disk, without the tools that check them."""
    paths = (path for folder in ("core", "views", "shell") for path in (STAGE / folder).rglob("*"))
    found = sorted(path for path in paths if path.suffix in (".js", ".css"))
    return {path.relative_to(STAGE).as_posix(): path.read_text() for path in found}


def bundle_of(texts: dict[str, str]) -> Path:
    """The file of the bundle of these modules, there or not."""
    scripts = {name: text for name, text in texts.items() if name.endswith(".js")}
    return BUNDLES / f"{_hash_of(scripts)}.js.gz"


def workbench_sources() -> dict[str, str]:
    """name -> text of the workbench's modules, its style, and the list of its packages."""
    paths = [*sorted((STAGE / "workbench").glob("*")), STAGE / "package-lock.json"]
    return {path.relative_to(STAGE).as_posix(): path.read_text() for path in paths}


def workbench_bundle_of(texts: dict[str, str]) -> Path:
    """The file of the workbench's bundle, there or not."""
    return BUNDLES / f"workbench-{_hash_of(texts)}.js.gz"


@cache
def modules() -> dict[str, str]:
    """name -> text of every module and style, the bundle among them."""
    found = sources()
    file = bundle_of(found)
    bundle = {BUNDLE: gzip.decompress(file.read_bytes()).decode()} if file.is_file() else {}
    return found | bundle | {WORKBENCH: _workbench(), CONSTANTS: _constants(), SEQUENCES: _sequences()}


def entry() -> str:
    """The module that the page imports."""
    return BUNDLE if BUNDLE in modules() else ENTRY


def first() -> list[str]:
    """The modules of every page."""
    if entry() == BUNDLE:
        return [BUNDLE, CONSTANTS]
    scripts = (name for name in modules() if name.endswith(".js") and name.startswith(("core/", "shell/")))
    return [name for name in scripts if name != ORIGIN]


@cache
def style() -> str:
    """The whole style: core/stage.css, and after it the styles of shell/."""
    found = {name: text for name, text in modules().items() if name.endswith(".css")}
    return "\n".join(found[name] for name in sorted(found))


@cache
def version() -> str:
    """Names the modules by their content, and the charts' script by its version."""
    return hashlib.sha256(json.dumps([modules(), vega.made_by()], sort_keys=True).encode()).hexdigest()[:16]


def _hash_of(texts: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]


def _workbench() -> str:
    """The workbench's bundle, or after an edit a module that names the remedy."""
    file = workbench_bundle_of(workbench_sources())
    if file.is_file():
        return gzip.decompress(file.read_bytes()).decode()
    return "throw new Error('Run python .ci/stage_bundle.py, and start the server again.');"


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
