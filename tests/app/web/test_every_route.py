"""Every route of ours, by every method, with everything that nobody should send: no fault, and no traceback."""

import asyncio
import json
import os
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from streamlit.file_util import get_static_dir

from app.classroom import access, routes
from app.classroom.rooms import Rooms
from app.classroom.tries import Tries
from app.guards import hosts
from app.web import server
from kernels.errors import RunError
from kernels.jail import setting

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "JUNK")
BODIES = (
    *(b"", b"\xff\xfe\x00", b"null", b"1", b'"text"', b"[]", b"{", b"[" * 3000, b"x" * 300_000, b"\x1f\x8b\x08"),
    *(
        b'{"secret": "\\ud800"}',
        b'{"secret": {}}',
        b'{"what": "\\ud800"}',
        b'{"what": {"what": []}}',
        b'{"what": null}',
    ),
    *(b"password=%ff%00&to=//x", b"password=x&to=%5c%5cx", b"password&ticket=%ed%a0%80", b"ticket=a.b.c", b"&;==%"),
    *(b"/*\nfamily = 3\n*/", b'/*\ntitle = "x"\nfamily = "dense"\n*/ __global__ void f() {}', b"/*\n[[\n*/", b"\x00"),
)
QUERIES = (
    *("", "?", "?%ff=%00&_who=%ed%a0%80", "?key=%2e%2e&who=a&drop=1", "?what=..%2f..&to=ftp://x", "?_part=%00&_key=x"),
    *("?to=http://%ff%00", "?to=https://" + "x" * 489, "?_set=seq_len&_to=nan&_carried=1", "?exercise=..%2fx&whole=1"),
    *("?kernel=" + "x" * 9000, "?_again&_who=" + "y" * 9000, "?a[]=b&a=c&=&==", "?seq_len=-1e309&batch=%F0%9F%A6%8A"),
)
HEADERS = (
    *({}, {"authorization": "Basic ///"}, {"authorization": "Basic w7w="}, {"authorization": "Bearer"}),
    *({"cookie": "warpglass_access=a.b.c; warpglass_browser=x"}, {"origin": "http://["}, {"origin": "null"}),
    *(
        {"x-warpglass-class": "CODE"},
        {"x-warpglass-class": "\xff \xff"},
        {"accept": "text/html"},
        {"range": "bytes=9-1"},
    ),
    *({"x-forwarded-host": "x", "x-forwarded-proto": "gopher"}, {"content-type": "multipart/form-data; boundary=x"}),
)
NAMES = ("tiling", "%00", "..%2f..", "%ed%a0%80", "x" * 300)
WORDS = ("", "{", "null", "[]", "3", '{"who": "\\ud800"}', '{"who": {}}', '{"who": "a", "secret": []}', "[" * 5000)
SITES = {
    "open": {},
    "password": {"PASSWORD": "slate", "ROOM_SECRET": "chalk"},
    "login": {"LOGIN": "oidc"},
    "strangers": {"ROOM_SECRET": "chalk", "STRANGERS": "jail"},
}
INDEX = Path(get_static_dir(), "index.html")
ROUTES = [*server.routes(""), *server.pages(INDEX, "")]


@pytest.fixture(params=SITES)
def client(request, monkeypatch, cache, jobs):
    for name in ("PASSWORD", "LOGIN", "ROOM_SECRET"):
        monkeypatch.setenv(f"WARPGLASS_{name}", SITES[request.param].get(name, ""))
    monkeypatch.setenv(setting.VARIABLE, SITES[request.param].get("STRANGERS", "off"))
    monkeypatch.setattr(
        setting, "why_no_workbench", lambda: "" if "STRANGERS" in SITES[request.param] else "It is off."
    )
    auth = {"auth": {"cookie_secret": "a long one"}} if "LOGIN" in SITES[request.param] else {}
    monkeypatch.setattr(access, "_secrets", lambda: auth)
    rooms, sleep = Rooms(None, access.may_open, frozenset(server.STORIES)), asyncio.sleep
    monkeypatch.setattr(routes, "rooms", lambda: rooms)
    monkeypatch.setattr(routes, "_keeping", None)
    quick = SimpleNamespace(**{**vars(asyncio), "sleep": lambda seconds: sleep(min(seconds, 0.01))})
    for place, name in ((access, "passwords"), (routes, "secrets_tried"), (routes, "codes_tried")):
        monkeypatch.setattr(place, name, Tries())
        monkeypatch.setattr(place, "asyncio", quick)
    monkeypatch.setattr(Tries, "turn", lambda *_: sleep(0, True))
    jobs.error = RunError("No job runs here.")
    guards = server.middleware("", INDEX, hosts.allowed("testserver"))
    with TestClient(Starlette(routes=ROUTES, middleware=guards), follow_redirects=False) as made:
        yield made


def admitted():
    """The header of a browser that the gate lets in."""
    closed = access.password() or access.by_login()
    return {"cookie": f"{access.COOKIE}={access._signer('access').dumps('in')}"} if closed else {}


def test_no_request_is_a_fault(client, capfd):
    queries, headers, names, bodies = cycle(QUERIES), cycle(HEADERS), cycle(NAMES), cycle(BODIES)
    admittances = cycle(({}, admitted(), admitted()))
    faults, whole = [], os.environ[setting.VARIABLE] == "jail"  # the other sites differ in whom they admit
    for route in ROUTES:
        if isinstance(route, WebSocketRoute):
            continue
        for method in METHODS:
            taken = method in (route.methods or ())
            some = [next(bodies) for _ in (QUERIES if whole else QUERIES[::3])]
            for body in BODIES if taken and method == "POST" else some if taken else [b"x"]:
                path = "/".join(next(names) if part[:1] == "{" else part for part in route.path.split("/"))
                given = {name: text.encode("latin-1") for name, text in (next(headers) | next(admittances)).items()}
                answer = client.request(method, f"{path}{next(queries)}", content=body, headers=given)
                if answer.status_code == 500 or "Traceback" in answer.text:
                    faults.append((method, path, body[:40], given, answer.status_code, answer.text[:200]))
    assert not faults and "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("as_bytes", [False, True])
def test_no_message_to_a_room_is_a_fault(client, capfd, as_bytes):
    for code in NAMES:
        for word in WORDS:
            with (
                pytest.raises(WebSocketDisconnect),
                client.websocket_connect(f"/wg/room/{code}", headers=admitted()) as at,
            ):
                at.send_bytes(word.encode()) if as_bytes else at.send_text(word)
                while True:
                    assert "error" in json.loads(at.receive_text())
    assert "Traceback" not in capfd.readouterr().err
