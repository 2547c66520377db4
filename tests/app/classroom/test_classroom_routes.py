"""The routes of a class: a socket for each who is in it, codes to scan, figures, and who is let in."""

import json
import time
from contextlib import ExitStack

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from app.classroom import access, routes, tries
from app.classroom.rooms import Rooms
from app.classroom.tries import Tries
from app.web import modules, server
from kernels.errors import ProblemError

LINK = "tiling?kernel=03_flash"


@pytest.fixture
def site(monkeypatch):
    """site(base, **environment) -> a client of our routes behind the gate; all its sockets in one event loop."""
    opened = ExitStack()
    rooms = Rooms(None, access.may_open, frozenset(server.STORIES))
    monkeypatch.setattr(routes, "rooms", lambda: rooms)
    monkeypatch.setattr(routes, "_keeping", None)
    for place, name in ((access, "passwords"), (routes, "secrets_tried"), (routes, "codes_tried")):
        monkeypatch.setattr(place, name, Tries())

    def make(base="", **environment):
        for name in ("PASSWORD", "LOGIN", "ROOM_SECRET"):
            monkeypatch.setenv(f"WARPGLASS_{name}", environment.get(name, ""))
        gate = Middleware(access.Gate, base=base, version=modules.version())
        app = Starlette(routes=server.routes(base), middleware=[gate])
        return opened.enter_context(TestClient(app, base_url="http://class.test"))

    with opened:
        yield make


@pytest.fixture
def enter():
    """enter(client, code, **said) -> a socket that has said who it is; closed at the end."""
    with ExitStack() as opened:

        def make(client, code, **said):
            socket = opened.enter_context(client.websocket_connect(f"/wg/room/{code}"))
            socket.send_json(said)
            return socket

        yield make


def test_a_leader_leads_and_a_follower_follows(site, enter):
    client = site()
    room = client.post("/wg/rooms", json={}).json()
    leader = enter(client, room["code"], who="leader", secret=room["secret"])
    assert leader.receive_json() == {"leads": True, "followers": 0, "at": None, "poll": None, "asked": 0}
    leader.send_json({"at": {"link": LINK, "step": 3}})
    assert leader.receive_json()["at"]["step"] == 3
    follower = enter(client, room["code"].lower(), who="a")
    assert follower.receive_json() == {"at": {"link": LINK, "step": 3, "pin": None}, "poll": None, "led": True}
    assert leader.receive_json()["followers"] == 1
    follower.send_json({"at": {"link": LINK, "step": 9}})
    assert "may only answer questions" in follower.receive_json()["refused"]
    leader.send_json({"at": {"link": LINK, "step": 4}})
    assert follower.receive_json()["at"]["step"] == 4
    leader.send_json({"end": True})
    assert follower.receive_json() == {"ended": "The class has ended."}
    with pytest.raises(WebSocketDisconnect) as closed:
        follower.receive_json()
    assert closed.value.code == routes.ENDED


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"who": "a"}, "There is no class NOONE"),
        ({}, "The first message is"),
        ({"who": 3}, "The first message is"),
        ({"who": "a", "secret": 3}, "The first message is"),
        ([], "The first message is"),
    ],
)
def test_who_cannot_come_in_is_told_why(site, said, error):
    socket = site().websocket_connect("/wg/room/noone")
    with socket:
        socket.send_json(said)
        assert error in socket.receive_json()["error"]
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()


def test_who_says_too_much_is_shown_out(site, enter):
    client = site()
    room = client.post("/wg/rooms", json={}).json()
    socket = enter(client, room["code"], who="a")
    socket.receive_json()
    for _ in range(routes.MOST_MESSAGES + 1):
        socket.send_json({"answer": 1})
    with pytest.raises(WebSocketDisconnect) as closed:
        while True:
            socket.receive_json()
    assert closed.value.code == routes.REFUSED


def test_pages_of_other_sites_open_no_rooms_and_no_sockets(site):
    client = site()
    headers = {"origin": "http://elsewhere.test"}
    assert client.post("/wg/rooms", json={}, headers=headers).status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/wg/room/ABCDE", headers=headers):
        pass


def test_a_room_secret_is_asked_for(site):
    client = site(ROOM_SECRET="chalk")
    said = client.post("/wg/rooms", json={"secret": "cheese"})
    assert said.status_code == 403 and "room secret" in said.json()["error"]
    assert "code" in client.post("/wg/rooms", json={"secret": "chalk"}).json()
    for odd in ("", "[]", "{", "3", '{"secret": 3}'):
        assert client.post("/wg/rooms", content=odd).status_code in (400, 403)


