"""A server and a Chromium, shared by all browser tests. REQUIRE_BROWSER=1 turns a missing browser into a failure."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from kernels import execute
from kernels.catalog import KERNELS

ROOT = Path(__file__).parents[2]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


class Server:
    """`streamlit run app/main.py` on a free port."""

    def __init__(self, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)], cwd=ROOT,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment})
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1)
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="session")
def server():
    made = Server()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def browser():
    path = shutil.which("chromium")
    if not path:
        message = "chromium was not found: install Debian's chromium to run the browser tests"
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def visit(browser, server):
    """visit(path, **context options) -> a page whose story is ready to step; closed, with its errors raised, at the end."""
    contexts, errors = [], []

    def make(path="", base=None, wait="#warpglass-clock", **options):
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((base or server.url) + path)
        ready(page, wait)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not errors


def ready(page, selector="#warpglass-clock"):
    page.wait_for_selector(selector, timeout=60_000)
    page.wait_for_selector('[data-testid=stApp][data-test-script-state=notRunning]', timeout=60_000)
    if selector == "#warpglass-clock":
        page.wait_for_selector("canvas[aria-label]", timeout=30_000)
        page.wait_for_selector(".code .row", timeout=30_000)


@pytest.fixture(scope="session")
def run_of():
    """run_of(name, problem, settings, scope) -> the same Run that the page shows, executed here."""
    def make(name, problem, settings=(), scope=None):
        spec = KERNELS[name]
        return execute.run(execute.Request(spec, problem, tuple(spec.settings(settings).items()), scope or execute.Scope()))
    return make
