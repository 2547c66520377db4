"""words.toml: the sandbox, the choice of a text, and the forms of a question."""

import pytest
from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from explainers.story.words import Words

TEXT = """
[texts]
sum = [{ when = "n > 1", say = "{{ n | n }} bytes of {{ row.name }}" }, { say = "one\\n  byte" }]
all = [{ when = "n > 1", say = "many" }, { when = "n > 2", say = "more" }, { say = "{{ '' }}" }, { say = "{{ n }}\\n" }]
steals = "{{ row.__class__ }}"

[[step]]
when = "kind == 'load'"
title = "Load"
say = "{{ kind }} {{ 2500 | n }}"
more = "{{ ['1', '2'] | listed }}"

[[step]]
title = "Else"
say = "{{ missing }}"

[[question]]
id = "number"
when = "n > 1"
ask = "How many?"
right = "n"
wrong = "[n, 2 * n, 4]"
unit = "bytes"
why = "{{ n | n }}"
covers = [{ total = 1 }]

[[question]]
id = "text"
ask = "Which?"
right = "{{ 2.5 | two }} times"
wrong = ["10.00 times", "1.00 times", "{% if n > 9 %}30.00 times{% endif %}"]
rising = true
step = "n - 1"
why = "so"

[[question]]
id = "idea"
ask = "Why?"
right = "a"
wrong = { b = "not {{ n }}" }
order = ["a", "b"]
why = "so"

[[question]]
id = "click"
ask = "Where?"
click = "{'row': n}"
why = "there"
"""


@pytest.fixture
def words():
    return Words(TEXT, "words.toml")


def test_the_first_text_with_a_true_condition_is_one_line(words):
    assert words.say("sum", {"n": 3000, "row": {"name": "K"}}) == "3,000 bytes of K"
    assert words.say("sum", {"n": 1}) == "one byte"
    assert (words.parts("all", {"n": 2}), words.parts("all", {"n": 1})) == (["many", "2"], ["1"])


def test_an_unknown_name_and_an_attribute_are_errors(words):
    for name in ("sum", "steals"):
        with pytest.raises((UndefinedError, SecurityError)):
            words.say(name, {"row": {}})
    with pytest.raises(UndefinedError, match="missing"):
        words.frames([{"tile": 0, "kind": "store"}], {})


def test_a_frame_has_its_words_and_the_columns_of_frames_only(words):
    (frame,) = words.frames([{"tile": 3, "kind": "load", "fused_lines": {"a.cu:1": 2}}], {"kind": "store"})
    texts = {"title": "Load", "sentence": "load 2,500", "details": "1 and 2"}
    assert frame == {"tile": 3, "fused_lines": {"a.cu:1": 2}, **texts}


def test_every_form_of_a_question(words):
    number, text, idea, click = words.questions({"n": 2}, last=9)
    assert number.options == ["2 bytes", "4 bytes"] and number.answer == 0 and number.covers == [{"total": 1}]
    assert text.options == ["1.00 times", "2.50 times", "10.00 times"] and text.answer == 1 and text.step == 1
    assert idea.reasons == ["", "not 2"] and idea.step == 9
    assert click.kind == "click" and click.answer == {"row": 2}
    assert [question.id for question in words.questions({"n": 1}, 0)] == ["text", "idea", "click"]
