"""The texts of the repository are plain: no habit of hard prose is more frequent than in well-known libraries."""

from pathlib import Path

import plain_words
import pytest
from plain_words import AIMS, Text, lines_with, rates, texts

ROOT = Path(__file__).parents[1]
HARD = {
    "semicolons": "one; two",
    "passive reports": "it is told to them",
    "relatives": "a thing that runs, which ends, where it waits, who stops it, and what follows",
    "clauses as nouns": "what is recorded",
    "fronted Of, What, Where": "Of the keys two run",
    "alone for only": "a GPU alone",
    "stands, lies, goes by": "it stands in the file",
    "pronouns without a noun": "the first of them",
}


@pytest.fixture(scope="module")
def found():
    return list(texts(ROOT))


def test_each_kind_of_text_is_read_and_a_habit_is_rare_in_it(found):
    over = [(habit, kind, rate) for (kind, habit), rate in rates(found).items() if rate > AIMS[habit][1]]
    places = [
        f"{habit}: {rate:.2g} per 1,000 words of {kind}, at most {AIMS[habit][1]:g}. Rewrite some of "
        f"{lines_with(habit, kind, found)}"
        for habit, kind, rate in over
    ]
    assert not over, "\n".join(places)
    kinds = {text.kind for text in found}
    assert {"docstrings", "comments", "errors", "strings", "front matter", "README.md", "kernels/README.md"} <= kinds


@pytest.mark.parametrize("habit", AIMS)
def test_a_habit_is_found(habit):
    long = " word" * plain_words.LEAST_WORDS
    hard, plain = Text("kind", ROOT, 1, HARD[habit] + long), Text("kind", ROOT, 1, "a GPU" + long)
    assert rates([hard])["kind", habit] > AIMS[habit][1] and not rates([plain])["kind", habit]
    assert lines_with(habit, "kind", [hard, plain]) == [f"{ROOT}:1"]
