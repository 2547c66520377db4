"""The dense stories in a real Chromium: every value read off the page is compared with the trace of the same run."""

import re
from urllib.parse import urlsplit

import numpy as np
import pytest
from browser.conftest import shown
from browser.stepping import (
    address,
    asked,
    choose,
    count,
    go_to,
    hover,
    lit,
    point_at,
    press,
    read,
    sentence,
    step_of,
    tip,
)
from playwright.sync_api import expect

from explainers.models import tiling
from explainers.stories.online_softmax import online_softmax
from explainers.stories.tiling import reuse
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem

SMALL = DenseProblem(seq_len=50, causal=True)
SMALL_URL = "kernel=03_flash&seq_len=50&causal=true&BLOCK_Q=16&BLOCK_KV=16&backend=cpu"
TILES = {"BLOCK_Q": 16, "BLOCK_KV": 16}


@pytest.fixture(scope="module")
def flash(run_of):
    return run_of("03_flash", SMALL, TILES, Scope(1))


def test_keys_go_by_steps_by_tiles_and_to_the_ends(visit, flash):
    page, frames = visit(f"/tiling?{SMALL_URL}&at_tile=1"), tiling.explain(flash).frames
    press(page, *["ArrowRight"] * 4, "ArrowLeft")
    assert step_of(page) == 3
    press(page, "End")
    assert step_of(page) == len(frames) - 1
    press(page, "Home", "Shift+ArrowRight")
    assert frames[step_of(page)]["tile"] == 0 and step_of(page) == 1
    press(page, "Shift+ArrowRight")
    assert frames[step_of(page)]["title"] == "Tile 1 · Load tile"
    press(page, "Shift+ArrowLeft", "Shift+ArrowLeft")
    assert step_of(page) == 0
    slider = page.locator("#warpglass-clock")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    assert 0 < step_of(page) < len(frames) - 1 and sentence(page) == frames[step_of(page)]["sentence"]


def test_playing_at_30_steps_a_second_skips_no_step_and_pauses_on_space(visit):
    page = visit("/online_softmax?kernel=03_flash&seq_len=100&BLOCK_Q=16&BLOCK_KV=16&backend=cpu&step=1")
    page.evaluate("window.seen = []; window.clock.addEventListener('step', e => window.seen.push(e.detail.step))")
    page.get_by_label("Speed").select_option("10")
    page.locator(".wg .clock [data-action=play]").click()
    page.wait_for_function("window.clock.step >= 4")
    page.evaluate("document.activeElement.blur()")
    press(page, " ")
    stopped = step_of(page)
    page.wait_for_timeout(300)
    assert step_of(page) == stopped and 4 <= stopped < count(page) - 1
    page.get_by_label("Speed").select_option("30")
    page.evaluate("document.activeElement.blur()")
    press(page, " ")
    page.wait_for_function("window.clock.step === window.clock.count - 1")
    expect(page.locator(".wg .clock [data-action=play]")).to_have_text("Play")
    seen = page.evaluate("window.seen")
    assert seen == list(range(1, seen[-1] + 1))


# ---- exact values ----

CUT = """(() => { const context = CanvasRenderingContext2D.prototype, draw = context.fillText; window.cut = [];
  context.fillText = function (text, x, ...rest) {
    const right = this.textAlign === 'right' && this.getTransform().e === 0;
    if (right && x < this.measureText(text).width) window.cut.push(text);
    return draw.call(this, text, x, ...rest); }; })()"""


def test_sums_of_29_digits_have_an_exponent_and_no_axis_label_is_cut(visit):
    """The label -2.1e+29 lost its minus sign, 8.2e+28 read 3.2e+28, and the strip had all digits of l."""
    large = "kernel=03_flash&score_scale=30&what_if=SUBTRACT_MAX&BLOCK_Q=16&BLOCK_KV=16&row=6&backend=cpu"
    page = visit(f"/online_softmax?{large}&step=24", script=CUT)
    strip = page.locator(".wg .strip").inner_text()
    assert strip.count("8.23802e+28") == 1 and strip.count("8.23804e+28") == 1 and ",000" not in strip
    assert page.evaluate("window.cut") == []


