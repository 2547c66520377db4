"""Connections of the class's server: half requests are closed, and too many are refused in words."""

import gc
import resource
import socket
import threading
import time

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.guards import connections
from app.guards.connections import Connection


async def length(request: Request):
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def port():
    app = Starlette(routes=[Route("/", length, methods=["GET", "POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=Connection, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(5)


def said(port, text):
    """All that the server says to these bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as made:
        made.sendall(text.encode())
        found = b""
        while part := made.recv(4096):
            found += part
        return found.decode()


@pytest.mark.parametrize(
    "half", ["GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n", "POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc"]
)
def test_half_a_request_is_closed_with_the_reason(port, monkeypatch, half):
    monkeypatch.setattr(connections, "WHOLE_SECONDS", 0.1)
    assert said(port, half).startswith("HTTP/1.1 408") and "did not arrive" in said(port, half)
    whole = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    assert said(port, whole + half).startswith("HTTP/1.1 200")  # also after a request that came whole
    assert said(port, "") == ""


def test_a_whole_request_is_answered(port):
    assert said(port, "POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc").endswith("\r\n\r\n3")


def test_with_no_files_left_a_connection_is_refused_in_words(port, monkeypatch):
    monkeypatch.setattr(connections, "_most", lambda: 0)
    monkeypatch.setattr(connections, "REFUSED_SECONDS", 0.1)
    monkeypatch.setattr(connections, "_freed", 0.0)
    freed = []
    monkeypatch.setattr(gc, "collect", lambda: freed.append("files"))
    refused = said(port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert refused.startswith("HTTP/1.1 503") and "ulimit -n" in refused
    assert said(port, "") == "" and freed == ["files"]


def test_the_limit_of_open_files_is_raised_to_the_hard_one(monkeypatch):
    limits = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, asked: limits.append(asked))
    connections.raise_limit()
    connections.raise_limit()
    assert limits == [(256, 4096), (4096, 4096)]
    limits[-1] = (1024, resource.RLIM_INFINITY)
    connections.raise_limit()
    assert limits[-1] == (connections.MOST_FILES, resource.RLIM_INFINITY)
