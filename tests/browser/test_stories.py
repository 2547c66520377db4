"""The stories in a real Chromium: every value read off the page is compared with the trace of the same run."""

import re
import time

import numpy as np
import pytest
from browser.stepping import hover, lit, point_at, press, sentence, step_of, tip
from playwright.sync_api import expect

from explainers import online_softmax, tiling
from kernels.core.request import Scope
from kernels.families.dense.problem import DenseProblem

pytestmark = pytest.mark.xdist_group("browser")
SMALL = DenseProblem(seq_len=50, causal=True)
SMALL_URL = "seq_len=50&causal=true&backend=cpu"


@pytest.fixture(scope="module")
def flash(run_of):
    return run_of("03_flash", SMALL, scope=Scope(1))


def test_keys_step_the_sentence_the_code_and_the_title(visit, flash):
    page, frames = visit(f"/tiling?{SMALL_URL}&at_tile=1"), tiling.explain(flash).frames
    for step in range(4):
        assert (step_of(page), sentence(page)) == (step, frames[step]["sentence"])
        assert lit(page) == sorted(frames[step]["lines"])
        expect(page.locator("[data-part=title]")).to_have_text(frames[step]["title"])
        press(page, "ArrowRight")
    press(page, "ArrowLeft")
    assert step_of(page) == 3
    press(page, "End")
    assert (step_of(page), sentence(page)) == (len(frames) - 1, frames[-1]["sentence"])
    press(page, "Home", "Shift+ArrowRight")
    assert frames[step_of(page)]["tile"] == 0 and step_of(page) == 1
    press(page, "Shift+ArrowRight")
    assert frames[step_of(page)]["title"] == "Tile 1 · Load tile"
    press(page, "Shift+ArrowLeft", "Shift+ArrowLeft")
    assert step_of(page) == 0


def test_every_step_of_the_softmax_story_says_what_the_trace_says(visit, flash):
    row = 20
    story = online_softmax.explain(flash, row)
    page = visit(f"/online_softmax?{SMALL_URL}&at_tile=1&row={row - 16}")
    for frame in story.frames:
        assert sentence(page) == frame["sentence"]
        cells = page.locator(".numbers td").all_inner_texts()
        if frame["m"] is not None:
            assert float(cells[0].replace("−", "-")) == pytest.approx(frame["m"], rel=1e-6)
        if frame["l"] is not None:
            assert float(cells[2]) == pytest.approx(frame["l"], rel=1e-6)
        if frame["lines"]:
            assert lit(page) == sorted(frame["lines"])
        press(page, "ArrowRight")
    assert float(cells[1].replace("−", "-")) == pytest.approx(story.ordinary_m, rel=1e-6)
    assert float(cells[3]) == pytest.approx(story.ordinary_l, rel=1e-6)


def test_playing_skips_no_step_and_pauses_on_space(visit):
    page = visit("/online_softmax?seq_len=200&backend=cpu&step=0")  # 79 steps: long enough to pause in the middle
    page.evaluate("window.seen = []; window.__warpglass.addEventListener('step', e => window.seen.push(e.detail.step))")
    page.locator("[data-part=speed]").select_option("10")
    page.locator("[data-part=play]").click()
    page.wait_for_function("window.__warpglass.step >= 4")
    page.locator(".sentence").click()  # the focus leaves the button
    press(page, " ")
    stopped = step_of(page)
    page.wait_for_timeout(300)
    assert step_of(page) == stopped
    page.locator("[data-part=speed]").select_option("30")
    page.locator(".sentence").click()
    press(page, " ")
    page.wait_for_function("window.__warpglass.step === window.__warpglass.count - 1")
    expect(page.locator("[data-part=play]")).to_have_text("Play")
    seen = page.evaluate("window.seen")
    assert seen == list(range(1, seen[-1] + 1))


