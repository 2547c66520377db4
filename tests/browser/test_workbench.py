"""The Workbench: a mistake is marked at its line, F8 goes there, and a mended text is ok.

Two versions have their figures side by side, and a reload loses nothing."""

import re

import pytest
from browser.stepping import HURRIED, press
from browser.test_stage import axe
from playwright.sync_api import expect

from app.stories.workbench import STARTER
from kernels import exercises

SAID, MESSAGES = ".wg .said-of-check", ".wg .messages-of-text li"
LINE = 1 + STARTER.read_text().partition("fmaxf(m_new, s[c])")[0].count("\n")
PATIENCE = 60_000  # ms for a compile and some runs on a busy machine
KEPT = "localStorage['warpglass-workbench']"


def bench(visit, **options):
    page = visit("/workbench", wait=".wg .cm-content", **options)
    return page


def replace(page, old, new):
    """Types `new` in the place of `old`, found by the editor's own search."""
    page.locator(".wg .cm-content").click()
    press(page, "Control+f")
    page.keyboard.type(old)
    press(page, "Enter", "Escape")
    page.keyboard.type(new)


def test_a_mistake_is_marked_at_its_line_mended_compared_and_kept(visit, server):
    asked = []
    page = bench(visit, before=lambda page: page.on("request", lambda request: asked.append(request.url)))
    expect(page.locator(SAID)).to_contain_text("ok so far: ", timeout=PATIENCE)
    expect(page.locator(".wg .workbench iframe")).to_be_visible()
    replace(page, "fmaxf(m_new", "fmaxg(m_new")
    expect(page.locator(MESSAGES)).to_have_count(1, timeout=PATIENCE)
    expect(page.locator(MESSAGES)).to_contain_text(f"Line {LINE}Error, compiler: 'fmaxg' was not declared")
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    expect(page.locator(".cm-lintRange-error").first).to_have_text("fmaxg")
    axe(page, ".wg .workbench")
    assert asked and all(re.match(rf"{server.url}/|blob:|data:", url) for url in asked)
    press(page, "Control+Home", "F8")
    assert page.locator(".cm-lineNumbers .cm-activeLineGutter").inner_text() == str(LINE)
    replace(page, "fmaxg(m_new", "fmaxf(m_new")
    page.keyboard.type(" ")
    expect(page.locator(SAID)).to_contain_text("ok so far: ", timeout=PATIENCE)
    expect(page.locator(MESSAGES)).to_have_count(0)
    assert "fmaxf(m_new , s[c])" in page.evaluate(KEPT)
    page.get_by_role("button", name="Versions (3)").click()
    verdict = page.locator(".wg .versions tr", has_text="verdict")
    expect(verdict).to_have_text("verdictdoes not compileright▲ better", timeout=PATIENCE)
    expect(page.locator(".wg .versions li")).to_contain_text(f"Version 2 line {LINE}: 'fmaxg' was not declared")
    page.get_by_role("combobox", name="Earlier version").select_option("1")
    expect(page.locator(".wg .versions thead")).to_have_text("Version 1Version 3", timeout=PATIENCE)
    expect(page.locator(".wg .versions tr", has_text="first different value")).to_contain_text("none")
    axe(page, ".wg .versions")
    page.reload()
    expect(page.get_by_role("button", name="Versions (3)")).to_be_visible(timeout=PATIENCE)
    expect(page.locator(".wg .cm-content")).to_be_visible(timeout=PATIENCE)
    page.locator(".wg .cm-content").click()
    press(page, "Control+End", "Enter")
    assert "fmaxf(m_new , s[c])" in page.evaluate(KEPT)


def test_a_press_on_a_line_number_watches_the_line_and_our_kernel_takes_the_same_step(visit):
    page = bench(visit)
    page.locator(".wg .cm-content").click()
    press(page, "Control+f")
    page.keyboard.type("m = m_new;")
    press(page, "Enter", "Escape")
    page.locator(".cm-lineNumbers .cm-activeLineGutter").click()
    assert '[watch]\n"m = m_new;" = "m"' in page.evaluate(KEPT)
    expect(page.locator(".cm-lineNumbers .watched-line")).to_have_count(1)
    expect(page.locator(SAID)).to_contain_text("ok so far: ", timeout=PATIENCE)
    frame = page.frame_locator(".wg .workbench iframe")
    page.get_by_role("combobox", name="Kernel of Warpglass").select_option("02_tiled")
    expect(frame.get_by_role("region", name="Source of 02_tiled")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("button", name="Show this text").click()
    expect(frame.get_by_role("region", name="Source of kernel", exact=True)).to_be_visible(timeout=PATIENCE)
    page.locator(".wg .cm-content").press("F9")
    expect(page.locator(".cm-lineNumbers .watched-line")).to_have_count(0)


def test_a_link_carries_a_text_that_nobody_runs_unasked(visit):
    asked = []
    page = bench(visit, permissions=["clipboard-read", "clipboard-write"])
    page.locator(".wg .tools").get_by_role("button", name="Copy link").click()
    expect(page.locator(SAID)).to_contain_text("The link is copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert "/workbench#text=" in link and len(link) < 6100
    page = visit(
        "/workbench" + link[link.index("#") :],
        wait=".wg .cm-content",
        script=HURRIED,  # of the pause after which an edited text is checked
        before=lambda page: page.on("request", lambda r: asked.append(r.url)),
    )
    expect(page.locator(SAID)).to_contain_text("This text is from a link")
    page.wait_for_timeout(300)
    assert not [url for url in asked if "/wg/workbench/check" in url]
    assert "#" not in page.url


def test_the_keyboard_leaves_the_editor_and_streamlit_hears_no_key_of_it(visit):
    page = bench(visit)
    page.locator(".wg .cm-content").click()
    press(page, "Control+Home")
    page.keyboard.type("rc")
    press(page, "Tab")
    expect(page.locator(".wg .cm-content")).to_be_focused()
    press(page, "Escape", "Tab")
    expect(page.locator(".wg .cm-content")).not_to_be_focused()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate(KEPT).lstrip().startswith("rc/*")


def test_an_opened_file_is_checked_and_gets_no_answer_of_the_text_before(visit):
    """The starter's answer is on its way when the file opens."""
    held = []
    page = bench(visit, before=lambda page: page.route("**/workbench/check*", lambda route: held.append(route)))
    put(page, "__global__ void copy(const float* src, float* dst, int n) {}\n")
    assert len(held) == 2 and "copy" in held[1].request.post_data and "copy" not in held[0].request.post_data
    answer = {"diagnostics": [], "ok": False, "kernel": "", "pages": []}
    held[1].fulfill(json={**answer, "said": "of the file"})
    expect(page.locator(SAID)).to_have_text("Not ok: of the file")
    held[0].fulfill(json={**answer, "said": "of the starter"})
    page.wait_for_timeout(300)
    expect(page.locator(SAID)).to_have_text("Not ok: of the file")


@pytest.mark.slow
def test_axe_finds_nothing_in_the_dark(visit):
    page = bench(visit, color_scheme="dark")
    replace(page, "fmaxf(m_new", "fmaxg(m_new")
    expect(page.locator(MESSAGES)).to_have_count(1, timeout=PATIENCE)
    axe(page, ".wg .workbench")


# ---- exercises ----

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
