"""Present mode, keys, play that loops and pauses, theme and size of type; an iframe, an image, a printed page."""

import io
import re
from pathlib import Path

import pytest
from browser.conftest import ROOT, context_of, shown
from browser.stepping import go_to, press, step_of
from browser.test_stage import axe
from PIL import Image
from playwright.sync_api import expect

from explainers.charts.palette import for_browser
from explainers.stories.online_softmax import online_softmax
from explainers.story import marks
from kernels.families.dense.problem import DenseProblem

PROBLEM = DenseProblem(seq_len=32, head_dim=32, num_heads=1)
SMALL = "kernel=03_flash&seq_len=32&head_dim=32&num_heads=1&BLOCK_KV=8&BLOCK_Q=8&backend=cpu"
PATH = f"/online_softmax?{SMALL}"
PROJECTOR, LAPTOP, PHONE = ({"width": w, "height": h} for w, h in ((1920, 1080), (1280, 720), (390, 844)))
SIZES = """() => Object.fromEntries(['.narration', '.codes .code', '.legend'].map(at =>
    [at, parseFloat(getComputedStyle(document.querySelector(`.wg ${at}`)).fontSize)]))"""
LISTED = "at => [...document.querySelectorAll(`${at} dt`)].map(dt => [dt.textContent, dt.nextSibling.textContent])"
WATCH = (Path(__file__).parent / "watch.js").read_text()


@pytest.fixture(scope="module")
def page(browser, server):
    """One page for all of these; each test leaves it as it found it."""
    context = context_of(browser, viewport=LAPTOP)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.add_init_script(WATCH)
    made = context.new_page()
    errors = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.goto(server.url + PATH)
    shown(made)
    yield made
    context.close()
    assert not errors and not server.crashes()


@pytest.fixture(autouse=True)
def _in_front(page):
    """A page behind another has no full screen."""
    page.bring_to_front()


def share(page, name):
    """Presses an entry of the list beside "Copy link"."""
    if not page.locator(".wg .toolbar .menu").is_visible():
        page.locator(".wg .toolbar .opens-menu").click()
    page.get_by_role("button", name=name, exact=True).click()


def drawn_size(page):
    """The least text on the canvases when they are drawn again."""
    page.evaluate("fonts.clear()")
    page.evaluate("window.clock.set(window.clock.step, 'jump')")
    return page.evaluate("fonts.get('size')")


# ---- keys ----


def test_the_keys_are_listed_alike_in_the_dialog_on_the_start_page_and_in_the_readme(page, visit):
    page.evaluate("document.querySelector('.wg [data-action=next]').focus()")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    step = step_of(page)
    press(page, "Tab", "Tab", "ArrowRight", "End")
    assert step_of(page) == step and page.evaluate("!document.activeElement.closest('.room')")
    listed = page.evaluate(LISTED, ".wg dialog")
    axe(page, ".wg dialog")
    page.keyboard.press("?")
    expect(dialog).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.action") == "next"
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    table = re.findall(
        r"^\| (.+?) \| (.+?) \|$", (ROOT / "app" / "README.md").read_text().partition("| key |")[2], re.M
    )
    assert listed == [list(row) for row in table[: len(listed) + 1] if row[0] != "---"][: len(listed)]
    start = visit("/?backend=cpu", wait=".wg .start summary")
    assert start.evaluate(LISTED, ".wg .start") == listed


# ---- presenting ----


@pytest.mark.parametrize("size", [LAPTOP, PROJECTOR, PHONE], ids=["laptop", "projector", "phone"])
def test_presenting_shows_picture_sentence_and_code_in_larger_type(page, size):
    page.set_viewport_size(size)
    go_to(page, 0)
    before, least, canvas = page.evaluate(SIZES), drawn_size(page), page.locator(".wg .sheet canvas").bounding_box()
    page.keyboard.press("p")
    for hidden in (".head", ".toolbar", ".clock", ".tabs", ".strip", ".sub"):
        expect(page.locator(f".wg .room {hidden}").first).to_be_hidden()
    for seen in (".narration .sentence", ".picture canvas", ".codes .code"):
        expect(page.locator(f".wg {seen}").first).to_be_in_viewport()
    expect(page.get_by_role("button", name="Leave (p)")).to_be_visible()
    expect(page.locator(".wg .slim .from")).to_have_text("run on this CPU")
    after, now = page.evaluate(SIZES), page.locator(".wg .sheet canvas").bounding_box()
    assert all(1.49 < after[at] / before[at] <= 2 for at in before) and 1.45 <= drawn_size(page) / least <= 2
    assert now["width"] * now["height"] > canvas["width"] * canvas["height"] or size is PHONE
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if size is LAPTOP:
        axe(page)
    press(page, "PageDown", "PageDown")
    assert step_of(page) == 2
    expect(page.locator(".wg .slim .count")).to_have_text(f"step 3 / {page.evaluate('window.clock.count')}")
    press(page, "PageUp", "2")
    assert step_of(page) == 1 and page.evaluate("document.querySelector('.picture > .view').dataset.view") == "threads"
    press(page, "1")
    page.keyboard.press("p")
    for back in (".head", ".narration", ".codes .code", ".legend"):
        expect(page.locator(f".wg {back}").first).to_be_visible()
    assert page.evaluate(SIZES) == before
    page.set_viewport_size(LAPTOP)


