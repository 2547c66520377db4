"""The workbench's route and its walls: off for others, with --strangers only in the jail, and never without limits."""

import asyncio
import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

import loops
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from app.guards import audit
from app.stories import STORIES
from app.stories.workbench import STARTER
from app.web import asking, server
from app.workbench import drafts, examine, routes
from kernels.catalog import current
from kernels.core.sources import MOST_BYTES
from kernels.errors import BuildError, FrontMatterError, WorkerDied
from kernels.jail import in_place, jail, setting
from kernels.run import workers
from kernels.run.workers.pool import Job

TEXT = STARTER.read_text()


@pytest.fixture
def client():
    return TestClient(Starlette(routes=server.routes("")))


def post(client, text=TEXT, **more):
    return client.post("/wg/workbench/check?who=me", content=text, **more)


def kept(text, browser="me"):
    return drafts.keep(text, drafts.name_of(text, browser))


def test_a_server_for_others_refuses_every_text(client, monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "off")
    said = post(client)
    assert said.status_code == 403 and "Start it with --strangers" in said.json()["error"]
    name = kept(TEXT).stem
    assert name not in drafts.with_drafts(current(), [name]).kernels


def test_strangers_without_a_jail_is_off(client, monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "jail")
    monkeypatch.setattr(in_place, "why_none", lambda: "the kernel has no Landlock")
    said = post(client)
    assert said.status_code == 403 and "no Landlock" in said.json()["error"]


@pytest.mark.parametrize("word", ["local", "jail"])
def test_a_draft_is_jailed_on_this_machine_too(monkeypatch, word):
    monkeypatch.setattr(in_place, "why_none", lambda: "")
    monkeypatch.setattr(jail, "why_none", lambda: "")
    monkeypatch.setenv(setting.VARIABLE, word)
    assert setting.is_jailed(kept(TEXT)) and not setting.why_no_workbench()
    assert not setting.is_jailed(current().find("03_flash").path)


def test_this_machine_without_a_jail_says_whose_rights_a_text_has(monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "local")
    monkeypatch.setattr(in_place, "why_none", lambda: "the kernel has no Landlock")
    assert not setting.is_jailed(kept(TEXT))
    assert setting.of_workbench().startswith("Your kernel runs with your own rights")


@pytest.mark.parametrize("word", ["off", "jail", "local"])
def test_the_page_says_the_setting_in_one_sentence(monkeypatch, word):
    monkeypatch.setenv(setting.VARIABLE, word)
    monkeypatch.setattr(in_place, "why_none", lambda: "")
    monkeypatch.setattr(jail, "why_none", lambda: "")
    story = STORIES["workbench"]
    asked = asking.ask(story, {}, workers.survey())
    made = story.make(asked.subject)
    assert made.summary == setting.of_workbench() and made.views[0].meta["off"] == (word == "off")
    assert ("--strangers" in made.summary) == (word == "off")


def test_another_site_cannot_ask(client):
    assert post(client, headers={"origin": "https://elsewhere.example"}).status_code == 403


def test_a_line_has_a_limit(client):
    said = post(client, text=f"{TEXT}\n{'x' * (drafts.MOST_LINE + 1)}")
    assert said.status_code == 400 and f"Line {TEXT.count(chr(10)) + 2} has 2,001 characters" in said.json()["error"]


def test_the_web_process_reads_only_a_text_that_a_worker_read(monkeypatch):
    path = kept(f"{TEXT}// never checked\n")
    monkeypatch.setattr(drafts, "load_kernel", lambda path: pytest.fail("the web process reads it"))
    assert drafts.with_drafts(current(), [path.stem]) is current()


def test_a_text_that_takes_long_to_read_has_no_page(monkeypatch):
    monkeypatch.setattr(drafts, "READ_SECONDS", 0.0)
    said = examine.examine(f"{TEXT}// slow\n", False, drafts.name_of("", ""))
    assert not said["kernel"] and "it allows 0 s" in said["diagnostics"][0]["message"]


def test_an_error_of_a_drafts_page_is_short_and_no_fault_of_ours(client, monkeypatch, capfd):
    def fail(*_):
        raise BuildError("a probe must be the only statement: " + "x" * 10**5)

    monkeypatch.setattr(server, "answer", fail)
    said = client.get("/wg/ask/tiling")
    assert said.status_code == 400 and len(said.json()["error"]) == server.MOST_SAID and not capfd.readouterr().err


def test_the_log_shortens_each_line(capfd):
    audit.write(KeyError("x" * 10**5))
    assert len(capfd.readouterr().err) < 2 * audit.MOST_WRITTEN


# ---- questions at the same time ----


@pytest.fixture
def waiting(monkeypatch):
    """The jobs of all questions. None of them ends by itself."""
    jobs = []

    def submit(*_, client, **__):
        jobs.append(Job("The check", 1.0, client=client))
        return jobs[-1]

    monkeypatch.setattr(routes.workers, "submit", submit)
    return jobs


def asked(who):
    return asyncio.ensure_future(routes._asked(who, 1.0, examine.examine, TEXT, False, drafts.name_of(TEXT, who)))


