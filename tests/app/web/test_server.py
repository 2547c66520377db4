"""The app's own routes, as the browser asks them; the jobs are done here."""

import gzip
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.testclient import TestClient

from app.store import disk
from app.stories import STORIES
from app.web import modules, server
from app.web.modules import Files
from explainers.story import encoding
from kernels.errors import WorkerDied
from kernels.run import workers
from kernels.run.backends import Survey
from kernels.run.workers import pool
from kernels.run.workers.local import LocalWorker

SMALL = "/wg/ask/tiling?kernel=03_flash&seq_len=40&BLOCK_Q=16&BLOCK_KV=16&backend=cpu"
LONG = "it takes more than 5 s, and one worker stays free for short runs"
pytestmark = pytest.mark.usefixtures("cache", "jobs")


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=server.routes("")))


def test_a_question_is_answered_with_choices_a_link_and_a_bundle(client):
    said = client.get(SMALL).json()
    assert said["story"] == "tiling" and said["link"]["seq_len"] == "40" and not said["told"]
    assert "seq_len" in [choice["name"] for choice in said["choices"]] and "03_flash" in said["headline"]
    made = client.get(f"/wg/bundle/{said['bundle']}")
    assert made.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert made.headers["content-encoding"] == "gzip"
    assert encoding.decode(made.content)["frames"][0]["sentence"]
    kept = disk.read(said["bundle"])
    assert gzip.decompress(kept) == made.content and int(made.headers["content-length"]) == len(kept)


def test_a_change_is_asked_for_beside_the_choices(client):
    said = client.get(f"{SMALL}&_set=seq_len&_to=50").json()
    assert said["link"]["seq_len"] == "50" and not said["refused"]
    said = client.get(f"{SMALL}&_set=seq_len&_to=0").json()
    assert said["link"]["seq_len"] == "40" and "seq_len is 0" in said["refused"]["seq_len"] and said["bundle"]


def test_what_cannot_run_is_told_with_its_title(client):
    said = client.get("/wg/ask/tiling?kernel=03_flash&seq_len=16384&backend=cpu").json()
    assert (said["title"], "bundle" in said) == ("This cannot run.", False) and "03_flash at seq_len 16384" in said[
        "error"
    ]
    assert said["choices"]


def test_what_is_being_made_says_so_until_it_is_there(client, jobs):
    jobs.held = True
    waiting = client.get(SMALL).json()["waiting"]
    assert waiting["place"] == 0 and client.get(SMALL).json()["waiting"]["key"] == waiting["key"]
    assert client.post(f"/wg/stop?key={waiting['key']}").status_code == 204
    said = client.get(SMALL).json()
    assert (said["title"], said["error"]) == ("Stopped.", f"{STORIES['tiling'].title} was stopped.") and said["choices"]


@pytest.mark.parametrize(("size", "is_long"), [("seq_len=40", False), ("seq_len=2048&num_heads=2&head_dim=64", True)])
def test_a_long_run_that_waits_says_why(client, monkeypatch, size, is_long):
    """Its estimate reaches the queue. Long runs of other browsers hold every worker but one."""
    queue = pool.Pool("cpu", [LocalWorker(), LocalWorker()])
    monkeypatch.setattr(pool.Pool, "_only_short", lambda self, job: True)
    monkeypatch.setattr(pool.Pool, "assign", lambda self: None)
    monkeypatch.setattr(workers, "submit", lambda function, *args, backend, title, client, estimate: queue.submit(
        function, args, title, 60, client, "", estimate
    ))  # fmt: skip
    waiting = client.get(f"/wg/ask/tiling?kernel=02_tiled&backend=cpu&{size}").json()["waiting"]
    assert waiting["why"] == (LONG if is_long else "")
    queue.stop()


def test_a_question_with_a_key_waits_for_what_is_being_made(client, jobs, monkeypatch):
    jobs.held = True
    key = client.get(SMALL).json()["waiting"]["key"]
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    begin = time.monotonic()
    assert client.get(f"{SMALL}&_key={key}").json()["waiting"]["key"] == key and time.monotonic() - begin >= 0.2
    monkeypatch.setattr(server, "PATIENCE", 20.0)
    threading.Timer(0.2, jobs.let_go).start()
    assert client.get(f"{SMALL}&_key={key}").json()["bundle"]
    assert client.get(f"{SMALL}&_key=none").json()["bundle"]  # nothing to wait for


@pytest.mark.parametrize("error", [WorkerDied("The worker process died (by signal 9)."), ZeroDivisionError("by zero")])
def test_a_failed_run_is_an_answer(client, jobs, error):
    jobs.error = error
    said = client.get(SMALL).json()
    assert said["title"] == "The run failed." and str(error) in said["error"] and "Traceback" not in said["error"]


def test_a_fault_of_ours_is_an_answer_in_words(client, monkeypatch, capsys):
    monkeypatch.setattr(server.asking, "ask", lambda *_: {}["m"])
    answer = client.get(SMALL)
    assert answer.status_code == 500 and "KeyError: 'm'" in answer.json()["error"]
    assert "Its log has the place" in answer.json()["error"] and "Traceback" in capsys.readouterr().err


