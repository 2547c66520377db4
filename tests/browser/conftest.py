"""A server and a Chromium, shared by all browser tests. REQUIRE_BROWSER=1 turns a missing browser into a failure."""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from answering import until_it_answers

from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
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
SIZE = {"width": 1500, "height": 1000}
REMEMBERED = "try { localStorage['warpglass-depth'] ??= '%s' } catch {};"
# Tests read the clock of the mounted stage as window.clock.
CLOCK = "Object.defineProperty(window, 'clock', { get: () => document.querySelector('.wg')?.stage?.clock });"
DRAWN = Path(__file__).with_name("drawn.js").read_text()


class Server:
    """`streamlit run app/main.py` on a port, else a free one; with arguments, `python -m app.serve` with those.
    before(port): called before it starts."""

    def __init__(self, arguments=(), port=0, before=None, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = port or free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if before:
            before(self.port)
        handle, path = tempfile.mkstemp(suffix=".log")
        self.log, self._seen = Path(path), 0
        atexit.register(self.log.unlink, missing_ok=True)
        one = ["streamlit", "run", "app/main.py", "--server.port", str(self.port)]
        module = ["app.serve", *arguments, "--port", str(self.port)] if arguments else one
        with os.fdopen(handle, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *module], cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **environment}
            )
        atexit.register(self.process.kill)  # where a test fails before it stops it
        base = arguments[arguments.index("--base-path") + 1] + "/" if "--base-path" in arguments else ""
        until_it_answers(f"{self.url}/{base}", self.log)

    def crashes(self):
        """What the server has said, since this was last asked, of pages that ended with an error."""
        said, before = self.log.read_text(), self._seen
        self._seen = len(said)
        return "".join(said[before:].partition("Traceback (most recent call last)")[1:])

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
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # the shell takes half as long to open
    if not path:
        message = "No Chromium was found: install Debian's chromium-headless-shell or chromium for the browser tests."
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)  # a busy machine is slow, and what is right need not wait
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()


def context_of(browser, script=REMEMBERED % "everything", **options):
    """A new browser context with window.clock and the errors of drawn.js. Its browser remembers a depth, because most
    tests use all controls."""
    context = browser.new_context(**options)
    context.add_init_script(CLOCK + DRAWN + script)
    return context


@pytest.fixture(scope="session")
def idle(browser):
    """Pages between two tests. The next story opens in half the time in a page that has shown one."""
    pages = []
    yield pages
    for page in pages:
        page.context.close()


def empty(page, url):
    """Leaves what a page shows. Its browser then remembers nothing of that server, and its tab has no way back."""
    page.unroute_all()
    page.goto(f"{url}/_stcore/health")
    page.evaluate("localStorage.clear(); sessionStorage.clear()")
    page.mouse.move(0, 0)
    page.context.clear_cookies()
    devtools = page.context.new_cdp_session(page)
    devtools.send("Page.resetNavigationHistory")
    devtools.detach()


@pytest.fixture
def visit(browser, server, idle):
    """visit(path, **options) -> a page whose story is shown, in a browser that remembers only its depth; its errors and
    its server's are raised at the end. depth="guided": as a reader first sees it. script: runs before the page's own.
    before(page) is called before the page opens."""
    pages, servers, scripts = [], {server}, []

    def make(
        path="",
        at=server,
        wait="shown",
        before=None,
        script="",
        depth="everything",
        viewport=SIZE,
        color_scheme="light",
        reduced_motion="no-preference",
        **options,
    ):
        fresh = not idle or before or options or at is not server
        page = context_of(browser, "", viewport=SIZE, **options).new_page() if fresh else idle.pop()
        if fresh:
            page.errors = []
            page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.reusable = not before and not options and at is server
        pages.append(page)
        servers.add(at)
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        scripts.append(page.add_init_script(REMEMBERED % depth + script))
        if before:
            before(page)
        page.goto(at.url + path, wait_until="commit")
        if wait == "shown":
            shown(page)
        elif wait:
            page.wait_for_selector(wait, timeout=60_000)
        return page

    yield make
    for script in scripts:
        script.close()
    errors = [error for page in pages for error in page.errors]
    for page in pages:
        for popup in page.context.pages:
            if popup is not page:
                popup.close()
        if page.reusable and not page.errors:
            empty(page, server.url)
            page.errors.clear()
            idle.append(page)
        else:
            page.context.close()
    assert not errors
    assert not [crash for one in servers if (crash := one.crashes())]


def shown(page, story=None, other=None):
    """Waits until a story is shown and drawn: this one, if one is named, and another bundle than `other`. Its name."""
    ask = """([story, other]) => { const root = document.querySelector('.wg'), shown = root?.dataset.shown ?? '';
      const [path, bundle] = shown.split(' ');
      return bundle && (!story || path === story) && bundle !== other && !root.classList.contains('asking')
        && [...root.querySelectorAll('.picture > .view')].every(view => view.childElementCount) ? bundle : null; }"""
    return page.wait_for_function(ask, arg=[story, other], timeout=60_000, polling=20).json_value()


@pytest.fixture(scope="session")
def run_of():
    """run_of(name, problem, settings, scope) -> the same Run that the page shows, executed here."""

    def make(name, problem, settings=(), scope=None):
        spec = KERNELS[name]
        return execute.run(Request(spec, problem, tuple(spec.settings(settings).items()), scope or Scope()))

    return make


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *said):
        pass


@pytest.fixture
def site(folder):
    """(address of the site, a call that ends its server). folder: what is served, with the site at a/path in it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def end():
        server.shutdown()
        server.server_close()

    yield f"http://127.0.0.1:{server.server_port}/a/path", end
    end()


@pytest.fixture
def page(browser):
    """A page without the server, which may raise nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    made, errors = context.new_page(), []
    made.add_init_script(CLOCK)
    made.on("pageerror", lambda error: errors.append(str(error)))
    yield made
    context.close()
    assert not errors
