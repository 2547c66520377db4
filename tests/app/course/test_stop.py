"""The loader of the stops. tests/app/stories/test_stories.py opens each."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from app.course import SHELVES, Stop, read, stops
from app.course.stop import StopError

TEXT = """
title = "Tiles"
minutes = 4
story = "tiling"
idea = "A block copies a tile once and uses it many times."
questions = ["reuse"]
"""


@pytest.fixture
def folder(tmp_path):
    def make(text=TEXT, name="12_tiles.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path

    return make


def test_a_stop_has_its_name_and_number_from_its_file(folder):
    (stop,) = read(folder())
    assert (stop.name, stop.number, stop.title, stop.shelf) == ("tiles", 1, "Tiles", "")
    assert stop.questions == ("reuse",) and stop.choices == {} and stop.paper is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("minutes", 'shelf = "Deep"\nminutes', "12_tiles.toml: shelf is 'Deep'. Choose one of , Depth, Beyond"),
        ("minutes = 4", "minutes = 0", "12_tiles.toml: minutes is 0. Write a whole number from 1."),
        ('title = "Tiles"', "", "12_tiles.toml: title is None. Write a text."),
        ("minutes", "minute", "12_tiles.toml: minute is no key. Did you mean minutes?"),
        ('["reuse"]', '["a", "b", "c", "d"]', "Name at most 3 questions of the story."),
        ("copies", "copies and copies and copies and copies and copies and copies", "at most 20 words."),
        ("minutes = 4", "minutes = 4\nchoices = { row = 3 }", "choices is {'row': 3}. Write a table of texts"),
        ("minutes = 4", 'minutes = 4\npaper = { label = "A" }', "12_tiles.toml: paper.link is None. Write a text."),
        ("minutes = 4", 'minutes = 4\ngain = { kind = "speed" }', "gain.kind is 'speed'. Choose one of time, bytes"),
        ("minutes = 4", "minutes = ", "12_tiles.toml is no TOML"),
    ],
)
def test_a_fault_names_file_key_value_and_remedy(folder, before, after, said):
    with pytest.raises(StopError) as error:
        read(folder(TEXT.replace(before, after)))
    assert said in str(error.value)


def test_a_file_has_a_number_and_a_name(folder):
    with pytest.raises(StopError, match="Name it NN_name.toml"):
        read(folder(name="tiles.toml"))


def test_names_are_unique(folder):
    folder()
    with pytest.raises(StopError, match="Two stops have the name tiles"):
        read(folder(name="13_tiles.toml"))


def test_a_stop_on_a_shelf_has_no_number_and_comes_after_the_course(folder):
    folder(TEXT.replace("minutes", 'shelf = "Depth"\nminutes'))
    assert [(stop.name, stop.number) for stop in read(folder(name="13_pages.toml"))] == [("pages", 1), ("tiles", 0)]


def test_the_course_has_twelve_stops_in_fifty_minutes_and_something_on_every_shelf():
    course = [stop for stop in stops() if not stop.shelf]
    assert len(course) == 12 and sum(stop.minutes for stop in course) <= 50
    assert {stop.shelf for stop in stops()} == set(SHELVES)
    assert all(field.name in Stop.__doc__ for field in fields(Stop))


@pytest.mark.parametrize("guide", ["README.md", "CHANGELOG.md", "app/README.md"])
def test_the_guides_count_the_stops(guide):
    said = re.search(r"(\d+) stops", (Path(__file__).parents[3] / guide).read_text())
    assert said and int(said[1]) == sum(not stop.shelf for stop in stops())
