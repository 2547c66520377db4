"""The browser's modules: the files of app/stage, and the constants that Python gives them.

A browser fetches the stage as one file, and the page Workbench as a second one: it would send 150 requests for the
modules themselves. The server joins both files when it starts, and packs them once, because a class opens the page at
one moment. A file's source map has the modules themselves. The server offers them too.

In a joined file, each module becomes a function that returns its exports. It runs once, when another module first needs
it. Comments and indentation go. Each line stays a line, so a source map of lines shows the files in a browser's tools.

A module exports with `export const a`, `export class A`, `export function a`, `export { a, b as c };` and
`export default function (`. It imports with `import { a, b as c } from './m.js';`, `import a from './m.js';`,
`import * as a from './m.js';`, `import('./m.js')` and `import(`./${name}.js`)`.

The packages of the Workbench's editor are vendor/codemirror.mjs. After a change of package-lock.json or of
vendor/codemirror.mts, run `npm run vendor --prefix app/stage`.
"""

import asyncio
import hashlib
import json
import mimetypes
import posixpath
import re
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import cache, lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.store import disk, vega
from explainers.charts import palette
from explainers.story import glossary, marks, terms

STAGE = Path(__file__).parents[1] / "stage"
TALKS = Path(__file__).parents[1] / "talks"
ENTRY = "stage.js"  # of the page
ORIGIN = "shell/origin.js"  # runs before Streamlit
HEAD = """const $made = {};
const $need = name => ($made[name] ??= $modules[name]());

const $later = async (from, path) => {
  const name = new URL(path, `http://stage/${from}`).pathname.slice(1);
  return name in $modules ? $need(name) : import(`./${name}`);
};
const $modules = {"""
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*.*?\*/)|(?<=[,;{(\[]) //[^'\"`\n]*$", re.M | re.S)
INDENT = re.compile(r"^[ \t]+", re.M)
IMPORT = re.compile(r"^import (?:\{([^}]*)\}|(\w+)|\* as (\w+)) from '([^']+)';$", re.M)
LATER = re.compile(r"\bimport\((?=['`])")
EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function\*?) (\w+))", re.M)
EXPORTS = re.compile(r"^export \{([^}]*)\};$", re.M)
DEFAULT = re.compile(r"^export default function \(", re.M)
OTHER = re.compile(r"^(?:import|export)\b.*", re.M)


@cache
def modules() -> dict[str, str]:
    """name -> text of every module and style, of the joined files and of their source maps."""
    folders = ("core", "views", "shell", "workbench", "vendor")
    paths = sorted(
        path for folder in folders for path in (STAGE / folder).rglob("*") if path.suffix in (".js", ".mjs", ".css")
    )
    found = {path.relative_to(STAGE).as_posix(): path.read_text() for path in paths}
    # the sequences of the app, each under the name of its file
    talks = [{"id": path.stem, **json.loads(path.read_text())} for path in sorted(TALKS.glob("*.json"))]
    found |= {"core/data.js": _constants(), "talks/ours.js": f"export const TALKS = {json.dumps(talks)};"}
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


# ---- joined ----


def joined(file: str, entry: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts of a file with the exports of the entry, and of its source map.

    texts: name -> text of each module and style. A style's default export is its text. An import of another file stays
    an import. Raises ValueError if a module has another form of import or export, or imports a name without an export.
    """
    functions = {name: _function(name, text) for name, text in texts.items()}
    imports = [(name, path, names) for name, (_, _, needs) in functions.items() for path, names in needs.items()]
    for name, path, names in imports:
        if path in functions and not names <= functions[path][1].keys():
            missing = sorted(names - functions[path][1].keys())
            raise ValueError(f"{name} imports {', '.join(missing)}, and {path} has no export of this name. Add it.")
    outside = dict.fromkeys(path for _, path, _ in imports if path not in functions)
    lines = [f"import * as $outside{n} from './{path}'" for n, path in enumerate(outside)]
    lines += [*HEAD.split("\n"), *(f"'{path}': () => $outside{n}," for n, path in enumerate(outside))]
    sections = []
    for name, (code, exports, _) in functions.items():
        lines.append(f"'{name}': () => {{")
        mappings = "AAAA" + ";AACA" * code.count("\n")  # from the first line on, the next line of one file
        one = {"version": 3, "sources": [name], "names": [], "mappings": mappings}
        sections.append({"offset": {"line": len(lines), "column": 0}, "map": one})
        given = ", ".join(outer if outer == inner else f"{outer}: {inner}" for outer, inner in exports.items())
        lines += [*code.split("\n"), f"return {{ {given} }};", "},"]
    own = ", ".join(f"{outer}: $own_{outer}" for outer in functions[entry][1])
    lines += ["};", f"const {{ {own} }} = $need('{entry}')"]
    lines += [f"export {{ $own_{outer} as {outer} }}" for outer in functions[entry][1]]
    lines.append(f"//# sourceMappingURL={file}.map")
    return {file: "\n".join(lines), f"{file}.map": json.dumps({"version": 3, "sections": sections})}


def plain(text: str) -> str:
    """A module's text without indentation, without comments on lines of their own, and without most others."""
    return INDENT.sub("", COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text))


def _function(name: str, text: str) -> tuple[str, dict[str, str], dict[str, set[str]]]:
    """The body of a module's function, its exports (outer name -> inner name), and its imports (file -> names)."""
    if name.endswith(".css"):
        return f"const style = {json.dumps(text)}", {"default": "style"}, {}
    imports: dict[str, set[str]] = {}

    def bound(found: re.Match[str]) -> str:
        names, default, whole, path = found.groups()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        names = f" default as {default} " if default else names or ""
        imports.setdefault(file, set()).update(_pairs(names))
        return f"const {whole or '{' + names.replace(' as ', ': ') + '}'} = $need('{file}');"

    code = LATER.sub(f"$later('{name}', ", IMPORT.sub(bound, plain(text)))
    exports = {one: one for one in EXPORT.findall(code)}
    for names in EXPORTS.findall(code):
        exports |= {outer: inner for inner, outer in _pairs(names).items()}
    code = EXPORTS.sub(lambda found: "\n" * found[0].count("\n"), EXPORT.sub("", code))
    code, defaults = DEFAULT.subn("function $default(", code)
    if other := OTHER.search(code):
        raise ValueError(f"{name} has `{other[0]}`. Write it in one of the forms at the head of app/web/modules.py.")
    return code, exports | {"default": "$default"} if defaults else exports, imports


def _pairs(names: str) -> dict[str, str]:
    """a, b as c -> {a: a, b: c}"""
    pairs = [name.split(" as ") for name in re.findall(r"\w+(?: as \w+)?", names)]
    return {pair[0]: pair[-1] for pair in pairs}


# ---- packed ----

PACKED = {"cache-control": "public, max-age=31536000, immutable", "content-encoding": "gzip", "vary": "accept-encoding"}


@lru_cache(maxsize=256)
def packed(text: str) -> bytes:
    return disk.pack(text.encode())


class Files:
    """Middleware for the immutable files of a folder, below the address `at`.

    Streamlit reads these files from the disk for each request and sends them unpacked. Here each file is packed once.
    first: the files of every page. A thread packs them at the start of the server."""

    def __init__(self, app: ASGIApp, folder: Path, at: str, first: Iterable[str] = ()):
        self.app = app
        self.known = {
            f"{at}{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()
        }
        self.held: dict[str, Future[Response]] = {}
        self._lock = threading.Lock()

        def pack_first() -> None:
            for path in (f"{at}{name}" for name in first):
                if path in self.known:
                    future, new = self._future(path)
                    if new:
                        self._pack(path, future)

        threading.Thread(target=pack_first, daemon=True).start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" and scope["method"] == "GET" else ""
        if path not in self.known or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            return await self.app(scope, receive, send)
        future, new = self._future(path)
        if new:
            await run_in_threadpool(self._pack, path, future)
        answer = future.result() if future.done() else await asyncio.wrap_future(future)
        await answer(scope, receive, send)

    def _future(self, path: str) -> tuple[Future[Response], bool]:
        """The answer for a path, and whether it is new, so the caller packs it."""
        with self._lock:
            new = path not in self.held
            return self.held.setdefault(path, Future()), new

    def _pack(self, path: str, future: Future[Response]) -> None:
        try:
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            future.set_result(Response(disk.pack(self.known[path].read_bytes()), media_type=kind, headers=PACKED))
        except BaseException as error:
            with self._lock:
                del self.held[path]
            future.set_exception(error)
