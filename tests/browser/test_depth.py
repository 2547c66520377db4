"""The two depths: Guided has few controls, Everything has all of them, and a link keeps the depth."""

import pytest
from browser.conftest import shown
from browser.stepping import address, choose, press, rail
from browser.test_stage import axe
from playwright.sync_api import expect

MOST = 20  # controls in sight, apart from the rail
CONTROLS = """() => [...document.querySelectorAll('.wg :is(a, button, input, select, summary, [role=separator])')]
  .filter(node => node.checkVisibility({ visibilityProperty: true }) && !node.closest('nav'))
  .map(node => node.getAttribute('aria-label') || node.textContent.trim())"""


def depth_of(page):
    return page.locator(".wg").get_attribute("data-depth")


def test_a_key_and_the_menu_switch_the_depth_and_its_pace_and_the_link_keeps_it(visit):
    page = visit("/tiling?backend=cpu", depth="guided")
    press(page, " ")
    page.wait_for_function("window.clock.step === 1")
    assert page.evaluate("window.clock.pace") == 0.5  # steps a second, as a reader reads
    press(page, " ", "d")
    assert page.get_by_label("Speed").input_value() == "4"
    expect(page.get_by_role("button", name="Loop")).to_be_visible()
    assert depth_of(page) == "everything" and address(page)["depth"] == "everything"
    rail(page, "online_softmax")
    assert address(page)["depth"] == "everything"
    page.get_by_role("button", name="Hide code").click()
    assert depth_of(page) == "guided" and "depth" not in address(page)
    expect(page.get_by_role("button", name="Loop")).to_be_hidden()


def test_a_link_opens_its_depth_and_a_link_to_a_hidden_tab_opens_everything(visit):
    page = visit("/tiling?backend=cpu&depth=everything", depth="guided")
    assert depth_of(page) == "everything" and page.locator(".wg .messages .note").count() == 0
    page = visit("/tiling?backend=cpu&tab=builds", depth="guided")
    assert depth_of(page) == "everything"
    page = visit("/tiling?backend=cpu&tab=bytes", depth="guided")
    assert depth_of(page) == "guided"
    expect(page.locator(".wg .drawer")).to_be_visible()


def test_guided_labels_are_plain_and_name_the_identifier_on_hover(visit):
    page = visit("/patterns?backend=cpu", depth="guided")
    page.get_by_role("button", name="Settings").click()
    label = page.get_by_role("group", name="tree")
    assert "(TREE)" in label.get_attribute("title")
    bundle = choose(page, "TREE", "1")
    assert bundle and address(page)["TREE"] == "1"
    press(page, "d")
    expect(page.get_by_role("group", name="TREE")).to_be_visible()


def test_the_pictures_of_guided_are_one_list(visit):
    page = visit("/tiling?backend=cpu", depth="guided")
    page.get_by_label("Picture", exact=True).select_option(label="Threads")
    shown(page)
    assert address(page)["picture"] == "threads"
    for part in (".codes", ".strip", ".toolbar", ".tabs"):
        expect(page.locator(f".wg {part}")).to_be_hidden()
    page.get_by_role("button", name="Show code").click()
    for part in (".codes", ".strip", ".toolbar", ".tabs"):
        expect(page.locator(f".wg {part}")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_in_guided_in_settings_in_the_search_and_in_the_glossary(visit, theme):
    page = visit("/tiling?backend=cpu", depth="guided", color_scheme=theme)
    axe(page)
    page = visit("/patterns?backend=cpu", depth="guided", color_scheme=theme)
    page.get_by_role("button", name="Settings").click()
    axe(page, ".wg .toolbar")
    press(page, "Escape", "/")
    page.get_by_role("combobox", name="Search").fill("tile")
    expect(page.locator("#wg-found [role=option]").first).to_be_visible()
    axe(page, ".wg .search")
    page = visit("/glossary", depth="guided", color_scheme=theme)
    axe(page)
