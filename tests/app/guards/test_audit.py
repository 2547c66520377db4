"""Each event has one line in the audit log, and no line has a secret or a text."""

import hashlib
import json
import re
import stat
from datetime import datetime

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from app.classroom import access, routes
from app.classroom.rooms import Rooms
from app.classroom.tries import Tries
from app.guards import audit
from app.guards.hosts import Hosts
from app.stories.workbench import STARTER
from app.web import bundles, server
from app.workbench import drafts
from app.workbench import routes as workbench
from kernels.core.sources import MOST_BYTES
from kernels.errors import ProblemError
from kernels.jail import in_place, jail, setting

PASSWORD, ROOM_SECRET = "the-password", "the-room-secret"
WRONG, TEXT = "a-wrong-word", STARTER.read_text()
FIELDS = {"time", "event", "address", "browser", "draft", "reason", "host", "missing"}


@pytest.fixture
def log(monkeypatch, tmp_path):
    """read() -> the lines of the log since its last call, and the whole text in the end."""
    path, read = tmp_path / "audit.jsonl", 0
    monkeypatch.setenv(audit.VARIABLE, str(path))
    monkeypatch.setattr(audit, "_lines", type(audit._lines)())
    audit.start()

    def new():
        nonlocal read
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found, read = lines[read:], len(lines)
        return found

    new.path = path
    yield new
    handler = audit.LOGGER.handlers[0]
    audit.LOGGER.removeHandler(handler)
    handler.close()
    audit.LOGGER.setLevel(0)
    audit.LOGGER.propagate = True


@pytest.fixture
def client(monkeypatch, tmp_path, index):
    monkeypatch.setenv("WARPGLASS_PASSWORD", PASSWORD)
    monkeypatch.setenv("WARPGLASS_ROOM_SECRET", ROOM_SECRET)
    monkeypatch.setenv(setting.VARIABLE, "jail")
    monkeypatch.setattr(in_place, "why_none", lambda: "")
    monkeypatch.setattr(jail, "why_none", lambda: "")
    made = Rooms(tmp_path / "rooms.json", access.may_open)
    monkeypatch.setattr(routes, "rooms", lambda: made)
    for module, name in ((access, "passwords"), (routes, "secrets_tried"), (routes, "codes_tried")):
        monkeypatch.setattr(module, name, Tries())
    guards = server.middleware("", index, Hosts(frozenset({"testserver"})))
    return TestClient(Starlette(routes=[*server.routes(""), *server.pages(index, "")], middleware=guards))


@pytest.fixture
def index(tmp_path):
    path = tmp_path / "index.html"
    path.write_text("<head></head>")
    return path


@pytest.fixture
def answered(monkeypatch):
    """The worker's answer to a draft: whether its opening comment was read."""
    said = {"kernel": "mine"}

    async def asked(*_):
        return {"diagnostics": [], "ok": True, "said": "", "proposal": "", **said}

    monkeypatch.setattr(workbench, "_asked", asked)
    monkeypatch.setattr(workbench, "pages", lambda name: [])
    return said


def one(log, event):
    """The only new line, which is of this event."""
    (line,) = log()
    assert line["event"] == event and set(line) <= FIELDS and datetime.fromisoformat(line["time"]).tzinfo
    return line


