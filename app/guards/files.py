"""The open files of this process. Every browser holds some, and the system allows a limited number.

A browser holds PER_BROWSER files: its socket, its socket of a class, and its session's event loop from Streamlit (three
files). Its requests need more for a moment (connections.py). A server without files for one more browser refuses its
page as a whole, before the first script.
"""

import gc
import os
import resource
import sys
import time
from collections import deque

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import runtime

MOST_FILES = 2**20
PER_BROWSER, LOOP = 5, 3
SPARE = 64  # files of bundles, pipes to workers and compilers
REQUESTS = 64  # connections of requests
FREE_SECONDS = 5.0  # between two looks for ended sessions
FREED_SHARE = 1 / 2  # of the limit: with more open files, ended sessions go at once
COMES = 60.0  # seconds from a page to its socket
STREAM = "/_stcore/stream"  # Streamlit's socket, one for each page
_DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
FULL = (
    "This server has as many browsers as it can hold. Wait a minute, then load the page anew. "
    "Who runs the server can raise its limit of open files (ulimit -n)."
)


def raise_limit() -> None:
    """Raises the limit of open files of this process to its maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def used() -> int:
    return len(os.listdir(_DESCRIPTORS))  # noqa: PTH208 - a third of the time of Path.iterdir


_freed = 0.0  # when the files of ended sessions were last freed


def free() -> None:
    """Ends the sessions without a browser. Streamlit keeps each for two minutes, with LOOP files."""
    global _freed
    if time.monotonic() - _freed < FREE_SECONDS:
        return
    _freed = time.monotonic()
    if runtime.exists():
        sessions = runtime.get_instance()._session_mgr
        for ended in vars(sessions)["_session_storage"].list():
            sessions.close_session(ended.session.id)
    gc.collect()  # sessions that their page left while its script ran


_coming: deque[float] = deque()  # when the pages without a socket so far were sent


def coming() -> int:
    """The number of browsers that have a page and will open its socket."""
    while _coming and time.monotonic() - _coming[0] > COMES:
        _coming.popleft()
    return len(_coming)


class Pages:
    """Middleware that refuses the page of a browser for which no files are left."""

    def __init__(self, app: ASGIApp):
        self.app, self.here = app, 0
        self.own = used()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"].endswith(STREAM):
            if _coming:
                _coming.popleft()
            self.here += 1
            try:
                return await self.app(scope, receive, send)
            finally:
                self.here -= 1
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        ours = is_get and ("/wg/" in scope["path"] or "/_stcore/" in scope["path"] or scope["path"].endswith("/health"))
        if is_get and not ours and "text/html" in Headers(scope=scope).get("accept", ""):  # a page of the app
            if used() > FREED_SHARE * limit():
                free()
            if self.here + coming() >= (limit() - self.own - SPARE - REQUESTS) // PER_BROWSER:
                said = f'<!doctype html><html lang="en"><title>Warpglass</title><p>{FULL}</p></html>'
                return await HTMLResponse(said, 503, {"retry-after": "60"})(scope, receive, send)
            _coming.append(time.monotonic())
        return await self.app(scope, receive, send)