async def ended(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_browser_and_an_address_have_few_open_checks(waiting, monkeypatch):
    monkeypatch.setattr(routes, "MOST_OF_ADDRESS", 3)

    async def ask():
        tasks = [asked("1.1.1.1 b/one"), asked("1.1.1.1 b/two")]
        await asyncio.sleep(0)
        with pytest.raises(routes.TooManyChecks, match="2 checks of this browser are open"):
            await asked("1.1.1.1 b/three")
        tasks += [asked("1.1.1.1 b/two"), asked("1.1.1.1 c/one"), asked("2.2.2.2 d/one")]  # the first stops a question
        await asyncio.sleep(0)
        with pytest.raises(routes.TooManyChecks, match="3 checks of this network are open"):
            await asked("1.1.1.1 d/one")
        assert len(waiting) == 5 and waiting[1].done() and len(routes._asking) == 4
        await ended(*tasks)

    loops.run(ask())
    assert not routes._asking


def test_too_many_checks_is_429(client, monkeypatch):
    monkeypatch.setattr(routes, "MOST_OPEN", 0)
    assert post(client).status_code == 429


def test_a_closed_connection_stops_its_check(waiting):
    async def ask():
        messages = asyncio.Queue()
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [], "client": ("1", 1)}
        messages.put_nowait({"type": "http.request", "body": TEXT.encode(), "more_body": False})
        answer = asyncio.ensure_future(routes.check(Request(scope, messages.get)))
        while not waiting:
            await asyncio.sleep(0.01)
        messages.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(answer, 5)

    loops.run(ask())
    assert waiting[0].done() and not routes._asking


def test_programs_without_cookies_do_not_stop_each_other(client, waiting):
    with ThreadPoolExecutor() as threads:
        answers = [threads.submit(post, client, f"{TEXT}// {n}\n") for n in range(2)]
        while len(waiting) < 2:
            time.sleep(0.01)
        assert not any(job.done() for job in waiting)
        for job in waiting:
            job.set_result({"kernel": "", "said": "done"})
        assert [answer.result().json()["said"] for answer in answers] == ["done", "done"]


def test_a_text_has_a_limit(client):
    said = post(client, text="x" * (MOST_BYTES + 1))
    assert said.status_code == 413 and "At most 256 KB" in said.json()["error"]
    assert post(client, text=b"\xff\xfe").status_code == 400


@pytest.mark.parametrize(
    ("error", "status"), [(FrontMatterError("title is missing."), 400), (BuildError("no"), 400), (WorkerDied("x"), 503)]
)
def test_an_error_of_the_text_is_not_one_of_the_server(client, monkeypatch, error, status):
    async def failed(*_):
        raise error

    monkeypatch.setattr(routes, "_asked", failed)
    said = post(client)
    assert said.status_code == status and said.json() == {"error": str(error)}


def test_a_fault_of_ours_gives_a_sentence_and_no_traceback(client, monkeypatch):
    def fail(text):
        raise KeyError("inside")

    monkeypatch.setattr(routes.drafts, "keep", fail)
    said = post(client)
    assert said.status_code == 500 and "inside" not in said.text and "Traceback" not in said.text


def test_a_text_is_answered_with_the_pages_that_can_show_it(client):
    said = post(client).json()
    assert said["ok"] and not said["diagnostics"], said
    (shown,) = (page for page in said["pages"] if page["path"] == "any_kernel")
    assert "03_flash" in shown["others"] and "paged_v1" not in shown["others"] and said["kernel"] not in shown["others"]
    asked = asking.ask(STORIES["any_kernel"], {"kernel": said["kernel"]}, workers.survey())
    assert asked.link["kernel"] == said["kernel"] and not asked.error


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))


def test_the_oldest_drafts_of_the_browser_with_most_drafts_go_first(monkeypatch, own_cache):
    monkeypatch.setattr(drafts, "KEPT", 4)
    first, again = kept(TEXT, "A"), kept(TEXT, "B")
    flood = [kept(f"{TEXT}// {n}\n", "B") for n in range(9)]
    for age, path in enumerate([*flood, again, first]):
        if path.is_file():
            os.utime(path, (1000 - age, 1000 - age))  # seconds: A's draft is the oldest
    last = kept(f"{TEXT}// last\n", "B")
    assert first.is_file() and last.is_file() and sum(path.is_file() for path in [again, *flood]) == 2


def test_a_new_browser_with_a_draft_keeps_it(monkeypatch, own_cache):
    monkeypatch.setattr(drafts, "KEPT", 3)
    paths = []
    for n in range(6):
        paths.append(kept(TEXT, f"browser {n}"))
        os.utime(paths[-1], (1000 + n, 1000 + n))
    assert [path.is_file() for path in paths] == [False] * 3 + [True] * 3


def test_a_text_whose_plan_takes_long_has_no_page(monkeypatch):
    monkeypatch.setattr(drafts, "READ_SECONDS", 0.1)
    many = TEXT.replace("\n[[launches]]\n", "\n[[launches]]\nrepeat = {n = 64, m = 64}\n", 1)
    assert many != TEXT
    said = examine.examine(many, False, drafts.name_of(many, "me"))
    assert not said["kernel"] and "it allows 0.1 s" in said["diagnostics"][0]["message"]


def test_a_name_has_128_bits_of_a_secret_of_browser_and_text(monkeypatch):
    name = drafts.name_of(TEXT, "A")
    assert name == drafts.name_of(TEXT, "A")
    others = {drafts.name_of(f"{TEXT} ", "A"), drafts.name_of(TEXT, "B")}
    assert len({name[-32:], *(other[-32:] for other in others)}) == 3
    monkeypatch.setattr(drafts, "_key", b"of another server")
    assert drafts.name_of(TEXT, "A")[-32:] != name[-32:]


def test_the_link_of_the_author_opens_the_draft_for_others_and_after_a_restart(client, monkeypatch):
    name = post(client).json()["kernel"]
    monkeypatch.setattr(drafts, "_key", b"of the next server")
    other = TestClient(Starlette(routes=server.routes("")))
    shown = other.get("/wg/ask/any_kernel", params={"kernel": name})
    assert shown.status_code == 200 and shown.json()["link"]["kernel"] == name
    guess = "draft_" + hashlib.sha256(TEXT.encode()).hexdigest()[:40]
    assert other.get("/wg/ask/any_kernel", params={"kernel": guess}).json()["link"].get("kernel") != guess
