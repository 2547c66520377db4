"""The browser's modules, and the packages of the Workbench's editor."""

import graphlib
import json
import posixpath
import re

from app.web import modules
from tests import stage_tools


def imported(name, text):
    """The names of the modules that a module imports."""
    paths = re.findall(r"^import [^;]*? from '([^']+)';", text, re.M)
    return {posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in paths}


def test_every_module_that_a_module_imports_is_there():
    for name, text in modules.modules().items():
        for path in imported(name, text):
            assert path in modules.modules(), (name, path)


def test_what_python_knows_is_said_once():
    lines = dict(
        line.removeprefix("export const ").rstrip(";").split(" = ", 1)
        for line in modules.modules()["core/data.js"].splitlines()
    )
    assert set(json.loads(lines["PROVENANCE"])) == {"measured", "executed", "derived", "modelled", "recorded"}
    assert json.loads(lines["TERMS"]) and json.loads(lines["PALETTE"])["tensors"]


def test_the_modules_form_no_circle():
    needs = {name: imported(name, text) for name, text in modules.modules().items()}
    assert "core/paint.js" in needs["core/mount.js"]
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError


def test_only_the_workbench_has_the_editor():
    texts = modules.modules()
    assert "cm-cursorLayer" in texts["vendor/codemirror.mjs"]  # a class of the editor
    assert "cm-cursorLayer" not in texts["stage.js"] + texts["workbench.js"]
    assert texts["workbench.js"].startswith("import * as $outside0 from './vendor/codemirror.mjs'\n")
    assert not re.search("^import ", texts["stage.js"], re.M)


def test_the_editor_is_built_of_the_packages_that_its_licence_lists(tmp_path):
    """After a change of them, run: npm run vendor --prefix app/stage"""
    tool, *options = json.loads((stage_tools.STAGE / "package.json").read_text())["scripts"]["vendor"].split()
    out, meta = tmp_path / "codemirror.mjs", tmp_path / "meta.json"
    given = [option for option in options if not option.startswith("--outfile")]
    stage_tools.run(tool, *given, f"--outfile={out}", f"--metafile={meta}", "--log-level=error")
    assert out.read_text() == modules.modules()["vendor/codemirror.mjs"]
    paths = [path for path in json.loads(meta.read_text())["inputs"] if "node_modules/" in path]
    packages = {re.search(r"node_modules/((?:@[^/]+/)?[^/]+)/", path)[1] for path in paths}
    licence = (stage_tools.STAGE / "vendor" / "LICENSE").read_text()
    assert packages == set(re.findall(r"^(?:@[\w-]+/)?[a-z][\w-]+$", licence, re.M))
