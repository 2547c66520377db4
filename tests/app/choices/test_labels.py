"""Plain words for the names of choices."""

import pytest
from pages import open_page

from app.choices.described import PLAIN, plain
from app.choices.page import Page
from app.stories import STORIES
from kernels.catalog import current


def names(page: Page) -> set[str]:
    found: set[str] = set()
    for kernel in page.kernels:
        state = page.default_state()
        page.take_kernel(state, page.sides[0], kernel)
        found |= set(page.choices(state))
    return found


def test_every_label_belongs_to_a_choice():
    known = {name for story in STORIES.values() for name in names(story.page(current()))}
    assert not set(PLAIN) - known


@pytest.mark.parametrize(
    ("name", "words"),
    [("BLOCK_KV", "key tile"), ("a_BLOCK_Q", "A query tile"), ("seq_len", "tokens"), ("tile_size", "tile size")],
)
def test_a_name_has_plain_words(name, words):
    assert plain(name) == words


def test_a_label_of_the_page_has_no_other_words():
    choices = open_page("tiling").choices
    assert choices["seq_len"]["plain"] == "tokens" and "plain" not in choices["kernel"]