def test_each_event_has_one_line_and_no_secret(client, log, answered, monkeypatch):
    basic = {"authorization": "Basic " + "eDphLXdyb25nLXdvcmQ="}  # x:a-wrong-word
    assert client.get("/health", headers=basic).status_code == 401
    assert one(log, "wrong_password")["browser"] == ""
    client.get("/", headers={"accept": "text/html"})  # the door gives an id
    assert client.post("/wg/enter", data={"password": WRONG}).status_code == 401
    line = one(log, "wrong_password")
    assert line["address"] == "testclient" and re.fullmatch("[0-9a-f]{8}", line["browser"])
    assert client.post("/wg/enter", data={"password": PASSWORD}, follow_redirects=False).status_code == 303
    assert not log()
    assert client.post("/wg/rooms", json={"secret": WRONG}).status_code == 403
    one(log, "wrong_room_secret")
    room = client.post("/wg/rooms", json={"secret": ROOM_SECRET}).json()
    assert one(log, "room_opened")["browser"] == line["browser"]
    for code, secret in (("ZZZZZ", None), (room["code"], WRONG)):
        with client.websocket_connect(f"/wg/room/{code}") as socket, pytest.raises(WebSocketDisconnect):
            socket.send_json({"who": "me", "secret": secret})
            while True:
                socket.receive_json()
        one(log, "wrong_room")
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    assert one(log, "refused_host")["host"] == "evil.example"
    assert client.post("/wg/workbench/check?who=me", content=TEXT).status_code == 200
    draft = one(log, "jailed_run")["draft"]
    assert re.fullmatch("draft_[0-9a-f]{40}", draft) and hashlib.sha256(TEXT.encode()).hexdigest()[:12] not in draft
    answered["kernel"] = ""
    client.post("/wg/workbench/check?who=me", content=TEXT)
    assert [(each["event"], each.get("reason")) for each in log()] == [
        ("jailed_run", None),
        ("refused_text", "comment"),
    ]
    client.post("/wg/workbench/check", content=b"\xff")
    assert one(log, "refused_text")["reason"] == "encoding"
    client.post("/wg/workbench/check", content=b"x" * (MOST_BYTES + 1))
    assert one(log, "refused_text")["reason"] == "long"
    monkeypatch.setenv(setting.VARIABLE, "off")
    client.post("/wg/workbench/check", content=TEXT)
    assert one(log, "refused_text")["reason"] == "closed"
    written = log.path.read_text()
    kept = [PASSWORD, ROOM_SECRET, WRONG, room["secret"], room["code"], *client.cookies.values(), "__global__"]
    ids = [cookie.partition(".")[0] for cookie in client.cookies.values()]
    assert len(ids) >= 2 and not [word for word in kept + ids if word in written]


def test_a_page_of_a_draft_is_a_jailed_run_once(client, log, jobs):
    path = drafts.keep(TEXT, drafts.name_of(TEXT, "me"))
    drafts.admit(path)
    name = path.stem
    client.post("/wg/enter", data={"password": PASSWORD})
    question = f"/wg/ask/any_kernel?kernel={name}&backend=cpu"
    jobs.held = True
    for _ in range(3):
        assert "waiting" in client.get(question).json()
    assert one(log, "jailed_run")["draft"] == name
    jobs.let_go()
    bundles.forget()


def test_only_the_owner_reads_the_file_and_it_may_be_renamed(log):
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    audit.note("room_opened", "1.2.3.4 id/page")
    log.path.rename(log.path.with_suffix(".1"))
    audit.note("room_opened", "1.2.3.5 1.2.3.5/page")
    (line,) = [json.loads(text) for text in log.path.read_text().splitlines()]
    assert (line["address"], line["browser"]) == ("1.2.3.5", "")


def test_an_address_fills_no_disk(log, monkeypatch):
    for _ in range(audit.MOST + 40):
        audit.note("refused_host", "1.2.3.4 id/", host="x" * 1000)
    audit.note("refused_host", "1.2.3.5 id/", host="y")
    lines = log()
    assert len(lines) == audit.MOST + 1 and len(lines[0]["host"]) == audit.LONGEST
    monkeypatch.setattr(audit, "SPAN", 0.0)
    audit.note("refused_host", "1.2.3.4 id/", host="y")
    assert log()[0]["missing"] == 40


def test_without_a_file_nothing_is_written(monkeypatch, caplog):
    monkeypatch.delenv(audit.VARIABLE, raising=False)
    audit.start()
    audit.note("room_opened", "1.2.3.4 id/")
    assert not audit.LOGGER.handlers and not caplog.records


def test_a_file_that_cannot_be_written_is_told_at_the_start(monkeypatch, tmp_path):
    monkeypatch.setenv(audit.VARIABLE, str(tmp_path / "none" / "audit"))
    with pytest.raises(ProblemError, match=r"WARPGLASS_AUDIT_LOG is .*no log can be written there"):
        audit.start()
    assert not audit.LOGGER.handlers
