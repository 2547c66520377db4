"""The page of the seven knowledge checks: new numbers, each with a computed answer, a summary and the papers."""

import json
import math
from functools import cache

from pages import open_page

from app import course
from kernels.trace.memory import model


@cache
def meta():
    page = open_page("checks")
    assert not page.asked.error and not page.asked.told
    (view,) = page.stage.views
    return view["meta"]


def test_it_asks_seven_questions_each_of_a_stop_with_a_reason_against_each_wrong_option():
    checks = meta()["checks"]
    in_course = {stop.name for stop in course.stops() if not stop.shelf}
    assert len(checks) == 7 == len({check["id"] for check in checks})
    for check in checks:
        assert check["stop"] in in_course and check["why"].endswith(".")
        assert [not reason for reason in check["reasons"]].index(True) == check["answer"]
        assert len(set(check["options"])) == 4


def answer(name):
    return next(check for check in course.checks() if check.name == name).right


def test_the_answers_are_computed():
    assert answer("trips") == f"{2048 // 64} times"
    assert answer("rescale") == f"{8 * math.exp(2 - 5) + 1.6:.1f}"
    turns = [
        model.shared_wavefronts([lane * width * 4 for lane in range(32)], 4, "load").wavefronts for width in (40, 41)
    ]
    assert answer("banks") == f"{turns[0]} turns. Rows of 41 floats need {turns[1]}"
    assert answer("page") == f"Page {[7, 2, 9, 4][50 // 16]}, slot {50 % 16}"
    blocks = 2 * 16
    assert answer("partitions").startswith(f"{blocks * 8192 // 512} blocks in place of {blocks},")
    assert answer("grouped_heads") == f"{2 * 8 * 128 * 2:,} bytes"


def test_the_summary_has_one_sentence_of_each_stop_and_each_paper_once():
    shown = meta()
    assert [stop["idea"] for stop in shown["stops"]] == [stop.idea for stop in course.stops() if stop.questions]
    links = [paper["link"] for paper in shown["papers"]]
    assert len(links) == len(set(links)) >= 8 and all(link.startswith("https://") for link in links)
    assert json.dumps(shown)


def test_the_end_of_the_last_stop_leads_here():
    last = max(course.stops(), key=lambda stop: stop.number)
    assert last.story == "timing" and last.deeper.link == "checks"
