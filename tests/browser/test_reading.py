"""What a reader of a stop sees: no text answers a question before it is asked, narration goes on, and there is little
to read and to press."""

import pytest
from browser.reading import leaks, listed, opened

from app.course import stops

MOST_STEPS, MOST_CONTROLS = 20, 12  # outside the card and the header
FAST = ("tiles", "banks", "grouped_heads")
STOPS = [
    pytest.param(stop, marks=[] if stop.name in FAST else [pytest.mark.slow]) for stop in stops() if stop.questions
]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.name)
def test_nothing_answers_a_question_before_it_is_asked_and_a_stop_is_short(visit, stop):
    page = opened(visit, stop)
    found = listed(page, stop)
    assert found["controls"] <= MOST_CONTROLS, found
    assert stop.shelf or found["steps"] <= MOST_STEPS, found
    assert not leaks(page, stop)