def test_a_machine_where_nothing_can_run_says_why(client, monkeypatch):
    monkeypatch.setattr(
        workers, "survey", lambda: Survey({}, {"gpu": "No GPU.", "cpu": "No compiler.", "recorded": "No files."})
    )
    said = client.get("/wg/ask/tiling").json()
    assert said["title"] == "Nothing can run here." and said["error"] == "No GPU. No compiler. No files."


def test_a_tab_is_asked_for_with_the_same_choices(client):
    said = client.get(f"{SMALL}&_part=data").json()
    blocks = encoding.decode(client.get(f"/wg/bundle/{said['bundle']}").content)
    download = next(block for block in blocks if block["kind"] == "download")
    got = client.get(download["url"])
    assert got.content[:4] == b"PAR1" and got.headers["content-disposition"] == "attachment"
    said = client.get(f"{SMALL}&_part=nothing").json()
    assert said["error"] == "nothing is no tab of Tiles." and "bundle" not in said


# ---- the browser's modules ----


def test_the_modules_are_served_forever_under_the_name_of_their_content(client):
    some = {"shell/app.js", "core/clock.js", "core/stage.css", "core/data.js", "views/matrices.js"}
    assert some <= set(modules.modules())
    for name, text in modules.modules().items():
        got = client.get(f"/wg/{modules.version()}/{name}")
        assert got.status_code == 200 and got.text == text and "immutable" in got.headers["cache-control"]
        assert got.headers["content-type"].startswith("text/css" if name.endswith(".css") else "text/javascript")


def test_a_module_of_another_version_is_not_served_under_its_name(client):
    for name in ("shell/app.js", "vega.js"):
        assert client.get(f"/wg/0123456789abcdef/{name}").status_code == 404


# ---- what is not there ----


@pytest.mark.parametrize(
    "path",
    [
        "/wg/ask/nowhere",
        "/wg/ask/..",
        "/wg/bundle/" + "0" * 32,
        "/wg/bundle/of",
        "/wg/file/" + "0" * 32 + "/x.parquet",
        "/wg/v/nothing.js",
        "/wg/v/server.py",
    ],
)
def test_what_is_not_there_is_not_found(client, path):
    assert client.get(path).status_code == 404


def test_an_unknown_story_gets_the_nearest_name(client):
    said = client.get("/wg/ask/tilling").json()["error"]
    assert said == "tilling is no story. Did you mean tiling?"


@pytest.mark.parametrize(
    "name", ["..%2f..%2fpage.py", "%2e%2e%2fsecret", "..%5csecret", "%2fetc%2fhostname", "views/../../page.py"]
)
@pytest.mark.parametrize("route", ["/wg/v/", "/wg/bundle/", "/wg/file/", "/wg/ask/"])
def test_no_name_leads_out_of_its_folder(client, cache, route, name):
    cache.mkdir(parents=True)
    (cache.parent / "secret").write_text("x")
    got = client.get(f"{route}{name}{'/x' if route == '/wg/file/' else ''}")
    assert got.status_code == 404 and "streamlit" not in got.text


def test_files_that_do_not_change_are_packed_once_and_the_rest_is_passed_on(tmp_path):
    (tmp_path / "js").mkdir()
    (tmp_path / "js" / "one.js").write_text("let one = 1;")
    (tmp_path.parent / "secret.js").write_text("no")

    async def streamlit(scope, receive, send):
        await Response("Streamlit's", 404)(scope, receive, send)

    client = TestClient(Files(streamlit, tmp_path, "/static/"))
    for _ in range(2):
        answer = client.get("/static/js/one.js")
        assert answer.text == "let one = 1;" and answer.headers["content-encoding"] == "gzip"
        assert "javascript" in answer.headers["content-type"] and "immutable" in answer.headers["cache-control"]
        (tmp_path / "js" / "one.js").write_text("it is not read again")
    passed_on = [
        client.get("/static/js/two.js"),
        client.get("/static/..%2Fsecret.js"),
        client.get("/static/js/one.js", headers={"accept-encoding": "identity"}),
        client.head("/static/js/one.js"),
    ]
    assert [answer.status_code for answer in passed_on] == [404] * 4


def test_a_file_that_many_ask_for_at_once_is_packed_once(tmp_path, monkeypatch):
    (tmp_path / "one.js").write_text("let one = 1;")
    (tmp_path / "first.js").write_text("let first = 1;")
    packed, pack = [], disk.pack
    monkeypatch.setattr(disk, "pack", lambda data: (packed.append(data), time.sleep(0.2), pack(data))[2])
    client = TestClient(Files(None, tmp_path, "/static/", first=["first.js", "gone.js"]))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client.get, ["/static/one.js"] * 8))
    assert {answer.text for answer in answers} == {"let one = 1;"}
    assert client.get("/static/first.js").text == "let first = 1;"
    assert sorted(data for data in packed if data.startswith(b"let ")) == [b"let first = 1;", b"let one = 1;"]


def test_a_file_that_cannot_be_read_is_tried_again(tmp_path):
    (tmp_path / "one.js").write_text("let one = 1;")
    files = Files(None, tmp_path, "/static/")
    client = TestClient(files, raise_server_exceptions=False)
    (tmp_path / "one.js").rename(tmp_path / "away")
    assert client.get("/static/one.js").status_code == 500
    (tmp_path / "away").rename(tmp_path / "one.js")
    assert client.get("/static/one.js").text == "let one = 1;"
