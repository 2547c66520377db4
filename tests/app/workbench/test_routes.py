"""The workbench's route and its walls: off for others, with --strangers only in the jail, and never without limits."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.stories import STORIES
from app.stories.workbench import STARTER
from app.web import asking, server
from app.workbench import drafts, routes
from kernels.catalog import current
from kernels.core.sources import MOST_BYTES
from kernels.errors import BuildError, FrontMatterError, WorkerDied
from kernels.jail import in_place, jail, setting
from kernels.run import workers

TEXT = STARTER.read_text()


@pytest.fixture
def client():
    return TestClient(Starlette(routes=server.routes("")))


def post(client, text=TEXT, **more):
    return client.post("/wg/workbench/check?who=me", content=text, **more)


def test_a_server_for_others_refuses_every_text(client, monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "off")
    said = post(client)
    assert said.status_code == 403 and "Start it with --strangers" in said.json()["error"]
    name = drafts.keep(TEXT).stem
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
    assert setting.is_jailed(drafts.keep(TEXT)) and not setting.why_no_workbench()
    assert not setting.is_jailed(current().find("03_flash").path)


def test_this_machine_without_a_jail_says_whose_rights_a_text_has(monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "local")
    monkeypatch.setattr(in_place, "why_none", lambda: "the kernel has no Landlock")
    assert not setting.is_jailed(drafts.keep(TEXT))
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


def test_only_some_drafts_are_kept(monkeypatch):
    monkeypatch.setattr(drafts, "KEPT", 3)
    paths = [drafts.keep(f"{TEXT}// {n}\n") for n in range(5)]
    assert sum(path.is_file() for path in paths) == 3
