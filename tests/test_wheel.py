"""The wheel gives one top-level name and one command, in any folder, and next to a foreign package `kernels`."""

import ast
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from hatchling.build import build_editable
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app import __main__ as command
from app import serve
from kernels import __main__ as kernels

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = ("kernels", "explainers", "app")
OK, FAILED, USAGE, NO_GPU = 0, 1, 2, 3
# As `warpglass`, up to the server's first breath.
SETTINGS = """
import os, sys
from warpglass.app import __main__ as command
from warpglass.app.guards import connections

def show(server):
    from streamlit import config
    from warpglass.kernels import catalog
    print(os.getcwd(), config.get_option("client.toolbarMode"), "skeleton" in catalog.current().kernels)

connections.Server.run = show
sys.exit(command.main([]))
"""


@pytest.fixture(scope="module")
def hooks():
    """The module of hatchling's hooks."""
    spec = importlib.util.spec_from_file_location("warpglass_wheel", ROOT / ".ci" / "warpglass_wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def environment(installed, tmp_path):
    """The environment of a process with the wheel behind a foreign package `kernels`, and without a GPU."""
    foreign = tmp_path / "foreign" / "kernels"
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("FOREIGN = True\n")
    path = os.pathsep.join([str(foreign.parent), str(installed)])
    return {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def python(environment, tmp_path):
    """python(*words, code=0) -> output of Python in another folder. It must end with this exit code."""

    def run(*words, code=OK):
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout if code == OK else done.stdout + done.stderr

    return run


@pytest.fixture
def warpglass(python, installed):
    """warpglass(*words, code=0) -> output of the command in another folder."""

    def run(*words, code=OK):
        return python(installed / "bin" / "warpglass", *words, code=code)

    return run


@pytest.mark.slow
def test_the_wheel_gives_only_the_name_warpglass_and_runs_next_to_a_foreign_package(installed, python):
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"warpglass", "bin"}
    assert [path.name for path in (installed / "bin").iterdir()] == ["warpglass"]
    top = {path.name for path in (installed / "warpglass").iterdir()} - {"__pycache__"}
    assert top == {"__init__.py", "__main__.py", "difference.py", "notebook.py", "ops.py", ".streamlit", *OURS}
    said = (
        "import torch, warpglass.ops; q = torch.randn(1, 2, 20, 64); print(warpglass.ops.attention(q, q, q)[0].shape)"
    )
    assert python("-c", said).strip() == "torch.Size([1, 2, 20, 64])"
    story = "import warpglass; print(warpglass.run('03_flash', seq_len=64).story('tiling'))"
    assert python("-c", story).startswith("Tiles - Warpglass")
    script = "import warpglass.app.main, warpglass.app.stories, kernels; print(kernels.FOREIGN, kernels.__path__)"
    assert python("-c", script).startswith("True")


@pytest.mark.slow
def test_the_command_runs_and_checks_a_kernel_and_its_help_names_the_pages(warpglass):
    assert "03_flash" in warpglass("list")
    result = json.loads(warpglass("run", "03_flash", "--backend", "cpu", "--json"))
    assert result["correct"] is True
    checked = json.loads(warpglass("check", "03_flash", "--every", "40", "--json"))
    assert checked["ok"] is True and checked["verdicts"]
    said = warpglass("--help")
    assert "warpglass serve" in said and "warpglass check FILE.cu" in said and "python -m" not in said
    assert "usage: warpglass serve" in warpglass("serve", "--help")


@pytest.mark.slow
def test_the_command_keeps_the_exit_codes(warpglass, installed, tmp_path):
    (tmp_path / "wrong.cu").write_text((installed / "warpglass" / "kernels" / "skeleton.cu").read_text())
    checked = json.loads(warpglass("check", "wrong.cu", "--every", "40", "--json", code=FAILED))
    assert checked["ok"] is False and {verdict["ok"] for verdict in checked["verdicts"]} == {False}
    assert "missing.cu" in warpglass("check", "missing.cu", code=USAGE)
    assert "usage: warpglass" in warpglass("chek", code=USAGE)
    assert "--port is 70000" in warpglass("--port", "70000", code=USAGE)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert "choose one with --port" in warpglass("--port", port, code=FAILED)
    assert "GPU" in warpglass("run", "03_flash", "--backend", "gpu", code=NO_GPU)


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["serve", "--host", "127.0.0.1"]], ids=["no word", "serve"])
def test_the_command_serves_the_page(words, environment, installed, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, installed / "bin" / "warpglass", *words, "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"Warpglass: http://127.0.0.1:{port}/\n"
        page, end = "", time.monotonic() + 60
        while not page:
            assert process.poll() is None and time.monotonic() < end
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).read().decode()
            except urllib.error.URLError:
                time.sleep(0.1)
        assert "<title>" in page
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == OK


