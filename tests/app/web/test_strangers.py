"""Links that nobody should send, and pages that would take too long: each is answered in words. tests/load sends
more."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pages import page_of
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.choices import estimates
from app.choices.links import read_link
from app.guards import connections
from app.stories import STORIES
from app.web import asking, modules, server
from kernels.core.fields import MOST_SAID
from kernels.errors import ProblemError, TooLargeError
from kernels.families.paged.problem import MOST_PAGES, PagedProblem
from kernels.run import workers
from tests.load.links import ROUTES, hostile

SEED, SHARE = 14, 100  # links of all pages in turn


@pytest.fixture(scope="module")
def survey():
    return workers.survey()


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=server.routes("")))


def test_a_hostile_link_is_answered_with_what_is_shown_or_why_not(survey):
    for link in hostile(SEED, SHARE):
        query = dict(link.query)
        params = {name: text for name, text in query.items() if not name.startswith("_")}
        change = (query["_set"], query.get("_to", "")) if "_set" in query else None
        made = asking.ask(STORIES[link.story], params, survey, change, "_carried" in query, query.get("_part", ""))
        assert (made.subject is None) == bool(made.error), link
        assert all(said[-1:] in (".", ")", "?") for said in (*made.told, *made.refused.values())), (link, made.told)


def test_every_other_address_is_answered_without_a_fault(client, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda path, query: {})  # of a page itself
    for route in ROUTES:
        assert client.get(route.replace("VERSION", modules.version())).status_code < 500, route


def test_a_link_too_long_to_be_read_is_refused(client, monkeypatch):
    said = client.get(f"/wg/ask/tiling?seed={'1' * server.MOST_LINK}")
    assert said.status_code == 414 and "60,005 characters. At most 60,000 are read" in said.json()["error"]
    assert server.MOST_LINK < connections.MOST_LINK  # a longer one gets no further than its connection


def test_equal_questions_at_once_are_answered_once_and_for_a_moment(survey, monkeypatch):
    asked, go = [], threading.Event()
    monkeypatch.setattr(asking, "ask", lambda *of: go.wait(10) and asked.append(of) or asking.Asking())
    monkeypatch.setattr(asking, "SECONDS", 60.0)
    asking.ask_once.cache_clear()
    question = (STORIES["tiling"], {"seed": "7"}, survey, None, False, "")
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(asking.ask_once, *question) for _ in range(4)]
        go.set()
        assert len({id(one.result()) for one in found}) == 1
    assert len(asked) == 1
    asking.ask_once(STORIES["tiling"], {"seed": "8"}, survey, None, False, "")
    asking.ask_once(STORIES["tiling"], {"seed": "7" * asking.MOST_CHARACTERS}, survey, None, False, "")
    assert len(asked) == 3 and len(asking._kept) == 2
    monkeypatch.setattr(asking, "SECONDS", -1.0)
    asking.ask_once(*question)
    assert len(asked) == 4
    asking.ask_once.cache_clear()


def test_a_question_that_fails_is_asked_again(survey, monkeypatch):
    errors = [ZeroDivisionError("by zero"), ProblemError("no")]
    monkeypatch.setattr(asking, "ask", lambda *of: (_ for _ in ()).throw(errors.pop(0)))
    for error in (ZeroDivisionError, ProblemError):
        with pytest.raises(error):
            asking.ask_once(STORIES["tiling"], {"seed": "9"}, survey, None, False, "")


def test_a_message_repeats_no_more_than_a_line_of_a_value(survey):
    made = asking.ask(STORIES["tiling"], {"seed": "x" * 9000, "kernel": "y" * 9000}, survey)
    assert len(made.told) == 2 and all("(9,002 characters)" in said and len(said) < 5 * MOST_SAID for said in made.told)


def test_a_tab_is_estimated_with_all_that_it_launches(survey):
    link = {"kernel": "03_flash", "seq_len": "2048", "num_heads": "1", "backend": "cpu"}
    assert not asking.ask(STORIES["tiling"], link, survey).error
    error = asking.ask(STORIES["tiling"], link, survey, part="bytes").error
    assert "Tiles (bytes) launches 6 kernels 26 times at seq_len 2048" in error and "s on the CPU" in error
    assert error.endswith("the limit is 30 s. Choose a smaller seq_len, batch or num_heads, or a machine with a GPU.")


def test_a_stage_that_would_outlast_its_worker_is_refused_before_it_is_launched(survey):
    made = asking.ask(STORIES["compare"], {"seq_len": "4096", "backend": "cpu"}, survey)
    assert made.subject is None and "Compare launches 2 kernels 4 times" in made.error and made.choices


def test_an_estimate_counts_each_request_once_and_no_gpu(survey):
    tiling = STORIES["tiling"]
    request = asking.ask(tiling, {"backend": "cpu"}, survey).subject
    assert estimates.requests_in((request, [request])) == [request]
    assert [each.seconds for each in estimates.run([request])] == [2e-8 * request.problem.cpu_steps]
    large = page_of("tiling").request_of(read_link(page_of("tiling"), {"seq_len": "16384"})[0], backend="gpu")
    asking.check_time(tiling, "bytes", large)
    with pytest.raises(TooLargeError, match="machine with a GPU"):
        asking.check_time(
            tiling, "", page_of("tiling").request_of(read_link(page_of("tiling"), {"seq_len": "16384"})[0])
        )


@pytest.mark.parametrize(
    ("story", "link", "part"),
    [
        ("block_table", {"view": "heads"}, "shuffle"),
        ("block_table", {"view": "walk"}, "shuffle"),
        ("block_table", {"view": "cache"}, "data"),
        ("occupancy", {"view": "timeline"}, "sizes"),
    ],
)
def test_a_tab_that_a_view_has_not_is_told(story, link, part):
    state, _ = read_link(page_of(story), link)
    with pytest.raises(ProblemError, match="no such tab"):
        STORIES[story].parts[part](
            STORIES[story].subject(page_of(story), state, "recorded" if story == "occupancy" else "cpu")
        )


def test_a_pool_of_more_pages_than_there_can_be_is_refused():
    with pytest.raises(ProblemError, match=f"{MOST_PAGES:,}"):
        PagedProblem(context_lens=(65536,) * 400, block_size=8)