def test_scrubbing_goes_where_the_slider_is(visit, flash):
    frames = tiling.explain(flash).frames
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1")
    slider = page.locator("#warpglass-clock")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    assert 0 < step_of(page) < len(frames) - 1
    assert sentence(page) == frames[step_of(page)]["sentence"]


@pytest.mark.parametrize(
    "path",
    [
        f"tiling?{SMALL_URL}&at_tile=2",
        "block_table?view=walk&scenario=churn&backend=cpu",
        "bank_conflicts?backend=cpu",
        "coalescing?view=layouts&layout=strided&backend=cpu",
    ],
)
def test_stepping_sends_nothing_to_the_server(browser, server, path):
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page, sent = context.new_page(), []
    page.on("websocket", lambda ws: ws.on("framesent", lambda payload: sent.append(payload)))
    page.goto(f"{server.url}/{path}")
    page.wait_for_selector(".code .row", timeout=60_000)
    page.wait_for_timeout(2500)
    before = len(sent)
    press(page, *["ArrowRight"] * 7)
    page.wait_for_timeout(1000)
    assert sent and step_of(page) == 7 and len(sent) == before
    context.close()


def test_hovering_gives_the_coordinate_and_the_exact_value(visit, flash):
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&step=3")
    story = tiling.explain(flash)
    for (tensor, row, col), keys in ((("Q", 21, 5), ("query", "dim")), (("K", 30, 7), ("key", "dim"))):
        text = hover(page, "Matrices", tensor=tensor, **dict(zip(keys, (row, col))))
        assert text.startswith(f"{tensor}[{row}, {col}] = ")
        assert np.float32(text.split("= ")[1]) == flash.arrays[tensor.lower()][0, 0, row, col]
    text = hover(page, "Matrices", tensor="S", query=21, key=9)
    assert text.startswith("S[21, 9] = ") and np.float32(text.split("= ")[1]) == story.scores[5, 9]
    for query, key, said in (
        (21, 17, "S[21, 17] is not computed yet"),
        (3, 3, "S[3, 3] is outside the traced query tile"),
    ):
        assert hover(page, "Matrices", tensor="S", query=query, key=key) == said
    assert hover(page, "Matrices", tensor="O", query=40, dim=3) == "O[40, 3] is made by block 2, not traced"
    press(page, "End")
    text = hover(page, "Matrices", tensor="O", query=21, dim=3)
    assert np.float32(text.split("= ")[1]) == flash.arrays["o"][0, 0, 21, 3]
    assert hover(page, "Matrices", tensor="S", query=18, key=30) == "S[18, 30] is masked: never computed"
    page.mouse.click(*point_at(page, "Matrices", tensor="S", query=21, key=9))
    page.mouse.move(5, 5)
    assert page.locator(".pin").inner_text().startswith("Pinned: S[21, 9] = ")


def test_the_keyboard_moves_the_cursor_over_a_canvas_and_pins(visit, flash):
    """What a pointer can read off a canvas, the keys can: Alt with an arrow, and Enter."""
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&step=3")
    story = tiling.explain(flash)
    canvas = page.locator("canvas[aria-label]")
    canvas.focus()
    press(page, "Alt+ArrowDown")
    assert re.match(r"S\[\d+, \d+\]", tip(page))  # the middle of the picture, to begin with
    page.mouse.move(*point_at(page, "Matrices", tensor="S", query=21, key=8))
    press(page, "Alt+ArrowRight")
    assert tip(page).startswith("S[21, 9] = ") and np.float32(tip(page).split("= ")[1]) == story.scores[5, 9]
    press(page, "Alt+ArrowDown", "Alt+ArrowLeft")
    assert tip(page).startswith("S[22, 8] = ") and np.float32(tip(page).split("= ")[1]) == story.scores[6, 8]
    press(page, "Alt+ArrowUp")
    assert tip(page).startswith("S[21, 8] = ")
    press(page, "Enter")
    pinned = page.locator(".pin").inner_text()
    assert pinned.startswith("Pinned: S[21, 8] = ")
    assert np.float32(pinned.split("= ")[1]) == story.scores[5, 8]
    assert step_of(page) == 3 and page.url.split("?")[0].endswith("/tiling")  # neither the clock nor the history moved
    press(page, "ArrowRight")
    assert step_of(page) == 4 and page.locator(".pin").inner_text() == pinned
    press(page, "Enter")
    assert page.locator(".pin").inner_text() == ""


