"""The rules of the house: who may import what, what lies where, and that nothing is listed twice without a comparison."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from explainers import glossary
from kernels.backends import PROVENANCE
from kernels.catalog import CUDA, KERNELS

ROOT = Path(__file__).parents[1]
TOP = {"app", "kernels", "explainers", "tests", ".streamlit", "requirements.txt", "README.md", ".ci", ".gitignore", "LICENSE", "pyproject.toml"}
FORBIDDEN = {
    "kernels": {"streamlit", "altair", "explainers", "app"},
    "explainers": {"streamlit", "cupy", "cuda", "pebble", "time", "os", "pathlib", "io", "app"},
    "app": {"cupy", "cuda", "torch", "ctypes"},
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_go_one_way(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert not FORBIDDEN[folder] & set(imports(path)), path


def test_only_the_app_imports_streamlit():
    users = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py") if ".venv" not in path.parts and "streamlit" in imports(path)}
    assert users <= {"app", "tests"}


def test_the_top_level_is_fixed():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    assert {line.split("/")[0].strip('"') for line in tracked if line} <= TOP


@pytest.mark.parametrize("spec", KERNELS.values(), ids=KERNELS)
def test_a_kernel_opens_with_its_five_lines(spec):
    assert [key.split(" ")[0] for key in spec.header] == ["Idea", "Changed", "Costs", "Limits", "Source"]
    assert all(spec.header.values())


def test_every_cu_is_in_the_catalogue():
    assert {path.stem for path in CUDA.glob("*.cu")} == set(KERNELS)


def test_every_phase_a_kernel_marks_has_a_name_on_the_page():
    marks = {site.event for spec in KERNELS.values() for site in spec.sites.values() if site.kind == "mark"}
    assert marks - {"tile_begin", "tile_end"} == set(glossary.PHASES)


def test_the_provenance_labels_are_those_of_the_design_and_the_readme():
    assert set(PROVENANCE.values()) <= set(glossary.PROVENANCE)
    assert list(glossary.PROVENANCE) == ["measured", "executed", "derived", "modelled", "recorded"]
    readme = (ROOT / "README.md").read_text()
    for label, meaning in glossary.PROVENANCE.items():
        assert f"| {label} | {meaning} |" in readme


def test_the_readme_lists_the_kernels_as_the_catalogue_does():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", (ROOT / "README.md").read_text(), re.M)
    assert rows == [(spec.name, spec.title, spec.idea) for spec in KERNELS.values()]


def test_the_readme_names_every_folder():
    readme = (ROOT / "README.md").read_text()
    assert all(f"{name}/" in readme for name in ("app", "kernels", "explainers", "tests", ".streamlit", "kernels/cuda", "kernels/simt", "kernels/recordings"))


def test_pinned_requirements():
    for file in ("requirements.txt", "tests/requirements.txt"):
        lines = [line for line in (ROOT / file).read_text().splitlines() if line and not line.startswith(("#", "-r"))]
        assert lines and all(re.match(r"[\w-]+(\[\w+\])?==[\w.]+( *#.*| *;.*)?$", line) for line in lines)


def test_ci_calls_the_very_test_command_of_the_readme():
    command = re.search(r"^python3 -m venv .*pytest.*$", (ROOT / "README.md").read_text(), re.M)[0]
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()
