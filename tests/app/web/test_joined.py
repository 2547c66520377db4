"""Modules joined in one file, and its source map."""

import json
import re

import pytest

from app.web import modules
from app.web.modules import joined, plain
from tests import stage_tools

MAIN = """// The entry.
import {
  one as first, // with a comment
  made,
} from './one.js';
import shared from './one.js';
import * as two from '../b/two.js';
import { outer } from '../outer.js';
import css from './a.css';
export { two, first as again };

/** @type {import('./one.js').Some} */
export const sum = [first, two.one(), shared(), outer, css.length]; // 'kept'
export const later = name => import(`../b/${name}.js`);
export async function both() {
  return (await later('three')).three + (await import('../beyond.js')).beyond + made.length;
}
export default function () {
  return made;
}
"""
ONE = """export const made = [];
made.push('one');
export const one = 1;
export default function () {
  return 4;
}
"""
TEXTS = {
    "a/main.js": MAIN,
    "a/one.js": ONE,
    "a/a.css": "b {\n  color: red;\n}",
    "b/two.js": "import { one as it } from '../a/one.js';\nexport function one() {\n  return it + 1;\n}\n",
    "b/three.js": "import { made } from '../a/one.js';\nmade.push('three');\nexport class A {}\nexport const three = 3",
}


def test_a_joined_file_does_what_its_modules_do(tmp_path):
    whole = joined("whole.js", "a/main.js", TEXTS) | {
        "outer.js": "export const outer = 8;",
        "beyond.js": "export const beyond = 100;",
        "package.json": '{"type": "module"}',
        "ask.js": """import main, * as all from './whole.js';
            const before = [...main()];
            console.log(JSON.stringify([Object.keys(all), all.sum, all.again, before, await all.both(), main()]));""",
    }
    for name, text in whole.items():
        (tmp_path / name).write_text(text)
    said = json.loads(stage_tools.run("node", str(tmp_path / "ask.js")))
    names = ["again", "both", "default", "later", "sum", "two"]
    assert said == [names, [1, 2, 4, 8, 19], 1, ["one"], 105, ["one", "three"]]


@pytest.mark.parametrize(
    "line",
    ["import './one.js';", "import a, { b } from './one.js';", "export * from './one.js';", "export let count = 0;"],
)
def test_another_form_of_import_or_export_is_refused_with_its_line(line):
    with pytest.raises(ValueError, match="main.js has `(import|export) ") as refused:
        joined("whole.js", "main.js", {"main.js": f"const a = 1;\n{line}\n", "one.js": ONE})
    assert line in str(refused.value)


def test_an_import_without_an_export_is_refused():
    with pytest.raises(ValueError, match="main.js imports four, and one.js has no export of this name"):
        joined("whole.js", "main.js", {"main.js": "import { one, four } from './one.js';\n", "one.js": ONE})


@pytest.mark.parametrize("file, some", [("stage.js", "core/clock.js"), ("workbench.js", "workbench/editor.js")])
def test_the_source_map_leads_from_each_line_to_its_line(file, some):
    texts = modules.modules()
    lines, compared = texts[file].split("\n"), {}
    assert lines[-1] == f"//# sourceMappingURL={file}.map"
    for section in json.loads(texts[f"{file}.map"])["sections"]:
        (name,), first = section["map"]["sources"], section["offset"]["line"]
        assert lines[first - 1] == f"'{name}': () => {{" and section["offset"]["column"] == 0
        if name.endswith(".js"):
            assert section["map"]["mappings"].split(";") == ["AAAA", *["AACA"] * texts[name].count("\n")]
            pairs = zip(plain(texts[name]).split("\n"), lines[first:])
            kept = [(one, other) for one, other in pairs if not re.search(r"\b(import|export|from)\b", one)]
            assert all(one == other for one, other in kept), name
            compared[name] = len(kept)
    assert compared[some] > 50


def test_only_comments_and_indentation_go(tmp_path):
    own = [name for name in modules.modules() if re.match(r"(core|views|shell|workbench)/.*\.js$", name)]
    for name in own:
        for kind, text in {"whole": modules.modules()[name], "plain": plain(modules.modules()[name])}.items():
            path = tmp_path / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    paths = [str(tmp_path / kind / name) for kind in ("whole", "plain") for name in own]
    options = ["--minify-whitespace", "--log-level=error", f"--outbase={tmp_path}", f"--outdir={tmp_path / 'out'}"]
    stage_tools.run("esbuild", *options, *paths)
    made = [[(tmp_path / "out" / kind / name).read_text() for name in own] for kind in ("whole", "plain")]
    assert made[0] == made[1] and len(own) > 100
