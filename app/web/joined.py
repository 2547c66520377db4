"""Joins JavaScript modules in one. A browser would send 150 requests for the modules themselves.

Each module becomes a function that returns its exports. It runs once, when another module first needs it. Comments and
indentation go. Each line stays a line, so a source map of lines shows the files in a browser's tools.

A module exports with `export const a`, `export class A`, `export function a`, `export { a, b as c };` and
`export default function (`. It imports with `import { a, b as c } from './m.js';`, `import a from './m.js';`,
`import * as a from './m.js';`, `import('./m.js')` and `import(`./${name}.js`)`.
"""

import json
import posixpath
import re
from collections.abc import Mapping

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
        raise ValueError(f"{name} has `{other[0]}`. Write it in one of the forms at the head of app/web/joined.py.")
    return code, exports | {"default": "$default"} if defaults else exports, imports


def _pairs(names: str) -> dict[str, str]:
    """a, b as c -> {a: a, b: c}"""
    pairs = [name.split(" as ") for name in re.findall(r"\w+(?: as \w+)?", names)]
    return {pair[0]: pair[-1] for pair in pairs}