def test_a_clicker_blanks_the_screen_and_what_is_pressed_then_only_ends_that(page):
    go_to(page, 3)
    page.keyboard.press("b")
    expect(page.locator(".wg .black")).to_be_hidden()  # nobody presents
    page.keyboard.press("p")
    for key in ("b", "."):
        page.keyboard.press(key)
        expect(page.locator(".wg .black")).to_be_visible()
        page.keyboard.press("PageDown")
        expect(page.locator(".wg .black")).to_be_hidden()
        assert step_of(page) == 3
    page.get_by_role("button", name="Leave (p)").click()
    expect(page.locator(".wg .head")).to_be_visible()
    page.wait_for_function("!document.fullscreenElement")  # the browser refuses another one before
    page.keyboard.press("p")
    page.wait_for_function("document.fullscreenElement")
    page.evaluate("document.exitFullscreen()")  # as Esc does, which the browser keeps to itself
    expect(page.locator(".wg .head")).to_be_visible()


def test_the_late_end_of_one_full_screen_does_not_end_the_next_presentation(page):
    page.evaluate("() => { document.documentElement.requestFullscreen = () => new Promise(() => {}); }")
    page.keyboard.press("p")
    expect(page.locator(".wg .head")).to_be_hidden()
    page.evaluate("document.dispatchEvent(new Event('fullscreenchange'))")
    expect(page.locator(".wg .head")).to_be_hidden()
    page.keyboard.press("p")
    expect(page.locator(".wg .head")).to_be_visible()
    page.evaluate("delete document.documentElement.requestFullscreen")