def test_the_leader_takes_the_answers_along(site, enter):
    client = site()
    room = client.post("/wg/rooms", json={}).json()
    leader = enter(client, room["code"], who="a", secret=room["secret"])
    leader.receive_json()
    leader.send_json({"ask": {"story": "tiling", "question": "q", "kind": "options", "options": 1, "texts": ["one"]}})
    leader.receive_json()
    found = client.get("/wg/answers.csv", headers={"x-warpglass-class": f"{room['code']} {room['secret']}"})
    assert found.headers["content-type"].startswith("text/csv")
    assert found.text.splitlines()[1].endswith(",tiling,q,,one,0")
    for header in ("", room["code"], f"{room['code']} x", f"XXXXX {room['secret']}"):
        refused = client.get("/wg/answers.csv", headers={"x-warpglass-class": header})
        assert refused.status_code == 403 and "Only the leader" in refused.json()["error"]


def test_an_address_becomes_a_qr_code(site):
    client = site()
    drawn = client.get("/wg/qr", params={"to": "http://class.test/?class=ABCDE"})
    assert drawn.headers["content-type"].startswith("image/svg+xml") and b"<svg" in drawn.content
    for odd in ("", "javascript:alert(1)", "http://" + "x" * 600):
        assert client.get("/wg/qr", params={"to": odd}).status_code == 400


def test_figures_say_what_the_server_does_and_never_a_rooms_code(site, enter):
    client = site()
    room = client.post("/wg/rooms", json={}).json()
    enter(client, room["code"], who="a").receive_json()
    said = client.get("/wg/status").json()
    assert said["classes"] == [{"followers": 1, "leaders": 0, "minutes": 0}]
    assert said["web_bytes"] > 2**20 and room["code"] not in json.dumps(said)
    text = client.get("/metrics").text
    assert "warpglass_followers 1.0" in text and "warpglass_queue" in text and "warpglass_memory_bytes" in text
    assert "health.js" in client.get("/health").text


# ---- the door ----


@pytest.mark.parametrize("base", ["", "/warpglass"])
def test_a_class_password_is_asked_for_once(site, base):
    client = site(base, PASSWORD="slate")
    client.headers["accept"] = "text/html"
    door = client.get(f"{base}/wg/status?a=%3Cb%3E")
    assert door.status_code == 401 and "This class has a password" in door.text
    assert f'value="{base}/wg/status?a=%3Cb%3E"' in door.text and f'action="{base}/wg/enter"' in door.text
    wrong = client.post(f"{base}/wg/enter", data={"password": "slat", "to": f"{base}/tiling"}, follow_redirects=False)
    assert wrong.status_code == 401 and "not the password" in wrong.text and access.COOKIE not in client.cookies
    right = client.post(f"{base}/wg/enter", data={"password": "slate", "to": f"{base}/tiling"}, follow_redirects=False)
    assert right.status_code == 303 and right.headers["location"] == f"{base}/tiling"
    assert "HttpOnly" in right.headers["set-cookie"] and "slate" not in right.headers["set-cookie"]
    assert client.get(f"{base}/wg/status").status_code == 200


def test_behind_the_door_nothing_is_answered(site):
    client = site(PASSWORD="slate")
    for path in ("/wg/ask/tiling", "/wg/status", "/metrics", "/health", "/", "/static/x.js"):
        assert client.get(path).status_code == 401
    assert client.post("/wg/rooms", json={}).status_code == 401
    for path in ("/wg/room/ABCDE", "/_stcore/stream"):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(path):
            pass
    assert client.get("/wg/status", auth=("any", "slate")).status_code == 200
    assert client.get("/wg/status", auth=("any", "chalk")).status_code == 401
    for forged in ("in", "", access._signer("ticket").dumps("in")):
        assert client.get("/wg/status", cookies={access.COOKIE: forged}).status_code == 401


ELSEWHERE = ("https://elsewhere.test/", "//elsewhere.test", "/\\elsewhere.test", "", "/a%0d%0ab")
LONG = f"/block_table?requests={'add%20A%2020%2C' * 1000}"


