"""An address without a page: the start page names it, and leads to what is near it."""

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize(
    ("address", "near", "shown"),
    [
        ("/threads", "Registers, picture threads", "registers"),
        ("/bytes", "Why tiles, tab bytes", "tiling"),
        ("/nosuchpage?seq_len=64", "", ""),
    ],
)
def test_the_start_page_names_an_unknown_address_and_leads_to_what_is_near(visit, address, near, shown):
    page = visit(address, wait=".wg .messages .note")
    note, name = page.locator(".wg .messages .note"), address[1:].partition("?")[0]
    expect(note).to_contain_text(f"Warpglass has no page named '{name}'.")
    assert not page.locator("[data-testid=stDialog]").count()  # Streamlit's own word covered the menu
    if not near:
        expect(note).to_contain_text("More pages and Search list all pages.")
        page.get_by_role("button", name="Menu").click(timeout=5_000)
        return
    note.get_by_role("link", name=near, exact=True).click()
    page.wait_for_function("path => document.querySelector('.wg').dataset.shown?.startsWith(path)", arg=shown)
    expect(note).to_have_count(0)
    assert name in page.url


def test_a_slash_behind_a_page_changes_nothing(visit):
    page = visit("/registers/?kernel=04_warp_rows")
    assert "/registers?" in page.url and "kernel=04_warp_rows" in page.url