def test_a_sequence_may_take_a_clickers_press_and_an_error_is_seen_while_one_presents(page):
    go_to(page, 3)
    take = "window.asked = []; document.querySelector('.wg').stage.clicker = way => asked.push(way) < 3"
    page.evaluate(f"() => {{ {take}; }}")
    press(page, "PageDown", "PageUp", "PageDown")
    assert page.evaluate("asked") == [1, -1, 1] and step_of(page) == 4
    page.evaluate("document.querySelector('.wg').stage.clicker = null")
    page.route("**/wg/ask/**", lambda route: route.abort())
    page.keyboard.press("p")
    page.evaluate("history.pushState({}, '', '/tiling?backend=cpu'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_role("alert").filter(has_text="was not reached")).to_be_in_viewport()
    page.unroute("**/wg/ask/**")
    page.keyboard.press("p")
    page.evaluate("at => { history.pushState({}, '', at); dispatchEvent(new PopStateEvent('popstate')); }", PATH)
    shown(page, "online_softmax")


# ---- play ----


def test_play_pauses_where_m_rises_and_loops_a_tile(page, run_of):
    frames = online_softmax.explain(
        run_of("03_flash", PROBLEM, (("BLOCK_KV", 8), ("BLOCK_Q", 8))), int(re.search(r"row=(\d+)", page.url)[1])
    ).frames
    rises = [n for n, frame in enumerate(frames) if marks.RISE in frame["marks"]]
    assert page.evaluate("window.clock.count") == len(frames) and rises
    assert page.get_by_label("Speed").locator("option").first.inner_text() == "1 step in 8 s"
    page.get_by_label("Speed").select_option("30")
    go_to(page, 0)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("n")
    many = f"{len(rises)} {marks.MARKS[marks.RISE] if len(rises) > 1 else marks.RISE} ahead"
    expect(page.locator(".wg .ahead")).to_have_text(many)
    page.keyboard.press(" ")
    page.wait_for_function("window.clock.step > 0 && !window.clock.playing", polling=20)
    assert step_of(page) == rises[0]
    page.get_by_label("Pause at").select_option("")
    page.evaluate("document.activeElement.blur()")
    page.evaluate("window.seen = []; window.clock.addEventListener('step', e => seen.push(e.detail.step))")
    page.keyboard.press("l")
    page.keyboard.press(" ")
    page.wait_for_function("seen.length > 14", polling=20)
    press(page, " ", "l")
    tile = [n for n, frame in enumerate(frames) if frame["tile"] == frames[rises[0]]["tile"]]
    assert set(page.evaluate("seen")) == set(tile)


# ---- theme and size ----


def test_theme_and_size_are_kept_and_hold_for_everything(page):
    light, usual = (
        page.evaluate("getComputedStyle(document.querySelector('.wg .code')).backgroundColor"),
        drawn_size(page),
    )
    sizes = page.evaluate(SIZES)
    press(page, "t", "+", "+", "+")
    dark = page.evaluate("getComputedStyle(document.querySelector('.wg .code')).backgroundColor")
    assert dark != light and max(map(int, re.findall(r"\d+", dark)[:3])) < 80
    page.reload()
    shown(page)
    assert page.evaluate("getComputedStyle(document.querySelector('.wg .code')).backgroundColor") == dark
    assert all(value == pytest.approx(2 * sizes[at]) for at, value in page.evaluate(SIZES).items())
    assert drawn_size(page) == pytest.approx(2 * usual, rel=0.1)
    box = page.locator(".wg .picture canvas").first.bounding_box()
    assert box["height"] > 200 and box["width"] > 350 and box["y"] + box["height"] <= LAPTOP["height"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Menu", exact=True).click()
    axe(page)
    page.get_by_role("button", name="Theme: dark").click()
    page.get_by_role("button", name="A", exact=True).click()
    page.keyboard.press("Escape")
    assert page.evaluate(SIZES) == sizes
    assert page.evaluate("getComputedStyle(document.querySelector('.wg .code')).backgroundColor") == light


# ---- what is taken along ----


def test_an_iframe_has_sentence_picture_and_code_and_keeps_being_one(page, browser, server):
    go_to(page, 2)
    share(page, "Copy embed code")
    page.get_by_role("button", name="Embed code copied").wait_for()
    page.keyboard.press("Escape")
    code = page.evaluate("navigator.clipboard.readText()")
    context = context_of(browser, viewport=PROJECTOR)
    slides = context.new_page()
    slides.set_content(code)
    frame = slides.frames[1]
    frame.wait_for_selector(".wg[data-shown]", timeout=60_000)
    assert frame.evaluate("window.clock.step") == 2 and "embed=true" in frame.url
    for hidden in (".head", ".toolbar", ".tabs", ".strip"):
        expect(frame.locator(f".wg {hidden}").first).to_be_hidden()
    expect(frame.locator(".wg .narration .sentence")).to_be_visible()
    frame.locator(".wg [data-action=next]").click()
    frame.wait_for_function("location.search.includes('step=4') && location.search.includes('embed=true')")
    out = frame.get_by_role("link", name="Open in Warpglass")
    out.hover()
    assert out.get_attribute("target") == "_blank" and "embed" not in out.get_attribute("href")
    assert "step=4" in out.get_attribute("href")
    assert frame.evaluate("document.querySelector('.wg .messages').innerText") == ""
    context.close()


def test_an_image_of_the_moment_is_as_large_as_the_stage_twice_over_and_prints_on_one_page(page):
    go_to(page, 5)
    with page.expect_download() as saved:
        share(page, "Save as PNG")
    page.keyboard.press("Escape")
    image = Image.open(io.BytesIO(Path(saved.value.path()).read_bytes())).convert("RGB")
    main = page.locator(".wg .main").bounding_box()
    assert saved.value.suggested_filename == "warpglass-online_softmax-6.png"
    assert image.width == pytest.approx(2 * (main["width"] + 48), abs=4) and image.height > 2 * main["height"]
    score = tuple(bytes.fromhex(for_browser()["tensors"]["S"][1:]))
    counted = {colour: count for count, colour in image.getcolors(2**24)}
    assert counted[score] > 1000 and len(counted) > 50
    assert page.evaluate("document.querySelector('.wg .sheet canvas').width") < image.width / 2  # as before
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 1
    expect(page.locator(".wg .printed").first).to_be_hidden()
