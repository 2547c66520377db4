"""The last stop: the way of the course in times, a new check for each act, and all seven knowledge checks again, as
their own pages ask them."""

import json
import math
from functools import cache

from pages import open_page

from app import course
from app.stories import checks
from kernels.trace.memory import model

SEVEN = {
    "check_q_shared",
    "check_grid",
    "check_block_table",
    "check_two_phases",
    "check_split",
    "check_never_stored",
    "check_grouped",
}


@cache
def meta():
    page = open_page("checks?stop=checks")
    assert not page.asked.error and not page.asked.told
    (view,) = page.stage.views
    return view["meta"]


def test_all_seven_checks_are_asked_by_the_stops_and_again_at_the_end():
    shown = meta()
    again = [check for check in shown["checks"] if not check["new"]]
    assert {check["id"] for check in again} == SEVEN
    for check in again:
        stop = next(stop for stop in course.stops() if stop.name == check["stop"])
        assert check["id"] in stop.questions
        link = "&".join(f"{name}={value}" for name, value in stop.choices.items())
        asked = {q["id"]: q for q in open_page(f"{stop.story}?{link}").stage.questions}[check["id"]]
        assert (check["text"], check["why"]) == (asked["text"], asked["why"])
        assert check["options"] == asked["options"][::-1] and check["reasons"] == asked["reasons"][::-1]
        assert check["options"][check["answer"]] == asked["options"][asked["answer"]]
        assert 0 <= check["answer"] < len(check["options"]) and check["why"].endswith(".")


def test_each_new_check_has_a_reason_against_each_wrong_option():
    new = [check for check in meta()["checks"] if check["new"]]
    names = {stop.name for stop in course.stops()}
    for check in new:
        assert check["stop"] in names and check["why"].endswith(".")
        assert [not reason for reason in check["reasons"]].index(True) == check["answer"]
        assert len(set(check["options"])) == 4


def answer(name):
    return next(check for check in course.checks() if check.name == name).right


def test_the_answers_of_the_new_checks_are_computed():
    assert answer("rescale").endswith(f"{math.exp(2 - 5):.2f}")
    turns = model.shared_wavefronts([lane * 48 * 4 for lane in range(32)], 4, "load").wavefronts
    assert answer("banks") == f"{turns} turns"
    assert answer("page") == f"Page {[7, 2, 9, 4][50 // 16]}"
    assert answer("in_flight") == f"{max(900, 1200):,} ns" and answer("saved") == f"{8192:,}"


def test_the_way_has_the_recorded_time_of_each_kernel_and_a_link_to_its_stop():
    shown = meta()
    steps, names = shown["steps"], {stop.name for stop in course.stops()}
    assert len(steps) == 13 and {step["stop"] for step in steps} <= names
    for before, step in zip(steps, steps[1:]):
        assert step["times"].endswith(f"{before['us'] / step['us']:.3g}") and step["us"] < before["us"]
    assert f"{steps[0]['us'] / steps[-1]['us']:.3g} times" in shown["said"] and "H200" in shown["source"]


def test_the_summary_has_one_sentence_of_each_stop_and_each_paper_once():
    shown = meta()
    assert [stop["idea"] for stop in shown["stops"]] == [stop.idea for stop in course.stops() if stop.questions]
    links = [paper["link"] for paper in shown["papers"]]
    assert len(links) == len(set(links)) >= 8 and all(link.startswith("https://") for link in links)


def test_it_works_while_a_check_is_missing(monkeypatch):
    monkeypatch.setattr(checks, "CHECK", "check_grid")
    made = checks.make(checks.subject(None, {}, "cpu"))
    again = [check["id"] for check in made.views[0].meta["checks"] if not check["new"]]
    assert again == ["check_grid"]
    assert json.dumps(made.views[0].meta)
