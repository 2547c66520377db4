"""Limits uvicorn's connections. The server closes an unfinished request and refuses connections above the limit.

Only app/serve.py uses them: `streamlit run` makes its own connections, without these limits.

A process may open a limited number of files, and every connection is one. Each session opens more: its script's event
loop has three.
"""

import asyncio
import gc
import resource
import time
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

WHOLE_SECONDS = 30.0  # for a whole request, from its first byte, or from the connection's begin
REFUSED_SECONDS = 1.0  # for the request of a refused connection, before the answer
SHARE = 1 / 2  # of the open files, for connections: sessions need the rest
MOST_FILES = 2**20
FREE_SECONDS = 5.0  # between two garbage collections
FULL = (
    b"This server has as many connections as it can hold. Wait a minute, then load the page anew. "
    b"Who runs the server can raise its limit of open files (ulimit -n).\n"
)


def raise_limit() -> None:
    """Raises the limit of open files of this process to its maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _most() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else SHARE * soft


_freed = 0.0  # when the files of ended sessions were last freed


def _free_files() -> None:
    """Closes the event loops of ended sessions. Each holds three files until a garbage collection."""
    global _freed
    if time.monotonic() - _freed > FREE_SECONDS:
        _freed = time.monotonic()
        gc.collect()


class Connection(HttpToolsProtocol):
    """uvicorn's connection. Linux gives a new file the lowest free number: a socket's number counts the open files."""

    _due: asyncio.TimerHandle | None = None
    _begun = False
    _refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._refused = transport.get_extra_info("socket").fileno() >= _most()
        if self._refused:
            _free_files()
        self._wait(REFUSED_SECONDS if self._refused else WHOLE_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self._refused:  # the request is read first, else the answer may be lost
            return self._answer(b"503 Service Unavailable", FULL)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun = True
        self._wait(WHOLE_SECONDS)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._wait_no_more()

    def handle_websocket_upgrade(self) -> None:
        self._wait_no_more()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self, seconds: float) -> None:
        self._wait_no_more()
        self._due = self.loop.call_later(seconds, self._late)

    def _wait_no_more(self) -> None:
        if self._due:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        answering = self.cycle and self.cycle.response_started and not self.cycle.response_complete
        if answering or not self._begun:
            return self.transport.close()
        said = f"The request did not arrive within {WHOLE_SECONDS:g} seconds. Send it again.\n"
        self._answer(b"408 Request Timeout", said.encode())

    def _answer(self, status: bytes, said: bytes) -> None:
        """Answers without the app, and closes the connection."""
        if self.transport.is_closing():
            return
        lines = [b"HTTP/1.1 " + status, b"content-type: text/plain", b"content-length: %d" % len(said)]
        lines += [b"retry-after: 60", b"connection: close", b"", said]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()
