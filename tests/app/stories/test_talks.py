"""The talks that come with the app: each moment is what its link says, and each number of its note stands on the page
there."""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest
from pages import open_page, words

from app.course.stop import stops as all_stops
from app.web import asking, modules

TALKS = {path.stem: json.loads(path.read_text()) for path in sorted(modules.TALKS.glob("*.json"))}
MOMENTS = [(talk, n) for talk, given in TALKS.items() for n in range(len(given["moments"]))]
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


@cache
def opened(link):
    """The page of a link without what is the browser's own: many moments share a run."""
    return open_page(link)


def moment_of(talk, n):
    """A moment, its page and what its link says beside choices."""
    moment = TALKS[talk]["moments"][n]
    path, _, query = moment["link"].partition("?")
    given = dict(parse_qsl(query))
    own = {name: given.pop(name) for name in asking.CLIENT & set(given)}
    return moment, opened(f"{path}?{urlencode(given)}"), own


def numbers(text):
    return [found.replace(",", "").rstrip(".") for found in NUMBER.findall(text)]


def near(said, there):
    """Whether a number of the page, rounded as the note does, is what the note says."""
    digits = len(said.partition("e")[0].partition(".")[2])
    return float(said) == float(there) or ("e" not in said and round(float(there), digits) == float(said))


def on_the_page(page, first, last, tab):
    """All that the page says at these steps, as text."""
    stage = page.stage
    frames = [
        " ".join([f.get("sentence") or "", f.get("details") or "", *(f.get("sentences") or ())])
        for f in stage.frames[first : last + 1]
    ]
    state = [
        str(entry["values"][min(step, len(entry["values"]) - 1)])
        for entry in stage.state
        for step in range(first, last + 1)
    ]
    named = [entry["name"] for entry in stage.state]
    choices = [text for text in page.asked.link.values() if re.fullmatch(r"-?[\d.]+", text)]
    return " ".join(
        [*frames, *state, *named, *choices, stage.headline, stage.summary, words(page.tab(tab)) if tab else ""]
    )


TRIED = [  # each third moment, and the others when there is time
    pytest.param(talk, n, id=f"{talk} {n + 1}", marks=[pytest.mark.slow] if n % 3 else []) for talk, n in MOMENTS
]


@pytest.mark.parametrize(("talk", "n"), TRIED)
def test_a_moment_of_a_talk_is_there_and_its_note_says_what_the_page_says(talk, n):
    moment, page, own = moment_of(talk, n)
    assert not page.asked.error and not page.asked.told and not page.stage.told
    first = int(own.get("step", 1)) - 1
    last = first + moment.get("steps", 0)
    pictures = {view["id"]: view["meta"] for view in page.stage.views}
    assert own.get("picture") in {None, *pictures}
    frames = pictures.get(own.get("picture"), {}).get("frames") or page.stage.frames  # a picture may have its own steps
    assert 0 <= first <= last < len(frames)
    assert own.get("tab") in {None, *(tab["id"] for tab in page.stage.tabs)}
    there = numbers(on_the_page(page, first, last, own.get("tab")))
    assert not [said for said in numbers(moment["note"]) if not any(near(said, one) for one in there)]


@pytest.mark.parametrize("talk", TALKS)
def test_a_talk_takes_the_minutes_that_it_plans_and_runs_wherever_kernels_run(talk):
    given = TALKS[talk]
    assert given["format"] == "warpglass-sequence" and given["version"] == 1
    assert sum(moment["minutes"] for moment in given["moments"]) == given["minutes"] == 20
    assert 12 <= len(given["moments"]) <= 24
    for moment in given["moments"]:
        assert moment["title"] and "backend" not in dict(parse_qsl(moment["link"].partition("?")[2]))
        assert len(re.findall(r"[.:] |\.$", moment["note"])) >= 1 and re.search(r"\.$", moment["note"])
        assert moment["note"].count("Ask the room") <= 1


def test_the_talk_of_the_course_has_a_slide_for_each_stop():
    stops = [stop for stop in all_stops() if not stop.shelf and stop.questions]
    moments = TALKS["course"]["moments"]
    assert [moment["link"].partition("?")[0] for moment in moments] == [stop.story for stop in stops]
    for moment, stop in zip(moments, stops):
        given = dict(parse_qsl(moment["link"].partition("?")[2]))
        assert given["picture"] == stop.picture and stop.choices.items() <= given.items()


def test_a_number_that_the_page_does_not_say_is_noticed():
    assert near("9.29", "9.28962") and near("2048", "2048") and not near("9.30", "9.28962") and not near("16", "15")
    assert numbers("On an H200: 32,768 bytes, 3.4e+38 and -0.5.") == ["32768", "3.4e+38", "-0.5"]


def test_the_browser_gets_them_as_they_are():
    text = modules.modules()["talks/ours.js"].removeprefix("export const TALKS = ").rstrip(";")
    assert json.loads(text) == [{"id": talk, **given} for talk, given in TALKS.items()]
    assert Path(modules.TALKS).is_dir()
