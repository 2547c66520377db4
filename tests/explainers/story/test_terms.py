"""Each term of the glossary has a meaning, a source and a place that opens."""

import re

import pytest
from pages import open_page

from explainers.story.terms import OURS, TERMS

MOST_WORDS = 25  # of a sentence


def test_a_term_has_short_sentences_and_a_source():
    for name, term in TERMS.items():
        for sentence in re.split(r"(?<=\.) ", term.said):
            assert 0 < len(sentence.split()) <= MOST_WORDS, name
        assert term.said.endswith(".") and "multiprocessor" not in term.said.replace("streaming multiprocessor", "")
        assert term.source == OURS or term.source.link.startswith("https://"), name


@pytest.mark.parametrize("place", sorted({term.place for term in TERMS.values()}))
def test_the_place_of_a_term_opens_without_a_complaint(place):
    page = open_page(place)
    assert not page.asked.error and not page.asked.told
    wanted = re.search(r"picture=(\w+)", place)
    assert not wanted or wanted[1] in [view["id"] for view in page.stage.views]
