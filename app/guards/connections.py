"""Limits uvicorn's connections. The server closes unfinished requests, and takes connections only while files are free.

Only app/serve.py uses them: `streamlit run` makes its own connections, without these limits.

A class opens its pages at one moment, with six connections for each browser. They wait in the system's queue (backlog)
until files are free. If none is free for WAITS seconds, the server refuses connections in words.
"""

import asyncio
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.guards import files

WHOLE_SECONDS = 30.0  # for a whole request, from its first byte, or from the connection's begin
REFUSED_SECONDS = 1.0  # for the request of a refused connection, before the answer
WAITS = 10.0  # seconds without a free file, after which connections are refused
AGAIN = 0.02  # seconds between two looks for a free file
KEPT_SHARE = 1 / 4  # of the limit: with more open files, a connection ends with its answer
MOST_LINK = 2**16 - 1  # characters that httptools reads
LONG = f"This link has more than {MOST_LINK:,} characters. Leave some out.\n".encode()
BACKLOG = 2048  # a class arrives at once


def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at each address of the host. Raises OSError."""
    found: list[socket.socket] = []
    known = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, address in dict.fromkeys(known):
        try:
            made = socket.create_server(address, family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and len(known) > 1:  # no IPv6 here
                continue
            for made in found:
                made.close()
            raise
        made.setblocking(False)
        found.append(made)
    if not found:
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    return found


class Server(uvicorn.Server):
    """uvicorn's server over a Listener for each socket. tell: called once it answers."""

    def __init__(self, config: uvicorn.Config, held: Sequence[socket.socket], tell: Callable[[], None] = lambda: None):
        super().__init__(config)
        self.held, self.tell = held, tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(1)

        def connection() -> "Connection":
            return Connection(self.config, self.server_state, self.lifespan.state)

        self.servers = cast(list[asyncio.Server], [Listener(held, connection) for held in self.held])
        self.started = True
        self.tell()


class Listener:
    """Takes a socket's connections while files are free."""

    _full_since = 0.0  # time.monotonic, or 0

    def __init__(self, held: socket.socket, connection: Callable[[], "Connection"]):
        self.held, self.connection = held, connection
        self.most_used = files.limit()  # an upper bound of the open files
        self.task = asyncio.create_task(self._take())

    def close(self) -> None:
        self.task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait([self.task])

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                refuses = await self._refuses()

                def connection(refuses: bool = refuses) -> "Connection":
                    made = self.connection()
                    made.refused, made.listener = refuses, self
                    return made

                try:
                    made, _ = await loop.sock_accept(self.held)
                    self.most_used += 1 + files.LOOP
                    await loop.connect_accepted_socket(connection, made)
                except OSError:  # the browser left, or another part of the server took the last file
                    await asyncio.sleep(AGAIN)
        finally:
            self.held.close()

    def is_scarce(self) -> bool:
        """Whether a connection should end with its answer, as files are scarce."""
        return self.most_used > KEPT_SHARE * files.limit()

    async def _refuses(self) -> bool:
        """Waits for a free file. Returns True if none got free for WAITS seconds."""
        while not self._has_room():
            now = time.monotonic()
            self._full_since = self._full_since or now
            if now - self._full_since > WAITS:
                return True
            files.free()
            await asyncio.sleep(AGAIN)
        self._full_since = 0.0
        return False

    def _has_room(self) -> bool:
        """Whether one more connection leaves files for the sessions of the browsers that come."""
        room = files.limit() - files.SPARE - files.LOOP * files.coming()
        if self.is_scarce() or self.most_used >= room:  # looking takes a while
            self.most_used = files.used()
        return self.most_used < room


class Connection(HttpToolsProtocol):
    """uvicorn's connection.

    refused: whether it gets only the refusal.
    listener: of its socket."""

    refused = False
    listener: Listener | None = None
    _due: asyncio.TimerHandle | None = None
    _begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._wait(REFUSED_SECONDS if self.refused else WHOLE_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self.refused:  # the request is read first, else the answer may be lost
            return self._answer(b"503 Service Unavailable", f"{files.FULL}\n".encode())
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun = True
        self._wait(WHOLE_SECONDS)

    def on_url(self, url: bytes) -> None:
        if len(self.url) <= MOST_LINK:
            super().on_url(url)

    def on_headers_complete(self) -> None:
        if len(self.url) > MOST_LINK:
            return self._answer(b"414 URI Too Long", LONG)
        super().on_headers_complete()
        if self.cycle and self.listener and self.listener.is_scarce():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.transport.is_closing():
            return
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
        if self.transport.is_closing():
            return
        lines = [b"HTTP/1.1 " + status, b"content-type: text/plain", b"content-length: %d" % len(said)]
        lines += [b"retry-after: 60", b"connection: close", b"", said]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()
