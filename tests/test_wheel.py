"""The wheel gives one top-level name, and works next to a foreign package `kernels`."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True, cwd=folder)
    return folder / "site"


@pytest.fixture
def python(installed, tmp_path):
    """python(*words) -> output of Python in another folder, with the wheel behind a foreign package `kernels`."""
    foreign = tmp_path / "foreign" / "kernels"
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("FOREIGN = True\n")

    def run(*words):
        path = os.pathsep.join([str(foreign.parent), str(installed)])
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_the_wheel_gives_only_the_name_warpglass(installed):
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"warpglass"}
    top = {path.name for path in (installed / "warpglass").iterdir()} - {"__pycache__"}
    assert top == {"__init__.py", "ops.py", ".streamlit", "kernels", "explainers", "app"}


@pytest.mark.slow
def test_the_installed_operators_run_next_to_a_foreign_package(python):
    said = (
        "import torch, warpglass.ops; q = torch.randn(1, 2, 20, 64); print(warpglass.ops.attention(q, q, q)[0].shape)"
    )
    assert python("-c", said).strip() == "torch.Size([1, 2, 20, 64])"


@pytest.mark.slow
def test_the_installed_command_runs_a_kernel_next_to_a_foreign_package(python):
    assert "03_flash" in python("-m", "warpglass.kernels", "list")
    result = json.loads(python("-m", "warpglass.kernels", "run", "03_flash", "--backend", "cpu", "--json"))
    assert result["correct"] is True


@pytest.mark.slow
def test_the_installed_modules_leave_the_name_kernels_to_the_other_package(python):
    script = "import warpglass.app.stories, warpglass.app.serve, kernels; print(kernels.FOREIGN, kernels.__path__)"
    assert python("-c", script).startswith("True")


@pytest.mark.slow
def test_no_installed_module_imports_a_name_of_the_repository(installed):
    plain = re.compile(r"^\s*(?:from|import) (?:kernels|explainers|app)\b", re.M)
    found = [path for path in installed.rglob("warpglass/**/*.py") if plain.search(path.read_text())]
    assert not found


def test_the_wheel_has_the_version_of_the_changelog_and_the_dependencies_of_the_requirements():
    project = CONFIG["project"]
    assert project["name"] == "warpglass" and project["dynamic"] == ["dependencies"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## .*\b{re.escape(project['version'])}\b", changelog, re.M)