@pytest.mark.parametrize(("to", "leads"), [*((to, "/") for to in ELSEWHERE), (LONG, LONG)], ids=lambda to: to[:30])
def test_the_door_leads_on_and_to_no_other_site(site, to, leads):
    answer = site(PASSWORD="slate").post("/wg/enter", data={"password": "slate", "to": to}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == leads


def test_guessing_passwords_gets_slow_and_locks_nobody_out(site, monkeypatch):
    monkeypatch.setattr(tries, "FREE", 2)
    monkeypatch.setattr(tries, "GAP", 0.05)
    client = site(PASSWORD="slate")
    client.post("/wg/enter", data={"password": "x"})
    client.post("/wg/enter", data={"password": "x"})
    begin = time.monotonic()
    assert client.post("/wg/enter", data={"password": "x"}).status_code == 401 and time.monotonic() - begin > 0.35
    right = client.post("/wg/enter", data={"password": "slate"}, follow_redirects=False)
    assert right.status_code == 303 and access.COOKIE in client.cookies
    access.passwords.wrong("testclient")
    monkeypatch.setattr(tries, "GAP", 3)
    begin = time.monotonic()  # who is in waits for no guesser
    assert client.post("/wg/enter", data={"password": "slate"}, follow_redirects=False).status_code == 303
    assert time.monotonic() - begin < 2
    monkeypatch.setattr(tries, "GAP", 0.05)
    client.cookies.clear()
    assert client.get("/wg/status", auth=("any", "slate")).status_code == 200


@pytest.mark.parametrize(("path", "limited"), [("/wg/rooms", "secrets_tried"), ("/wg/room/XXXXX", "codes_tried")])
def test_room_secrets_and_codes_can_be_tried_slowly(site, monkeypatch, path, limited):
    monkeypatch.setattr(tries, "FREE", 1)
    monkeypatch.setattr(tries, "GAP", 0.2)
    client = site(ROOM_SECRET="chalk")

    def attempt():
        if path == "/wg/rooms":
            return client.post(path, json={"secret": "cheese"})
        with client.websocket_connect(path) as socket:
            socket.send_json({"who": "a"})
            assert "no class" in socket.receive_json()["error"]

    begin = time.monotonic()
    for _ in range(3):
        attempt()
    assert time.monotonic() - begin > 0.4
    assert "code" in client.post("/wg/rooms", json={"secret": "chalk"}).json()  # it waits at most for its turn


def test_a_browser_has_one_seat_and_one_vote(site, enter):
    """Whatever names its pages give: the server's cookie counts."""
    client = site()
    room = client.post("/wg/rooms", json={}).json()
    leader = enter(client, room["code"], who="leader", secret=room["secret"])
    leader.receive_json()
    leader.send_json({"ask": {"story": "tiling", "question": "reads", "kind": "click", "options": 0}})
    leader.receive_json()
    first = enter(client, room["code"], who="a")
    cookie = first.extra_headers and dict(first.extra_headers)[b"set-cookie"].decode().partition(";")[0]
    first.close()
    client.headers["cookie"] = cookie
    seats = [enter(client, room["code"], who=f"b{n}") for n in range(4)]
    for socket in seats:
        socket.receive_json()
    assert [socket.receive_json()["gone"] for socket in seats[:-1]] == [True] * 3
    seats[-1].send_json({"answer": True})
    while (said := leader.receive_json()["poll"])["answers"] < 1:
        pass
    assert said["counts"] == [[True, 1], [False, 0]]
    assert client.get("/wg/status").json()["classes"][0]["followers"] == 1


def test_who_has_logged_in_hands_a_ticket_over(site, monkeypatch):
    monkeypatch.setattr(access, "_secrets", lambda: {"auth": {"cookie_secret": "a long one"}})
    client = site(LOGIN="oidc")
    assert client.get("/wg/status").status_code == 401
    assert client.get(f"/wg/{modules.version()}/core/clock.js").status_code == 200  # the page needs them to log in
    assert client.post("/wg/enter", data={"ticket": "forged"}).status_code == 401
    assert client.post("/wg/enter", data={"password": ""}).status_code == 401
    assert client.post("/wg/enter", data={"ticket": access.ticket()}).status_code == 200
    assert client.get("/wg/status").status_code == 200


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"LOGIN": "ldap"}, "WARPGLASS_LOGIN is 'ldap'"),
        ({"LOGIN": "oidc", "PASSWORD": "slate"}, "Remove one"),
        ({"LOGIN": "oidc"}, r"no \[auth\]"),
    ],
)
def test_what_cannot_be_meant_is_told_at_the_start(site, monkeypatch, environment, said):
    monkeypatch.setattr(access, "_secrets", dict)
    site(**environment)
    with pytest.raises(ProblemError, match=said):
        access.check()
