"""Connections of the class's server: half requests are closed, and too many wait or are refused in words."""

import gc
import resource
import socket
import threading
import time
from collections import deque

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from app.guards import connections, files
from app.guards.connections import MOST_LINK, Connection


async def length(request: Request):
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def port():
    app = Starlette(routes=[Route("/", length, methods=["GET", "POST"])])
    held, told = connections.listening("127.0.0.1", 0), threading.Event()
    config = uvicorn.Config(app, http=Connection, log_level="critical", lifespan="off")
    server = connections.Server(config, held, told.set)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert told.wait(10)
    yield held[0].getsockname()[1]
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


@pytest.mark.parametrize(("length", "status"), [(MOST_LINK, 200), (MOST_LINK + 1, 414), (2**19, 414)])
def test_a_link_that_cannot_be_read_is_refused_in_words(port, length, status):
    answer = said(port, f"GET /?{'x' * (length - 2)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ") and ("more than 65,535 characters" in answer) is (status == 414)


def test_with_no_files_left_a_connection_waits_and_is_then_refused_in_words(port, monkeypatch):
    whole = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert said(port, whole).startswith("HTTP/1.1 200")
    monkeypatch.setattr(files, "limit", lambda: 0)
    monkeypatch.setattr(connections, "REFUSED_SECONDS", 0.1)
    monkeypatch.setattr(connections, "WAITS", 0.2)
    monkeypatch.setattr(files, "_freed", 0.0)
    freed = []
    monkeypatch.setattr(gc, "collect", lambda: freed.append("files"))
    said(port, whole)  # the server waits for this connection already
    began = time.monotonic()
    refused = said(port, whole)
    assert refused.startswith("HTTP/1.1 503") and "ulimit -n" in refused and time.monotonic() - began >= 0.1
    assert said(port, "") == "" and freed == ["files"]
    monkeypatch.undo()
    said(port, whole)
    assert said(port, whole).startswith("HTTP/1.1 200")


def test_where_files_are_scarce_a_connection_ends_with_its_answer(port, monkeypatch):
    whole = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    monkeypatch.setattr(connections, "KEPT_SHARE", 0.0)
    assert "connection: close" in said(port, whole)


def test_an_address_that_is_taken_is_an_error_before_the_start():
    with socket.create_server(("127.0.0.1", 0)) as held, pytest.raises(OSError, match="Address already in use"):
        connections.listening("127.0.0.1", held.getsockname()[1])


def test_the_limit_of_open_files_is_raised_to_the_hard_one(monkeypatch):
    limits = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, asked: limits.append(asked))
    files.raise_limit()
    files.raise_limit()
    assert limits == [(256, 4096), (4096, 4096)]
    limits[-1] = (1024, resource.RLIM_INFINITY)
    files.raise_limit()
    assert limits[-1] == (files.MOST_FILES, resource.RLIM_INFINITY)


def test_a_page_is_refused_as_a_whole_where_no_files_are_left_for_its_browser(monkeypatch):
    async def talk(socket):
        await socket.accept()
        await socket.receive_text()

    routes = [Route(path, length) for path in ("/", "/wg/ask", "/health")] + [WebSocketRoute(files.STREAM, talk)]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(files.Pages)]))
    monkeypatch.setattr(files, "_coming", deque())
    assert client.get("/").status_code == 200 and files.coming() == 0  # a program, not a browser
    monkeypatch.setattr(files, "limit", lambda: files.used() + files.SPARE + files.REQUESTS + 2 * files.PER_BROWSER)
    browser = {"accept": "text/html,*/*"}
    assert [client.get("/", headers=browser).status_code for _ in range(3)] == [200, 200, 503]
    refused = client.get("/", headers=browser)
    assert "as many browsers as it can hold" in refused.text and refused.headers["retry-after"] == "60"
    assert {client.get(path, headers=browser).status_code for path in ("/wg/ask", "/health")} == {200}
    with client.websocket_connect(files.STREAM) as socket:  # one has come
        assert files.coming() == 1 and client.get("/", headers=browser).status_code == 503
        monkeypatch.setattr(files, "COMES", 0.0)
        assert client.get("/", headers=browser).status_code == 200  # the other one does not come
        socket.send_text("end")
