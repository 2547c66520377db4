"""The page's title, the ways back, and what Streamlit's page asks and offers around the stage."""

import re

from browser.conftest import shown
from browser.stepping import address, choose, press, rail
from playwright.sync_api import expect

SMALL = "kernel=03_flash&seq_len=32&head_dim=32&backend=cpu"


def test_the_title_names_the_page_also_after_back(visit):
    page = visit(f"/tiling?{SMALL}")
    title = page.title()
    assert title.endswith(" - Warpglass") and title != " - Warpglass"
    rail(page, "online_softmax")
    expect(page).not_to_have_title(title)
    page.go_back()
    shown(page, "tiling")
    page.wait_for_timeout(500)  # nothing changes it later
    expect(page).to_have_title(title)


def test_a_choice_can_be_taken_back_and_neither_a_step_nor_a_refused_choice_makes_an_entry(visit):
    page = visit(f"/tiling?{SMALL}")
    before, entries = page.locator(".wg").get_attribute("data-shown"), page.evaluate("history.length")
    press(page, *["ArrowRight"] * 3)
    expect(page).to_have_url(re.compile(r"step=4"))
    assert page.evaluate("history.length") == entries
    choose(page, "what_if", "RESCALE")
    assert page.evaluate("history.length") == entries + 1 and address(page)["what_if"] == "RESCALE"
    bundle = choose(page, "seq_len", "64")
    assert page.evaluate("history.length") == entries + 2
    page.go_back()
    shown(page, other=bundle)
    assert address(page)["seq_len"] == "32" and address(page)["what_if"] == "RESCALE"
    page.go_back()
    page.wait_for_function("before => document.querySelector('.wg').dataset.shown === before", arg=before)
    assert address(page)["what_if"] == "none" and address(page)["step"] == "4"
    entries = page.evaluate("history.length")
    page.get_by_role("button", name="More", exact=True).click()
    field = page.locator('.wg .more [data-name="seq_len"]')
    field.fill("0")
    field.press("Enter")
    expect(page.locator(".wg .more .refused:not([hidden])")).to_be_visible()
    assert page.evaluate("history.length") == entries


def test_a_deep_link_asks_for_nothing_that_is_not_there(visit):
    failed = []
    visit(
        f"/tiling?{SMALL}",
        before=lambda page: page.on("response", lambda got: got.status >= 400 and failed.append(got.url)),
    )
    assert not failed


def test_the_keyboard_comes_to_the_rail_after_the_way_past_it_and_the_name(visit):
    page = visit(f"/tiling?{SMALL}")
    said = []
    for _ in range(3):
        page.keyboard.press("Tab")
        said.append(page.evaluate("document.activeElement.closest('nav') ? 'rail' : document.activeElement.innerText"))
    assert said == ["Skip to main content", "Warpglass", "rail"]
    page.get_by_role("link", name="Skip to main content").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".wg .bar [data-action=play]")).to_be_focused()
