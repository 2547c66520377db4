"""What the search finds."""

import pytest
from pages import open_page

from app.stories import listed
from app.web.searching import MOST_NEAR, everything, places_near
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


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("threads", ["registers?picture=threads"]),
        ("matrices", ["tiling?picture=matrices"]),
        ("roofline", ["timing?picture=roofline"]),
        ("Bytes", ["tiling?tab=bytes", "any_kernel?tab=bytes"]),
        ("how-fast", ["timing"]),
        ("regsters", ["registers"]),
        ("paged_v3", ["block_table?kernel=paged_v3"]),
        ("nosuchpage", []),
        ("x" * 5000, []),
    ],
)
def test_an_unknown_address_is_near_pages_pictures_tabs_and_kernels(name, links):
    assert [place["link"] for place in places_near(current(), name)][: len(links)] == links
    assert len(places_near(current(), name)) <= (MOST_NEAR if links else 0)


def test_the_pictures_by_which_an_address_may_ask_are_on_their_page():
    for path, story in listed(current()).items():
        if story.pictures:
            asked = open_page(path).asked
            shown = {view.id for view in story.make(asked.subject).views}
            assert {*story.pictures} <= shown
