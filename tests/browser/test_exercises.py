"""The first two exercises in the page: from the text to begin with over a typical mistake to an accepted answer."""

import pytest
from playwright.sync_api import expect

from kernels import exercises

ALL = exercises.listed()


def put(page, text):
    file = {"name": "answer.cu", "mimeType": "text/plain", "buffer": text.encode()}
    page.locator(".wg .workbench input[type=file]").set_input_files(files=[file])
    page.wait_for_timeout(300)


def grade(page, end):
    page.get_by_role("button", name="Grade").click()
    expect(page.locator(".wg .said-of-check")).to_contain_text(end, timeout=90_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ALL)[:2])
def test_an_exercise_is_solved_in_the_page(visit, name):
    one = ALL[name]
    page = visit("/workbench", wait=".wg .workbench")
    choice = page.get_by_role("combobox", name="Exercise")
    choice.select_option(name)
    expect(page.locator(".wg .exercise h2")).to_have_text(one.title)
    for text in ("Show a hint", "Show another hint"):
        page.get_by_role("button", name=text).click()
    assert page.locator(".wg .steps-of-help li").count() == 2
    grade(page, "Not ok")
    assert page.locator(".wg .cases li").count() == len(one.problems)
    put(page, one.wrong[0].text)
    grade(page, "Not ok")
    expect(page.locator(".wg .messages-of-text")).to_contain_text(one.wrong[0].evidence[0])
    put(page, one.solution)
    grade(page, "ok: All results are right.")
    assert "✓" in choice.inner_text()
    page.reload()
    expect(choice).to_contain_text("✓")
