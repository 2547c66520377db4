"""Fresh environments from README's commands, without toolkit, cache and settings of pip. Each has gigabytes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from answering import until_it_answers

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FULL = "-r requirements.txt"
LIGHT = re.search(r"^\| without a GPU \| `(.*?)` \|", README, re.M)[1]


@pytest.fixture(scope="module", params=[FULL, LIGHT], ids=["full", "light"])
def fresh(request, tmp_path_factory):
    """python(*words, **options) -> the finished process of the fresh environment's Python."""
    home = tmp_path_factory.mktemp("home")
    dropped = ("PIP_", "PYTHON", "XDG_", "WARPGLASS_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    environment |= {"HOME": str(home), "PIP_CONFIG_FILE": os.devnull, "CUDA_HOME": str(home / "no toolkit")}
    words = request.param.split()
    if words != FULL.split() and "PIP_FIND_LINKS" in os.environ:  # torch for the CPU is on this machine
        environment["PIP_FIND_LINKS"] = os.environ["PIP_FIND_LINKS"]
        words = words[: words.index("--extra-index-url")]
    if "PIP_CERT" in os.environ:
        environment["PIP_CERT"] = os.environ["PIP_CERT"]
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
    python = home / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", *words], cwd=ROOT, env=environment, check=True)

    def run(*words, start=subprocess.run, **options):
        return start([python, *words], cwd=ROOT, env=environment, text=True, **options)

    run.home, run.light = home, request.param == LIGHT
    return run


def out(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_kernel_agrees_with_float64(fresh):
    assert "none wrong" in out(fresh("-m", "kernels", "check", "03_flash", "--backend", "cpu", capture_output=True))


@pytest.mark.slow
def test_a_kernel_compiles_for_a_gpu(fresh):
    words = ("-m", "kernels", "inspect", "12_optimistic", "--arch", "sm_90a")
    assert "registers" in out(fresh(*words, capture_output=True))


@pytest.mark.slow
def test_the_app_shows_its_first_page(fresh, browser):
    log = fresh.home / "log"
    with log.open("w") as file:
        words = ("-m", "streamlit", "run", "app/main.py", "--server.port", "18501")
        server = fresh(*words, start=subprocess.Popen, stdout=file, stderr=file)
    try:
        until_it_answers("http://127.0.0.1:18501/", log)
        page = browser.new_page()
        page.goto("http://127.0.0.1:18501/online_softmax")
        page.wait_for_selector(".wg[data-shown^=online_softmax] .picture canvas", timeout=120_000)
        page.close()
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.slow
def test_the_light_set_is_light(fresh):
    if not fresh.light:
        pytest.skip("this is the full set")
    files = (path.lstat() for path in (fresh.home / "venv").rglob("*") if path.is_file() and not path.is_symlink())
    assert sum(file.st_blocks * 512 for file in files) < 1.8e9
