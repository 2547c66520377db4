"""The backward in a real Chromium: its numbers are those of the run, in the picture, in the sums of dQ and in the check
of a gradient."""

import re

import numpy as np
from browser.stepping import count, go_to, hover, press, sentence, step_of
from pages import open_page

LINK = "backward?kernel=backward_3_one_loop&backend=cpu"


def test_the_picture_the_sums_and_the_check_show_the_numbers_of_the_run(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    tiles, sums = (next(view for view in made.views if view["id"] == name) for name in ("tiles", "sums"))
    assert count(page) == len(made.frames)
    last = next(n for n, frame in enumerate(made.frames) if "dS" in frame["made"])
    go_to(page, last)
    assert step_of(page) == last and sentence(page) == made.frames[last]["sentence"]
    r0, r1, c0, c1, start = tiles["meta"]["states"]["dS"][0]
    query, key = r0 + 3, c0 + 5
    value = tiles["columns"]["dS"][start + 3 * (c1 - c0 + 1) + 5]
    said = hover(page, "Backward of head 0", tensor="dS", query=query, key=key)
    assert np.float32(said.split("= ")[1]) == np.float32(value)

    press(page, "2")
    first, n, d = sums["meta"]["first"], sums["meta"]["n"], sums["meta"]["d"]
    once, again = (sums["columns"][name].reshape(n, d) for name in ("once", "again"))
    shown = page.locator(".wg .sums")
    shown.get_by_text(f"dQ[{first[0]}, {first[1]}]").wait_for()
    bits = shown.locator(".bits").all_inner_texts()
    due = [f"{np.float32(a[tuple(first)]).view(np.uint32):032b}" for a in (once, again)]
    assert bits == due and due[0] != due[1]
    assert shown.locator(".other").count() == 2 * sum(a != b for a, b in zip(*due))

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
