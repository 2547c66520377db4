"""Rules of a stop that its page shows without a browser: short headlines, and a reason against each wrong option."""

import re

import pytest
from pages import open_page

from app.course import stops

MOST_WORDS, MOST_NUMBERS = 12, 3  # of a headline
WORD = re.compile(r"\S*\w\S*")  # a sign alone is none
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")


@pytest.mark.parametrize("stop", [stop for stop in stops() if stop.questions], ids=lambda stop: stop.name)
def test_headlines_are_short_and_each_wrong_option_has_a_reason(stop):
    link = "&".join(f"{name}={value}" for name, value in {"stop": stop.name, **stop.choices}.items())
    stage = open_page(f"{stop.story}?{link}").stage
    frames = [*stage.frames, *(f for view in stage.views for f in frames_of(view["meta"]))]
    heads = dict.fromkeys(frame["head"] for frame in frames if isinstance(frame.get("head"), str))
    assert not [head for head in heads if len(WORD.findall(head)) > MOST_WORDS]
    assert not [head for head in heads if len(NUMBER.findall(head)) > MOST_NUMBERS]
    asked = {question["id"]: question for question in stage.questions}
    for id in stop.questions:
        wrong = [n for n in range(len(asked[id]["options"])) if n != asked[id]["answer"]]
        assert all(asked[id]["reasons"] and asked[id]["reasons"][n] for n in wrong), id


def frames_of(meta):
    return meta.get("frames", []) if isinstance(meta, dict) and meta.get("clock") else []
