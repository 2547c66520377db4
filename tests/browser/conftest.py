"""A server and a Chromium, shared by all browser tests. REQUIRE_BROWSER=1 turns a missing browser into a failure."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from kernels.catalog import KERNELS
from kernels.core.request import Request, Scope
from kernels.run import execute

ROOT = Path(__file__).parents[2]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Server:
    """`streamlit run app/main.py` on a free port."""

    def __init__(self, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        handle, path = tempfile.mkstemp(suffix=".log")
        self.log, self._seen = Path(path), 0
        with os.fdopen(handle, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
            )
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1)
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def crashes(self):
        """What the server has said, since this was last asked, of pages that ended with an error."""
        said, before = self.log.read_text(), self._seen
        self._seen = len(said)
        return "".join(said[before:].partition("Uncaught app execution")[1:])

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.unlink()


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
    """visit(path, **context options) -> a page whose story is ready to step; closed, with its errors and its server's
    raised, at the end."""
    contexts, errors, servers = [], [], {server}

    def make(path="", at=server, wait="#warpglass-clock", **options):
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        servers.add(at)
        page.goto(at.url + path)
        ready(page, wait)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not errors
    assert not [crash for one in servers if (crash := one.crashes())]


def ready(page, selector="#warpglass-clock"):
    page.wait_for_selector(selector, timeout=60_000)
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=60_000)
    if selector == "#warpglass-clock":
        page.wait_for_selector("canvas[aria-label]", timeout=30_000)
        page.wait_for_selector(".code .row", timeout=30_000)


@pytest.fixture(scope="session")
def run_of():
    """run_of(name, problem, settings, scope) -> the same Run that the page shows, executed here."""

    def make(name, problem, settings=(), scope=None):
        spec = KERNELS[name]
        return execute.run(Request(spec, problem, tuple(spec.settings(settings).items()), scope or Scope()))

    return make
