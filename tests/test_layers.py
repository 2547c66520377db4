"""import-linter's contracts in pyproject.toml: the order of the house, for every module."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("kernels", "explainers", "app")
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"

CIRCLE = """
import graphlib, json, sys
import grimp

graph = grimp.build_graph(*sys.argv[1:], cache_dir=None)
imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
try:
    graphlib.TopologicalSorter(imported).prepare()
    print("null")
except graphlib.CycleError as error:
    print(json.dumps(error.args[1]))
"""


@pytest.fixture
def copied(tmp_path):
    """The Python files, with an __init__.py in each folder: import-linter passes over a folder without one."""
    for source in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    for folder in [path for path in tmp_path.rglob("*") if path.is_dir()]:
        (folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


def linted(folder):
    """The exit code and the report of import-linter in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", LINT], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_each_layer_imports_only_from_those_below(copied):
    code, report = linted(copied)
    assert code == 0, report


def circle(folder):
    """The modules of a circle of imports in a folder, or None. A process of its own, since grimp finds packages by
    import, and this process has imported ours."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", CIRCLE, *FOLDERS],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_no_modules_import_each_other_in_a_circle(copied):
    assert circle(copied) is None


def test_a_circle_is_found(copied):
    with (copied / "kernels" / "errors.py").open("a") as file:
        file.write("\ndef late():\n    import kernels.core.fields\n")
    assert "kernels.errors" in circle(copied)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("kernels/core/fields.py", "import kernels.run.execute"),
        ("kernels/errors.py", "def late():\n    import kernels.core.fields"),
        ("kernels/catalog.py", "import explainers.story.glossary"),
        ("explainers/story/glossary.py", "import app.web.server"),
    ],
)
def test_an_import_from_above_breaks_a_contract(copied, module, line):
    path = copied / module
    path.write_text(f"{path.read_text()}\n{line}\n")
    code, report = linted(copied)
    assert code == 1 and "BROKEN" in report
