"""The backward in a real Chromium: its numbers are those of the run, in the picture, in the sums of dQ and in the check
of a gradient."""

import re

import numpy as np
from browser.stepping import count, go_to, hover, press, sentence, step_of
from pages import open_page
from playwright.sync_api import expect

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


def test_a_score_moves_its_weight_and_the_loss(visit):
    page = visit("/backward?stop=backward&backend=cpu")
    view = next(view for view in open_page(f"{LINK}&causal=true&seed=1711").stage.views if view["id"] == "reverse")
    row, phases = view["meta"]["row"], view["meta"]["phases"]
    assert count(page) == len(phases) == 11
    go_to(page, phases.index("values"))
    assert hover(page, "In reverse", tensor="dP").endswith("dP = dO Vᵀ")
    said = page.locator(".wg .narration .sentence")
    grip = page.get_by_role("slider", name="score of key 1")
    expect(grip).to_be_hidden()
    go_to(page, phases.index("hand"))
    assert hover(page, "In reverse", tensor="P", key=1) == f"key 1: P = {row['P'][1]:.4f}"
    grip.focus()
    grip.press("ArrowDown")
    more = row["P"][1] * (np.exp(-0.1) - 1)
    change = (row["delta"] + more * row["dP"][1]) / (1 + more) - row["delta"]
    assert abs(change + 0.1 * row["dS"][1]) < 0.01
    expect(said).to_have_text(f"The loss moves by {change:+.2f}, as dS says.")
    for _ in range(2):
        grip.press("PageDown")
    expect(said).to_have_text("After a long way, the loss bends away from dS.")
    box = grip.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0], middle[1] - 30)
    page.mouse.up()
    assert float(grip.get_attribute("aria-valuenow")) > row["S"][1] - 1.1 + 0.3
    page.get_by_role("button", name="Back to the run").click()
    expect(said).not_to_contain_text("away from dS")
    assert float(grip.get_attribute("aria-valuenow")) == round(row["S"][1], 1)
