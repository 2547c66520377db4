"""The picture `drag`: a row's scores under the reader's hand, by mouse, keys and the switches."""

import math
import re

import pytest
from browser.test_covering import DRAWN, opened, turn_to, words
from playwright.sync_api import expect

PICTURE = (
    "/online_softmax?kernel=03_flash&seq_len=32&BLOCK_Q=8&BLOCK_KV=8&seed=42&at_tile=1&row=2&picture=drag&backend=cpu"
)
LAST = 31  # the marked bar: the highest of the last tile


def headline(page):
    return page.locator(".wg .narration .sentence")


def bar(page, key):
    return page.locator(".wg .bars > [role=slider]").nth(key)


def test_a_lifted_bar_shrinks_all_before_and_is_called_modelled(visit):
    page = visit(f"{PICTURE}&step=7")
    source, reset = page.locator(".of-hand > .from"), page.locator(".of-hand button")
    expect(headline(page)).to_have_text("Lift the marked bar above the line m.")
    expect(source).to_have_text("run of 03_flash, row 10")
    expect(reset).to_be_hidden()
    place = bar(page, LAST).bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 130, steps=6)
    expect(headline(page)).to_have_text(re.compile(r"^m rose by (\d\.\d+): all before × e\^−\1 = 0\.\d+\.$"))
    gap, factor = map(float, re.findall(r"\d\.\d+", headline(page).inner_text())[::2])
    assert factor == pytest.approx(math.exp(-gap), abs=0.01)
    page.mouse.up()
    expect(headline(page)).to_have_text(f"All before × {factor:.2f}: one multiplication, and O is right again.")
    expect(source).to_have_text("modelled, under your hand")
    reset.click()
    expect(source).to_have_text("run of 03_flash, row 10")
    expect(headline(page)).to_have_text("Lift the marked bar above the line m.")


def test_the_keyboard_lifts_a_bar_and_the_switches_break_the_row(visit):
    page = visit(f"{PICTURE}&step=7")
    bar(page, LAST).focus()
    for key in ("PageUp", "PageUp", "PageUp", "ArrowUp"):
        page.keyboard.press(key)
    expect(headline(page)).to_contain_text("m rose by")
    assert page.evaluate("window.clock.step") == 6  # the arrows belong to the bar
    page.keyboard.press("ArrowLeft")
    expect(bar(page, LAST - 1)).to_be_focused()
    rescale = page.locator(".hands input[type=checkbox]")
    rescale.uncheck()
    expect(headline(page)).to_have_text(re.compile(r"^Forgotten: .* O is off by \d+ %\.$"))


def test_left_and_right_step_again_after_a_drag_and_a_switch(visit):
    page = visit(f"{PICTURE}&step=7", script=DRAWN)
    place = bar(page, LAST).bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, 0, steps=6)
    page.mouse.up()
    raised = page.evaluate("window.clock.step"), headline(page).inner_text()
    page.keyboard.press("ArrowDown")  # the bar's own
    assert page.evaluate("window.clock.step") == raised[0] and headline(page).inner_text() != raised[1]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.clock.step") == 7
    page.locator(".hands input[type=checkbox]").click()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("window.clock.step") == 6
    page.locator(".hands input[type=checkbox]").click()
    page.keyboard.press(" ")  # the switch's own
    expect(page.locator(".hands input[type=checkbox]")).to_be_checked()
    page.keyboard.press("Home")
    assert page.evaluate("window.clock.step") == 0


def test_a_right_answer_skips_the_tiles(visit):
    page, questions = opened(visit, "one_pass")
    turn_to(page, questions, "causal")
    page.locator(".wg .guide .option", has_text="Those right of the diagonal").click()
    expect(headline(page)).to_have_text("Tiles right of the diagonal are skipped: in long rows, about half.")


def test_without_m_the_row_overflows_once_a_score_is_large(visit):
    page = visit(f"{PICTURE}&step=8")
    subtract, scale = page.locator(".hands input[type=checkbox]"), page.locator(".hands input[type=range]")
    subtract.uncheck()
    expect(headline(page)).to_have_text("Without m it works while every score is below 88.7.")
    scale.fill("90")
    expect(headline(page)).to_have_text(re.compile(r"^Without m, e\^\d+ is too large for a float\. O is NaN\.$"))
    subtract.check()
    expect(headline(page)).to_have_text("With m the largest weight is e^0 = 1. Nothing overflows.")


def test_the_causal_switch_skips_the_tiles_right_of_the_diagonal(visit):
    page = visit(f"{PICTURE}&step=9", script=DRAWN)
    causal = page.locator(".hands input[type=checkbox]")
    assert "16 of 16 tiles" in words(page)
    causal.check()
    expect(headline(page)).to_have_text("Tiles right of the diagonal are skipped: in long rows, about half.")
    said = words(page)
    assert "10 of 16 tiles" in said and "tile 3: skipped" in said and "tile 2: now" in said


def test_an_early_bar_stops_the_kernel_at_its_tile_and_then_it_reads_on(visit):
    page = visit(f"{PICTURE}&step=7")
    bar(page, 18).focus()
    page.keyboard.press("ArrowUp")
    expect(headline(page)).to_contain_text("m rose by")  # the tile raises m by itself
    bar(page, 2).focus()
    expect(headline(page)).to_have_text("The first tile: nothing comes before it.")
    page.locator(".of-hand button").click()
    expect(headline(page)).to_have_text("Lift the marked bar above the line m.")


def test_show_me_hides_the_later_keys(visit):
    page, questions = opened(visit, "one_pass")
    turn_to(page, questions, "causal")
    page.locator(".wg .guide [data-show]").click()
    expect(headline(page)).to_have_text("Tiles right of the diagonal are skipped: in long rows, about half.")


def test_a_longer_row_has_more_scores_and_one_pass_keeps_as_many_numbers(visit):
    page = visit(f"{PICTURE}&step=6", script=DRAWN)
    assert "1,024" in words(page) and "34" in words(page) and not page.locator(".bars").is_visible()
    page.get_by_role("slider", name="keys of a row").focus()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.wg .hands output').textContent === '1,048,576'")
    assert "1,048,576" in words(page) and "34" in words(page)
    expect(page.locator(".of-hand > .from")).to_have_text("modelled: numbers counted, for any length")


def test_steps_back_show_the_run_again(visit):
    page = visit(f"{PICTURE}&step=7")
    bar(page, LAST).focus()
    page.keyboard.press("PageUp")
    expect(page.locator(".of-hand > .from")).to_have_text("modelled, under your hand")
    page.evaluate("window.clock.set(3, 'user')")
    expect(headline(page)).to_have_text(re.compile(r"^m rises\. One factor mends l and O: × 0\.\d\d\.$"))
    expect(page.locator(".of-hand > .from")).to_have_text("run of 03_flash, row 10")
