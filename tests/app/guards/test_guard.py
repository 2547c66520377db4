"""What every answer obeys: hosts, the browser's policy, requests that never end; and whose browser asks."""

import asyncio

import loops
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from app.guards import browsers, guard, hosts
from app.guards.guard import Guard, ours

EVIL = {"host": "evil.example", "origin": "http://evil.example"}


@ours
async def change(request: Request):
    return JSONResponse({"body": (await request.body()).decode(), "page": browsers.page_of(request, "a")})


async def page(request: Request):
    return browsers.remember(PlainTextResponse(request.headers.get("x-forwarded-host", "none")), request, "")


async def talk(socket):
    await socket.accept()
    await socket.close()


def site(listens_at="127.0.0.1", more="", routes=()):
    routes = [*routes, Route("/", page), Route("/change", change, methods=["POST"]), WebSocketRoute("/talk", talk)]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts.allowed(listens_at, more))])
    return TestClient(app, base_url="http://localhost:8501")


OTHERS = ("evil.example", "192.168.1.7:8501", "localhost.evil.example", "localhost@evil.example", "")


@pytest.mark.parametrize(
    ("listens_at", "more", "allowed", "refused"),
    [
        ("127.0.0.1", "", ("localhost:8501", "127.0.0.1", "[::1]:8501", "LOCALHOST."), OTHERS),
        ("127.0.0.1", "class.example,lab.example:8443", ("class.example:8501", "lab.example"), OTHERS),
        ("127.0.0.1", "2001:db8::7", ("[2001:db8::7]:8501",), OTHERS),
        ("192.168.1.7", "", ("192.168.1.7:8501",), ("192.168.1.8:8501",)),
        ("0.0.0.0", "", ("192.168.1.7:8501",), ("evil.example", "999.1.1.1")),
        ("::", "", ("[2001:db8::7]:8501",), ("evil.example",)),
        ("", "", ("10.0.0.1",), ("evil.example",)),
    ],
)
def test_a_server_answers_under_its_own_hosts(listens_at, more, allowed, refused):
    own = hosts.allowed(listens_at, more)
    assert all(map(own.allows, allowed)) and not any(map(own.allows, refused))


def test_another_host_is_refused_everywhere_with_the_remedy():
    client = site(more="class.example")
    for answer in (client.get("/", headers=EVIL), client.post("/change", headers=EVIL), client.get("/x", headers=EVIL)):
        assert answer.status_code == 403 and "--allow-host evil.example" in answer.text
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/talk", headers=EVIL):
        pass
    assert client.get("/", headers={"host": "class.example"}).status_code == 200
    with client.websocket_connect("ws://localhost/talk", headers={"origin": "http://localhost"}):
        pass


def test_a_proxys_name_is_believed_where_it_is_allowed():
    client = site(more="class.example")
    assert client.get("/", headers={"x-forwarded-host": "class.example"}).text == "class.example"
    assert client.get("/", headers={"x-forwarded-host": "evil.example"}).text == "none"
    forged = {"x-forwarded-host": "evil.example", "origin": "http://evil.example"}
    assert client.post("/change", headers=forged).status_code == 403


@pytest.mark.parametrize("origin", ["https://localhost:8501", "ftp://localhost:8501", "http://localhost", "null"])
def test_an_origin_is_scheme_host_and_port(origin):
    client = site()
    refused = client.post("/change", headers={"origin": origin})
    assert refused.status_code == 403 and "X-Forwarded-Proto" in refused.json()["error"]
    assert client.post("/change", headers={"origin": "http://localhost:8501"}).status_code == 200
    assert client.post("/change").status_code == 200  # a program


def test_a_browser_is_told_what_a_page_may_load_and_who_may_frame_it():
    client = site()
    for path in ("/", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'self'" in policy
        assert "ws://localhost:8501" in policy and "'unsafe-inline'" not in policy.partition("style-src")[0]
    assert "frame-ancestors" not in client.get("/?step=1&embed=true").headers["content-security-policy"]
    assert "frame-ancestors" in client.get("/?kernel=embed=true").headers["content-security-policy"]


def test_nobody_uploads_files():
    routes = [Route("/_stcore/upload_file/{a}/{b}", change, methods=["PUT"])]
    assert site(routes=routes).put("/_stcore/upload_file/1/2", content=b"x" * 1000).status_code == 404


def test_a_body_that_never_comes_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    assert _sent(_never) == [408]


def test_a_request_that_breaks_off_is_no_fault():
    assert _sent(_gone) == []


async def _never():
    await asyncio.sleep(60)


async def _gone():
    raise ClientDisconnect


def _sent(receive):
    """The statuses that are sent to a POST whose body comes from `receive`."""
    statuses = []

    async def send(message):
        statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

    headers = [(b"host", b"localhost"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/change", "query_string": b"", "headers": headers}
    scope |= {"scheme": "http", "server": ("localhost", 80), "client": ("1.2.3.4", 5), "root_path": ""}
    loops.run(site().app(scope, receive, send))
    return statuses


# ---- whose browser ----


def test_a_browser_keeps_the_id_that_the_server_gave_it():
    client = site()
    assert client.post("/change").json()["page"] == "testclient testclient/a"  # it counts as its address
    client.get("/")
    own = client.post("/change").json()["page"]
    assert own.endswith("/a") and own.startswith("testclient ") and not own.startswith("testclient testclient")
    assert "set-cookie" not in client.get("/").headers and client.post("/change").json()["page"] == own
    other = site()
    for forged in (own.partition("/")[0].partition(" ")[2], client.cookies[browsers.COOKIE][:-1] + "?", ""):
        answer = other.post("/change", headers={"cookie": f"{browsers.COOKIE}={forged}"})
        assert answer.json()["page"] == "testclient testclient/a"
