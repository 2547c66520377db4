"""The picture `shuffles`: a click makes a score the largest, and another row has other lanes."""

from browser.stepping import asked_now, point_at
from browser.test_covering import DRAWN, opened, words
from playwright.sync_api import expect

PICTURE = "/registers?kernel=04_warp_rows&picture=lanes&backend=cpu&step=10"
TITLE = "Lanes of a row"


def headline(page):
    return page.locator(".wg .narration .sentence")


def test_a_clicked_register_has_the_largest_score_and_is_called_modelled(visit):
    page = visit(PICTURE, script=DRAWN)
    source = page.locator(".of-hand > .from")
    expect(headline(page)).to_have_text("Drag a bar above the line: the max travels again.")
    expect(source).to_have_text("run of 04_warp_rows, row 6")
    page.mouse.click(*point_at(page, TITLE, register=4))
    expect(headline(page)).to_have_text("Lane 24 alone has it, then two lanes, then all four.")
    expect(source).to_have_text("modelled, under your hand")
    page.locator(".of-hand button").click()
    expect(source).to_have_text("run of 04_warp_rows, row 6")


def test_a_dragged_bar_keeps_its_max_from_the_other_lanes_until_it_is_let_go(visit):
    page = visit(PICTURE, script=DRAWN)
    bar = page.get_by_role("slider", name="score of key 0").bounding_box()
    x, y = bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - bar["height"], steps=5)
    expect(headline(page)).to_have_text("Lane 24 has the largest score. Let go: the others learn it.")
    page.evaluate("window.drawn = []")
    page.mouse.move(x, y - bar["height"] - 5)
    assert "own max" in page.evaluate("window.drawn") and "shuffle 1" not in page.evaluate("window.drawn")
    page.mouse.up()
    expect(headline(page)).to_have_text("Lane 24 alone has it, then two lanes, then all four.")
    assert "shuffle 2" in page.evaluate("window.drawn")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    expect(headline(page)).to_have_text("Lane 25 alone has it, then two lanes, then all four.")


def test_a_clicked_row_of_the_tile_has_other_lanes(visit):
    page = visit(PICTURE.replace("step=10", "step=1"), script=DRAWN)
    page.mouse.click(*point_at(page, TITLE, row=9, key=0))
    expect(page.locator(".of-hand > .from")).to_have_text("run of 04_warp_rows, row 9")
    assert "lane 4" in words(page) and "lane 24" not in words(page)


def test_show_me_plays_the_first_shuffle(visit):
    page, _ = opened(visit, "in_registers")
    asked_now(page)
    page.locator(".wg .guide [data-show]").click()
    expect(headline(page)).to_have_text("A shuffle swaps values: each pair keeps the larger one.")