def test_keyboard_and_pointer_give_the_coordinate_and_the_exact_value(visit, flash):
    """What a pointer can read off a canvas, the keys can: Alt with an arrow, and Enter."""
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&step=4")
    story = tiling.explain(flash)
    page.locator(".sheet canvas").focus()
    press(page, "Alt+ArrowDown")
    assert re.match(r"S\[\d+, \d+\]", tip(page))  # the middle of the picture, to begin with
    page.mouse.move(*point_at(page, "Matrices", tensor="S", query=21, key=8))
    press(page, "Alt+ArrowRight")
    assert tip(page).startswith("S[21, 9] = ") and np.float32(tip(page).split("= ")[1]) == story.scores[5, 9]
    press(page, "Alt+ArrowDown", "Alt+ArrowLeft")
    assert tip(page).startswith("S[22, 8] = ") and np.float32(tip(page).split("= ")[1]) == story.scores[6, 8]
    press(page, "Alt+ArrowUp", "Enter")
    pinned = page.locator(".pin").inner_text()
    assert pinned.startswith("Pinned: S[21, 8] = ") and np.float32(pinned.split("= ")[1]) == story.scores[5, 8]
    assert step_of(page) == 3 and urlsplit(page.url).path == "/tiling"  # neither the clock nor the history moved
    press(page, "ArrowRight")
    assert step_of(page) == 4 and page.locator(".pin").inner_text() == pinned
    press(page, "Enter")
    assert page.locator(".pin").text_content() == ""
    go_to(page, 3)
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


def test_nan_is_drawn_counted_and_named_and_never_told_as_masked(visit):
    lost = "kernel=03_flash&seq_len=64&causal=true&score_scale=1000&what_if=SUBTRACT_MAX&BLOCK_Q=16&BLOCK_KV=16"
    page = visit(f"/tiling?{lost}&backend=cpu&at_tile=2")
    press(page, "End")
    assert "O has 512 NaN." in read(page)["labels"][0]
    assert "NaN or infinite" in page.locator(".legend").inner_text()
    assert hover(page, "Matrices", tensor="O", query=40, dim=3) == "O[40, 3] = NaN"
    assert hover(page, "Matrices", tensor="S", query=40, key=60) == "S[40, 60] is masked: never computed"
    press(page, "Home")
    assert "NaN" not in read(page)["labels"][0]
    assert hover(page, "Matrices", tensor="O", query=40, dim=3) == "O[40, 3] is not begun"


def test_how_often_a_row_of_q_is_read_stands_beside_what_it_cost(visit, flash):
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&picture=reuse")
    press(page, "End")
    (made,) = reuse.views(flash, tiling.view(flash, tiling.explain(flash))[0])
    assert made.meta["said"][-1] in read(page)["labels"][0] and "131,072" not in made.meta["said"][-1]
    assert hover(page, "Reuse of Q", row=20, tile=1) == (
        "row 20 of Q, in tile 1: each element read 16 times from shared memory"
    )
    page.mouse.click(*point_at(page, "Reuse of Q", row=20, tile=1))
    told = "Row 20: each element read 32 times from shared memory: 16 in tile 0, 16 in tile 1."
    expect(page.locator(".pin")).to_have_text(told)


def test_a_block_that_is_not_traced_is_told_by_its_rows_and_not_as_doing_the_same(visit):
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&picture=threads")
    page.mouse.click(*point_at(page, "Threads", block=7))
    expect(page.locator(".pin")).to_have_text(
        "Block 7 (x 3, y 1): query tile 7, rows 48 to 49 of head 1. The trace leaves it out, so its threads are not "
        "known."
    )


def test_hovering_the_row_gives_scores_weights_and_o(visit, flash):
    page = visit(f"/online_softmax?{SMALL_URL}&at_tile=1&row=4")
    story = online_softmax.explain(flash, 20)
    press(page, "End")
    text = hover(page, "Row 20", kind="score", index=10)
    assert text.startswith("score[20, 10] = ") and np.float32(text.split("= ")[1].split(",")[0]) == np.float32(
        story.keys.score[10]
    )
    text = hover(page, "Row 20", kind="weight", index=18)
    assert np.float32(re.search(r"weight of key 18 = (\S+),", text)[1]) == np.float32(story.keys.p[18])
    text = hover(page, "Row 20", kind="o", index=3)
    assert np.float32(re.search(r"O\[20, 3\] = (\S+?)(?:,|$)", text)[1]) == flash.arrays["o"][0, 0, 20, 3]


# ---- charts, themes, what-ifs ----