def test_hovering_the_row_gives_scores_weights_and_o(visit, flash):
    page = visit(f"/online_softmax?{SMALL_URL}&at_tile=1&row=4")
    story = online_softmax.explain(flash, 20)
    press(page, "End")
    text = hover(page, "Row 20", kind="score", index=10)
    assert text.startswith("score[20, 10] = ") and np.float32(text.split("= ")[1]) == np.float32(story.keys.score[10])
    text = hover(page, "Row 20", kind="weight", index=18)
    assert np.float32(re.search(r"weight of key 18 = (\S+),", text)[1]) == np.float32(story.keys.p[18])
    text = hover(page, "Row 20", kind="o", index=3)
    assert np.float32(re.search(r"O\[20, 3\] = (\S+),", text)[1]) == flash.arrays["o"][0, 0, 20, 3]


def test_the_altair_chart_follows_the_clock(visit):
    page = visit(f"/tiling?{SMALL_URL}")
    rule = page.locator("[data-testid=stVegaLiteChart] .mark-rule.role-mark line").first
    rule.wait_for(state="attached", timeout=20_000)
    places = []
    for _ in range(3):
        page.wait_for_timeout(200)
        places.append(rule.get_attribute("transform"))
        press(page, "ArrowRight", "ArrowRight")
    assert len(set(places)) == 3
    xs = [float(re.search(r"translate\(([\d.]+)", place)[1]) for place in places]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=1)


def test_a_link_restores_kernel_problem_what_if_row_and_step(visit, browser, server):
    page = visit(f"/online_softmax?{SMALL_URL}&kernel=03_flash&what_if=RESCALE&at_tile=1&row=5&BLOCK_KV=8")
    press(page, *["ArrowRight"] * 7)
    expect(page).to_have_url(re.compile(r"step=7"), timeout=3000)
    said, link = sentence(page), page.url
    again = visit(link.removeprefix(server.url))
    assert (step_of(again), sentence(again)) == (7, said)
    assert again.locator("[data-testid=stSidebar]").get_by_role("spinbutton", name="seq_len").input_value() == "50"
    assert "Broken on purpose: after the max rises" in again.locator("[data-testid=stSidebar]").inner_text()
    assert again.url == link


def test_a_changed_problem_starts_at_the_first_step(visit):
    page = visit(f"/tiling?{SMALL_URL}&step=5")
    assert step_of(page) == 5
    page.locator("[data-testid=stSidebar]").get_by_role("spinbutton", name="seq_len").fill("33")
    page.keyboard.press("Enter")
    page.wait_for_function("window.__warpglass.step === 0", timeout=20_000)
    expect(page).to_have_url(re.compile("seq_len=33"))


def test_typing_in_a_widget_does_not_step(visit):
    page = visit(f"/tiling?{SMALL_URL}&step=2")
    field = page.locator("[data-testid=stSidebar]").get_by_role("spinbutton", name="seed")
    field.click()
    press(page, "ArrowRight", "Home", "End", "ArrowLeft", "ArrowLeft")
    assert step_of(page) == 2


def test_nonsense_in_the_url_opens_the_page_and_says_what_it_ignored(visit):
    page = visit("/tiling?kernel=%3Cscript%3Ealert(1)%3C/script%3E&seq_len=-9&frob=1&step=999999&backend=cpu")
    warning = page.locator("[data-testid=stAlert]", has_text="Some of the link").inner_text()
    assert "seq_len is -9" in warning and "frob is not a choice" in warning and "<script>" in warning
    assert step_of(page) == page.evaluate("window.__warpglass.count") - 1
    assert "frob" not in page.url


