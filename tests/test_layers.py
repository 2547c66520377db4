"""import-linter's contracts in pyproject.toml: the order of the house, for every module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("kernels", "explainers", "app")
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"

CIRCLE = """
import graphlib, sys
import grimp

graph = grimp.build_graph(*sys.argv[1:], cache_dir=None)
imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
graphlib.TopologicalSorter(imported).prepare()  # a CycleError names the modules
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The Python files, with an __init__.py in each folder: import-linter passes over a folder without one."""
    copy = tmp_path_factory.mktemp("house")
    for source in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        target = copy / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    for folder in [path for path in copy.rglob("*") if path.is_dir()]:
        (folder / "__init__.py").touch()
    (copy / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return copy


def ran(text, folder, *args):
    """A Python text run in a folder whose packages it finds first: its exit code and all that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", text, *args]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_each_layer_imports_only_from_those_below_and_no_modules_in_a_circle(copied):
    code, report = ran(LINT, copied)
    assert code == 0, report
    # A process of its own, since grimp finds packages by import, and this process has imported ours.
    code, report = ran(CIRCLE, copied, *FOLDERS)
    assert code == 0, report
