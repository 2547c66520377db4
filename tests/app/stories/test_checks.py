"""The last stop: all seven knowledge checks come again, as their own pages ask them."""

import json

from pages import open_page

from app import course
from app.stories import checks

SEVEN = {
    "check_q_shared",
    "check_grid",
    "check_block_table",
    "check_two_phases",
    "check_split",
    "check_never_stored",
    "check_grouped",
}


def meta():
    page = open_page("checks?stop=checks")
    assert not page.asked.error and not page.asked.told
    (view,) = page.stage.views
    return view["meta"]


def test_all_seven_checks_are_asked_by_the_stops_and_again_at_the_end():
    shown = meta()
    assert {check["id"] for check in shown["checks"]} == SEVEN
    for check in shown["checks"]:
        stop = next(stop for stop in course.stops() if stop.name == check["stop"])
        assert check["id"] in stop.questions
        link = "&".join(f"{name}={value}" for name, value in stop.choices.items())
        asked = {q["id"]: q for q in open_page(f"{stop.story}?{link}").stage.questions}[check["id"]]
        assert (check["text"], check["why"]) == (asked["text"], asked["why"])
        assert check["options"] == asked["options"][::-1] and check["reasons"] == asked["reasons"][::-1]
        assert check["options"][check["answer"]] == asked["options"][asked["answer"]]
        assert 0 <= check["answer"] < len(check["options"]) and check["why"].endswith(".")


def test_the_summary_has_one_sentence_of_each_stop_and_each_paper_once():
    shown = meta()
    assert [stop["idea"] for stop in shown["stops"]] == [stop.idea for stop in course.stops() if stop.questions]
    links = [paper["link"] for paper in shown["papers"]]
    assert len(links) == len(set(links)) >= 8 and all(link.startswith("https://") for link in links)


def test_it_works_while_a_check_is_missing(monkeypatch):
    monkeypatch.setattr(checks, "CHECK", "check_grid")
    made = checks.make(checks.subject(None, {}, "cpu"))
    assert [check["id"] for check in made.views[0].meta["checks"]] == ["check_grid"]
    assert json.dumps(made.views[0].meta)
