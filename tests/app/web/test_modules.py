"""The browser's modules, and their bundle."""

import gzip
import json
import posixpath
import re
import runpy
from pathlib import Path

from app.web import modules
from tests import stage_tools

MAKE = Path(__file__).parents[3] / ".ci" / "stage_bundle.py"


def test_every_module_that_a_module_imports_is_there():
    for name, text in modules.modules().items():
        folder = name.rpartition("/")[0]
        for path in re.findall(r"^import [^;]*?from '([^']+)';", text, re.M):
            assert posixpath.normpath(f"{folder}/{path}") in modules.modules(), (name, path)


def test_what_python_knows_is_said_once():
    lines = dict(
        line.removeprefix("export const ").rstrip(";").split(" = ", 1)
        for line in modules.modules()["core/data.js"].splitlines()
    )
    assert set(json.loads(lines["PROVENANCE"])) == {"measured", "executed", "derived", "modelled", "recorded"}
    assert json.loads(lines["TERMS"]) and json.loads(lines["PALETTE"])["tensors"]


def test_the_bundle_is_of_these_sources():
    file = modules.bundle_of(modules.sources())
    editor = modules.workbench_bundle_of(modules.workbench_sources())
    assert {file, editor} == set(modules.BUNDLES.iterdir()), "A bundle is old. Run: python .ci/stage_bundle.py"
    stage_tools.run("esbuild", "--version")  # fails or skips without it
    made = runpy.run_path(str(MAKE))
    assert gzip.decompress(file.read_bytes()) == made["bundled"]()
    assert gzip.decompress(editor.read_bytes()) == made["workbench"]()
    assert modules.first() == ["stage.js", "core/data.js"]


def test_only_the_workbench_has_the_editor_and_it_is_small():
    texts = modules.modules()
    assert "cm-content" in texts["workbench.js"] and "cm-content" not in texts["stage.js"]
    assert modules.workbench_bundle_of(modules.workbench_sources()).stat().st_size < 180_000


def test_an_edited_module_leaves_the_bundle_unused(monkeypatch):
    edited = modules.sources() | {"core/clock.js": "export const clock = 1;"}
    monkeypatch.setattr(modules, "sources", lambda: edited)
    monkeypatch.setattr(modules, "modules", modules.modules.__wrapped__)  # without its cache
    assert modules.entry() == "shell/app.js"
    assert {"core/clock.js", "shell/guide.js", "core/data.js"} <= set(
        modules.first()
    ) and "stage.js" not in modules.first()