@pytest.mark.slow
def test_the_server_reads_its_own_settings_and_the_folders_of_the_user(python, environment, installed, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "skeleton.cu").write_text((installed / "warpglass" / "kernels" / "skeleton.cu").read_text())
    environment["WARPGLASS_KERNELS"] = "mine"
    assert python("-c", SETTINGS).splitlines()[-1] == f"{tmp_path} viewer True"


@pytest.mark.slow
def test_no_installed_module_names_a_module_of_the_repository(installed):
    folder = installed / "warpglass"
    places = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*/*.py")}
    modules = {place.removesuffix("/__init__").replace("/", ".") for place in places} - set(OURS)
    found = []
    for path in folder.rglob("*.py"):
        text = path.read_text()
        if re.search(rf"-m\s+({'|'.join(OURS)})\b|python -m *\"?$", text, re.M):
            found.append(f"{path}: a command")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.split(".")[0] in OURS]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module] if not node.level and node.module.split(".")[0] in OURS else []
            else:
                value = node.value if isinstance(node, ast.Constant) else None
                names = [value] if isinstance(value, str) and value.removesuffix(".") in modules else []
            found += [f"{path}:{node.lineno}: {name}" for name in names]
    assert not found


def test_the_build_renames_imports_and_commands_and_no_other_text(hooks):
    text = (
        '"""Run python -m kernels check, python -m app.serve or python -m kernels.run.workers work."""\n'
        "from kernels.core import fields\nfrom os import path\n\n\n"
        "def late():\n    from app import web  # from kernels\n    return '''\nfrom app import x\n'''\n"
    )
    assert hooks.renamed(text) == (
        '"""Run warpglass check, warpglass serve or python -m warpglass.kernels.run.workers work."""\n'
        "from warpglass.kernels.core import fields\nfrom os import path\n\n\n"
        "def late():\n    from warpglass.app import web  # from kernels\n    return '''\nfrom app import x\n'''\n"
    )


def test_a_word_of_the_command_chooses_between_the_pages_and_the_kernels(monkeypatch):
    called = []
    monkeypatch.setattr(serve, "main", lambda words: called.append(("serve", words)) or OK)
    monkeypatch.setattr(kernels, "main", lambda words: called.append(("kernels", words)) or FAILED)
    assert [command.main(words.split()) for words in ("", "serve --port 1", "--port 1")] == [OK] * 3
    assert [command.main(words.split()) for words in ("check a.cu --json", "--help")] == [FAILED] * 2
    assert called == [
        ("serve", []),
        ("serve", ["--port", "1"]),
        ("serve", ["--port", "1"]),
        ("kernels", ["check", "a.cu", "--json"]),
        ("kernels", ["--help"]),
    ]


def test_the_package_has_the_version_the_requirements_and_the_command(hooks, monkeypatch, tmp_path):
    """Of the editable wheel, which has the same description and few files."""
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build_editable(str(tmp_path))) as wheel:
        wheel.extractall(tmp_path)
    assert (tmp_path / "_warpglass.pth").read_text().strip() == str(ROOT)
    (found,) = metadata.distributions(path=[str(tmp_path)])
    assert (found.name, found.version) == ("warpglass", CONFIG["project"]["version"])
    assert re.search(rf"^## .*\b{re.escape(found.version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)
    (entry,) = found.entry_points
    assert (entry.group, entry.name, entry.value) == ("console_scripts", "warpglass", "warpglass.__main__:main")
    needed = [Requirement(line) for line in found.requires]

    def of(extra):
        return {need.name for need in needed if need.marker is None or need.marker.evaluate({"extra": extra})}

    assert {"torch", "sandlock"} <= of("") and not {name for name in of("") if name.startswith("cu")}
    assert "streamlit" not in of("") and "streamlit" in of("pages")
    assert not [need for need in needed if need.marker is None and "==" in str(need.specifier)]  # nobody's torch goes
    assert {"cupy-cuda12x", "cuda-bindings", "nvidia-cuda-nvrtc-cu12"} <= of("cuda12")
    assert {"cupy-cuda13x", "cuda-bindings", "nvidia-cuda-nvrtc"} <= of("cuda13")
    listed = {canonicalize_name(Requirement(line).name) for line in hooks.requirements(ROOT / "requirements.txt")}
    assert of("cuda12") | of("pages") == listed
    (built,) = CONFIG["build-system"]["requires"]
    assert built in hooks.requirements(ROOT / "tests" / "requirements.txt")
