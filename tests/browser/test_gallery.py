"""The gallery in the browser: a bug by its steps, another one by its card, and the way to its exercise."""

import pytest
from browser.conftest import shown
from browser.stepping import address, press
from playwright.sync_api import expect

from explainers.stories.gallery import story

BUGS = story.bugs()
SENTENCE = ".wg .narration .sentence"


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 720}, {"width": 390, "height": 844}])
def test_a_bug_is_read_from_symptom_to_cure_and_a_card_opens_another_one(visit, viewport):
    page = visit("/gallery", depth="guided", viewport=viewport)
    cards = page.locator(".wg .of-cards li")
    expect(cards).to_have_count(len(BUGS))
    first, second = list(BUGS)[:2]
    said = page.locator(SENTENCE)
    expect(said).to_have_text(BUGS[first].bug.symptom)
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")
    expect(said).to_have_text("Subtract 0 while the row has seen no key.")
    cards.nth(1).locator("a").first.focus()
    press(page, "Enter")
    expect(page.locator(".wg .of-cards li.now")).to_contain_text(BUGS[second].bug.symptom)
    assert address(page)["bug"] == second
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_mend_it_yourself_opens_the_exercise_of_the_bug_in_the_workbench(visit):
    name = list(BUGS)[4]
    page = visit(f"/gallery?bug={name}", depth="guided")
    page.get_by_role("link", name="Mend it yourself").click()
    shown(page, "workbench")
    expect(page.locator(".wg .exercise h2")).to_have_text(BUGS[name].title)
    expect(page.get_by_role("combobox", name="Exercise")).to_have_value(name)
    expect(page.get_by_role("button", name="Grade")).to_be_visible()
