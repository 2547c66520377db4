"""The page of the glossary."""

from pages import open_page

from explainers.stories.glossary.story import entries
from explainers.story.terms import TERMS


def test_the_page_lists_every_term_by_the_alphabet_with_its_place():
    stage = open_page("glossary").stage
    (view,) = stage.views
    listed = [entry["term"] for entry in view["meta"]["entries"]]
    assert set(listed) == set(TERMS) and listed == sorted(listed, key=str.lower)
    assert str(len(TERMS)) in stage.summary
    slot = next(entry for entry in entries() if entry["term"] == "slot")
    assert slot["story"] == "block_table" and slot["query"].startswith("view=")