def test_the_theme_switch_repaints_the_views(visit):
    page = visit(f"/tiling?{SMALL_URL}", color_scheme="light")
    corner = "(() => { const c = document.querySelectorAll('[data-testid=stBidiComponentRegular], div'); for (const e of c) { const x = e.shadowRoot?.querySelector('canvas'); if (x) return [...x.getContext('2d').getImageData(0, 0, x.width, x.height).data].reduce((a, b) => a + b, 0); } })()"  # noqa: E501
    light = page.evaluate(corner)
    background = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    before = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{background} !== '{before}'", timeout=10_000)
    page.wait_for_timeout(500)
    assert page.evaluate(corner) != light


def test_a_phone_can_use_the_story_without_sideways_scrolling(visit):
    page = visit(f"/tiling?{SMALL_URL}", viewport={"width": 390, "height": 844})
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    page.get_by_label("Next step").click()
    assert step_of(page) == 1


def test_views_have_text_alternatives(visit):
    page = visit(f"/tiling?{SMALL_URL}&step=2")
    canvas = page.locator("canvas[aria-label]")
    assert canvas.get_attribute("role") == "img" and sentence(page) in canvas.get_attribute("aria-label")
    assert page.locator(".clock[role=group]").get_attribute("aria-label")


def test_leaving_a_page_leaves_no_listener_behind(visit):
    page = visit(f"/tiling?{SMALL_URL}")
    page.get_by_role("link", name="Online softmax").click()
    page.wait_for_selector(".numbers", timeout=30_000)
    page.wait_for_timeout(500)
    start = step_of(page)
    press(page, "ArrowRight")
    assert step_of(page) == start + 1
    page.get_by_role("link", name="Start").click()
    page.wait_for_selector("#warpglass-clock", state="detached", timeout=20_000)
    press(page, "ArrowRight", " ")  # nothing listens; an error would fail the test


def test_the_page_asks_nothing_of_the_internet(browser, server):
    context = browser.new_context()
    page, hosts = context.new_page(), set()
    page.on("request", lambda request: hosts.add(re.sub(r"^(\w+:/*[^/]*).*", r"\1", request.url)))
    page.goto(f"{server.url}/online_softmax?{SMALL_URL}")
    page.wait_for_selector(".code .row", timeout=60_000)
    time.sleep(1)
    context.close()
    assert all(host.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")) for host in hosts), hosts


def test_a_whatif_shows_where_it_goes_wrong(visit):
    page = visit("/online_softmax?what_if=RESCALE&backend=cpu&step=8")
    assert page.locator(".narration.wrong .flag").inner_text().startswith("Wrong here")
    assert "this build multiplies by 1" in sentence(page)


@pytest.mark.parametrize("url", ["/tiling?kernel=02_tiled&backend=cpu", "/online_softmax?what_if=RESCALE&backend=cpu"])
def test_stepping_moves_nothing_on_the_page(visit, url):
    page = visit(url)
    tops = set()
    for _ in range(page.evaluate("window.__warpglass.count")):
        tops.add((page.locator("canvas[aria-label]").bounding_box()["y"], page.locator(".code").bounding_box()["y"]))
        press(page, "ArrowRight")
    assert len(tops) == 1


def test_a_digit_brings_its_view_into_sight(visit):
    page = visit(f"/tiling?{SMALL_URL}", viewport={"width": 1000, "height": 500})
    views = page.evaluate("window.__warpglass.views.map(view => view.title)")
    number = views.index("03_flash.cu") + 1
    press(page, str(number))
    page.wait_for_timeout(1200)
    box = page.locator(".code").bounding_box()
    assert box["y"] < 500 and box["y"] + box["height"] > 0
