"""The staircase of How fast in a real Chromium: a step to each stair, and the reader's rival and length."""

import re

import pytest
from browser.stepping import count, go_to, hover
from pages import open_page
from playwright.sync_api import expect

from explainers.story.glossary import MICROSECONDS, amount


@pytest.fixture(scope="module")
def view():
    made = open_page("timing").stage
    return next(view["meta"] for view in made.views if view["id"] == "rungs")


def test_a_rung_shows_its_time_and_the_hand_chooses_a_rival_and_a_length(visit, view):
    page = visit("/timing?stop=how_fast")
    assert count(page) == len(view["frames"])
    us = {problem["id"]: problem["us"] for problem in view["problems"]}
    rung = view["shown"][3]["rung"]
    go_to(page, 3)
    assert amount(us["main 4096"][rung], MICROSECONDS) in hover(page, "The staircase", row=rung)
    hands = page.locator(".wg .hands")
    expect(hands).to_be_hidden()
    go_to(page, [shown["phase"] for shown in view["shown"]].index("hand"))
    hands.get_by_role("button", name="8,192").click()
    hands.get_by_label("rival").select_option("unfused float16")
    best = min((id for id in us["main 8192"] if id[0].isdigit()), key=us["main 8192"].get)
    times = us["main 8192"]["unfused float16"] / us["main 8192"][best]
    expect(page.locator(".wg .narration .sentence")).to_have_text(
        re.compile(f"is {times:.3g} times faster than torch as written")
    )
    expect(page.locator(".wg .of-hand .from")).to_contain_text("8,192 tokens")
    hands.get_by_role("button", name="16,384").click()
    expect(hands.get_by_label("rival")).to_have_value("sdpa_math float32")  # the only rival there
    long = us["long"]
    times = long["sdpa_math float32"] / long["08b_three_bfloat16"]
    expect(page.locator(".wg .narration .sentence")).to_contain_text(f"is {times:.3g} times faster")
