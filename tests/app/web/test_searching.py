"""What the search finds."""

import pytest
from pages import open_page

from app.stories import listed
from app.web.searching import everything
from explainers.story.terms import TERMS
from kernels.catalog import current


def by_kind(kind):
    return [entry for entry in everything(current()) if entry["kind"] == kind]


def test_every_page_term_and_kernel_is_found():
    assert {entry["link"] for entry in by_kind("page")} == set(listed(current()))
    assert {entry["title"] for entry in by_kind("term")} == set(TERMS)
    assert {entry["title"].split()[0] for entry in by_kind("kernel")} == set(current().kernels)


def test_each_setting_is_found_once_and_with_its_meaning():
    settings = by_kind("setting")
    names = [entry["set"] for entry in settings]
    assert len(names) == len(set(names)) and all(entry["said"] for entry in settings)
    assert any(entry["title"] == "key tile (BLOCK_KV)" for entry in settings)


@pytest.mark.parametrize("kind", ["stop", "setting"])
def test_the_links_say_nothing_that_their_page_does_not_take(kind):
    for entry in by_kind(kind)[::6]:
        asked = open_page(entry["link"]).asked
        assert not asked.told, (entry, asked.told)
        if kind == "setting":
            assert entry["set"] in asked.link
