"""The search finds pages, terms, kernels and settings by keyboard, and the glossary is a page of its own."""

from browser.conftest import shown
from browser.stepping import address, press
from playwright.sync_api import expect


def search(page, text):
    press(page, "/")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    field.fill(text)
    expect(page.locator("#wg-found [role=option]").first).to_be_visible()
    return [row.split("\n")[0] for row in page.locator("#wg-found [role=option]").all_inner_texts()]


def test_keys_of_the_stage_wait_while_one_searches_and_a_term_or_a_kernel_leads_to_its_place(visit):
    page = visit("/tiling?backend=cpu", depth="guided")
    page.locator(".wg .bar [data-action=next]").focus()
    search(page, "tile")
    press(page, "End", "ArrowRight")
    assert page.evaluate("window.clock.step") == 0
    press(page, "Escape")
    expect(page.locator(".wg .bar [data-action=next]")).to_be_focused()
    assert search(page, "bank conflict")[0] == "bank conflict"
    press(page, "Enter")
    shown(page, "bank_conflicts")
    expect(page.get_by_role("dialog", name="Search")).to_be_hidden()
    found = search(page, "paged")
    assert len(found) > 2
    press(page, "ArrowDown", "ArrowUp")
    page.get_by_role("combobox", name="Search").fill("paged_v2")
    expect(page.locator("#wg-found [role=option]").first).to_contain_text("paged_v2")
    press(page, "Enter")
    shown(page, "block_table")
    assert address(page)["kernel"] == "paged_v2"


def test_a_setting_is_shown_in_the_toolbar(visit):
    page = visit("/tiling?backend=cpu", depth="guided")
    assert search(page, "key tile")
    page.locator("#wg-found [role=option]", has_text="key tile (BLOCK_KV)").click()
    expect(page.locator('.wg .more [data-name="BLOCK_KV"]')).to_be_focused()
    assert address(page)["depth"] == "everything"


def test_the_glossary_is_a_page_with_ways_to_the_places_of_its_terms(visit):
    page = visit("/glossary", depth="guided")
    terms = page.locator(".wg .terms dt").all_inner_texts()
    assert "SM" in terms and terms == sorted(terms, key=str.lower)
    row = page.locator(".wg .terms > div", has=page.get_by_text("running max m", exact=True))
    assert row.get_by_role("link", name="Online normalizer").get_attribute("href").startswith("https://")
    row.get_by_role("link", name="Show it").click()
    shown(page, "online_softmax")
