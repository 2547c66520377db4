"""The backward in a real Chromium: its numbers are those of the run, in the picture, in the sums of dQ and in the check
of a gradient."""

import re

import numpy as np
from browser.stepping import count, go_to, hover, press, sentence, step_of
from pages import open_page

LINK = "backward?kernel=backward_3_one_loop&backend=cpu"


def test_the_picture_the_sums_and_the_check_show_the_numbers_of_the_run(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    tiles = next(view for view in made.views if view["id"] == "tiles")
    chain = tiles["meta"]["lines"][0][0]
    scores = next(matrix for matrix in chain["matrices"] if matrix["datum"] == {"tensor": "dS"})
    press(page, "2")
    assert count(page) == len(made.frames)
    step = scores["now"][0]
    go_to(page, step)
    assert step_of(page) == step and sentence(page) == made.frames[step]["sentence"]
    first, _, columns, row0, col0 = scores["windows"][scores["at"][step]]
    value = tiles["columns"]["dS"][first + 3 * columns + 5]
    said = hover(page, "Tiles", tensor="dS", query=row0 + 3, key=col0 + 5)
    assert np.float32(said.split("= ")[1]) == np.float32(value)
    assert hover(page, "Tiles", tensor="dQ").endswith("not on the SM now")

    press(page, "3")
    shown = next(view for view in made.views if view["id"] == "sums")["meta"]["lines"]
    bits = next(panel for line in shown for panel in line if panel["kind"] == "cells")
    other = bits["states"][0].index("b")
    assert hover(page, "Sums of dQ", part="bits", number=other).endswith("other bits in the second run")

    page.locator(".wg [data-tab=nudge]").click()
    check = page.locator("[data-view=nudge]")
    check.locator(".size b").first.wait_for()
    amounts = check.locator(".size b").all_inner_texts()
    predicted, measured = (float(text.replace("−", "-")) for text in amounts)
    assert abs(predicted / measured - 1) < 1e-2
    check.get_by_label(re.compile("query|key")).fill("-1")
    assert "Choose a whole number from 0 to" in check.get_by_role("alert").inner_text()
    check.get_by_label(re.compile("query|key")).fill("0")
    check.get_by_label("change").fill("nothing")
    assert "Choose a number between -1 and 1, not 0." in check.get_by_role("alert").inner_text()


def test_a_number_shows_the_row_and_the_column_that_made_it(visit):
    page, made = visit("/backward?stop=backward&backend=cpu"), open_page(LINK).stage
    view = next(view for view in made.views if view["id"] == "reverse")
    part = view["meta"]["parts"]["dQ"]
    assert count(page) == len(view["meta"]["frames"]) == 11
    go_to(page, 8)
    first, _, columns, row0, column0 = part["windows"][0]
    value = view["columns"]["numbers"][first + 3 * columns + 5]
    said = hover(page, "In reverse", tensor="dQ", query=row0 + 3, dim=column0 + 5)
    assert np.float32(said.split("= ")[1]) == np.float32(value)
    told = page.locator(".wg .narration .sentence").inner_text()
    assert told.startswith(f"dQ[{row0 + 3}, {column0 + 5}] = ") and f"row {row0 + 3} of dS, times column" in told
    go_to(page, 0)
    assert "dQ[" not in page.locator(".wg .narration .sentence").inner_text()