def test_a_chart_in_a_tab_follows_the_clock(visit):
    """The rule of the bytes' chart moves: its pixels change with the step, and come back with it."""
    page = visit(f"/tiling?{SMALL_URL}&tab=bytes")
    page.locator(".wg .drawer .chart canvas").first.wait_for(timeout=30_000)
    pixels = "document.querySelector('.wg .drawer .chart canvas').toDataURL()"
    same_twice = f"() => window.was === (window.was = {pixels})"
    page.wait_for_function(same_twice, polling=300)  # it has been drawn, and its text in its own font
    first = page.evaluate(pixels)  # of step 1
    seen = [first]
    for key in ("ArrowRight", "End"):
        press(page, key)
        page.wait_for_function(f"seen => !seen.includes({pixels})", arg=seen)
        seen.append(page.evaluate(pixels))
    press(page, "Home")
    page.wait_for_function(f"first => {pixels} === first", arg=first)


def test_a_whatif_shows_where_it_goes_wrong_at_the_same_moment(visit):
    page = visit("/online_softmax?kernel=03_flash&backend=cpu&step=9")
    said, step = read(page), step_of(page)
    assert not any(said["wrong"])
    choose(page, "what_if", "RESCALE")
    assert step_of(page) == step == 8 and address(page)["what_if"] == "RESCALE" and address(page)["step"] == "9"
    now = read(page)
    assert now["title"] == said["title"] and now["wrong"] == ["Wrong here. "]
    assert "this build multiplies by 1" in now["sentences"][0]
    choose(page, "what_if", "none")
    assert step_of(page) == 8 and read(page) == said


def test_another_kernel_and_another_seed_keep_the_moment(visit):
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&step=5")
    title = read(page)["title"]
    choose(page, "seed", "7")
    assert (step_of(page), read(page)["title"]) == (4, title)
    choose(page, "seq_len", "33")
    assert read(page)["title"] == title and asked(page)["seq_len"] == "33"


def test_digits_choose_a_picture_probe_lines_can_be_hidden_and_typing_does_not_step(visit):
    page = visit(f"/tiling?{SMALL_URL}&step=3")
    chips = page.locator(".wg .pictures button")
    assert chips.count() > 1
    for number in [*range(1, chips.count()), 0]:
        press(page, str(number + 1))
        expect(chips.nth(number)).to_have_attribute("aria-pressed", "true")
        page.wait_for_function("() => document.querySelector('.wg .view').childElementCount > 0")
        assert "picture" in address(page)
    assert step_of(page) == 2  # a picture may have a clock of its own; the stage's has stayed
    before = lit(page)
    page.get_by_label("hide probes").check()
    hidden = (
        "[...document.querySelectorAll('.wg .code .row.probe:not(.lit)')].every(row => !row.getClientRects().length)"
    )
    assert page.evaluate(hidden) and lit(page) == before
    box, pane = page.locator(".row.lit").first.bounding_box(), page.locator(".wg .code").bounding_box()
    assert pane["y"] - 1 <= box["y"] < pane["y"] + pane["height"]
    page.get_by_role("button", name="More", exact=True).click()
    page.locator('[data-name="seed"]').click()
    press(page, "ArrowRight", "Home", "End", "ArrowLeft", "ArrowLeft", " ")
    assert step_of(page) == 2


def test_the_theme_switch_repaints_the_picture_and_the_divider_is_dragged_and_moved_by_keys_and_kept(visit):
    page = visit(f"/tiling?{SMALL_URL}", color_scheme="light")
    pixels = "document.querySelector('.sheet canvas')?.toDataURL()"  # none for the moment of its repainting
    background = "getComputedStyle(document.querySelector('.wg .room button')).backgroundColor"
    light, before = page.evaluate(pixels), page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{background} !== '{before}'", timeout=30_000)
    page.wait_for_function(f"before => ({pixels} ?? before) !== before", arg=light, timeout=30_000)
    divider = page.get_by_role("separator")
    before = int(divider.get_attribute("aria-valuenow"))
    divider.focus()
    press(page, "ArrowLeft", "ArrowLeft")
    assert int(divider.get_attribute("aria-valuenow")) == before - 4 and step_of(page) == 0
    box = divider.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] - 150, box["y"] + 50)
    page.mouse.up()
    now = int(divider.get_attribute("aria-valuenow"))
    assert now < before - 8
    page.reload()
    shown(page)
    assert int(page.get_by_role("separator").get_attribute("aria-valuenow")) == now
