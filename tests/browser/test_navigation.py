"""From page to page by the rail, and what the address says: choices go along as far as they apply, each
page is found as it was left, the back button and a reload lead to where one was."""

import re
from functools import partial

import pytest
from browser.conftest import shown
from browser.stepping import address, asked, choose, count, press, rail, read, sentence, step_of
from playwright.sync_api import expect

SMALL_URL = "kernel=03_flash&seq_len=50&causal=true&BLOCK_Q=16&BLOCK_KV=16&backend=cpu"
# What was chosen on Tiling, and what the address of each story then says of it. Tile 1 begins at query 32.
CHOSEN = "/tiling?kernel=08b_three_bfloat16&seq_len=50&causal=true&BLOCK_Q=32&what_if=RESCALE&at_tile=1&backend=cpu"
RUN = {"seq_len": "50", "causal": "true"}
TILE = {"kernel": "08b_three_bfloat16", **RUN, "BLOCK_Q": "32", "what_if": "RESCALE", "at_tile": "1"}
COMPARE = {"a": "08b_three_bfloat16", "b": "04_warp_rows", **RUN, "a_BLOCK_Q": "32", "a_RESCALE": "0", "at_query": "32"}


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("there", "change", "after"),
    [
        ("online_softmax", ("what_if", "none"), {"what_if": "none", "at_tile": "1"}),
        slow("occupancy", ("BLOCK_Q", "16"), {"BLOCK_Q": "16", "what_if": "RESCALE", "seq_len": "50"}),  # builds six
        ("compare", ("b_what_if", "SUBTRACT_MAX"), {"what_if": "RESCALE"}),
        slow("any_kernel", ("at_item", "2"), {"what_if": "RESCALE", "at_head": "1", "at_tile": "0"}),
        slow("compare", ("a_what_if", "none"), {"what_if": "none", "kernel": "08b_three_bfloat16"}),
    ],
)
def test_what_is_changed_elsewhere_is_found_changed_on_the_way_back(visit, there, change, after):
    page = visit(CHOSEN)
    rail(page, there)
    choose(page, *change)
    rail(page, "tiling")
    assert after.items() <= asked(page).items()


def test_kernel_problem_tile_and_whatif_go_along_through_compare_and_the_build_is_named(visit):
    page = visit(CHOSEN + "&step=5")
    rail(page, "online_softmax")
    rail(page, "compare")
    assert COMPARE.items() <= asked(page).items()
    named = "A is built with No rescaling, a what-if. On this problem its output is still right."  # it has one key tile
    assert named in page.locator(".wg .summary").text_content()  # which a question may veil
    rail(page, "tiling")
    assert TILE.items() <= asked(page).items()


def test_the_back_button_leads_to_where_one_was_and_forward_again(visit):
    page = visit(f"/tiling?{SMALL_URL}&at_tile=1&step=4")
    rail(page, "online_softmax")
    press(page, *["ArrowRight"] * 2)
    expect(page).to_have_url(re.compile(r"online_softmax.*step=3"))  # written when one rests
    went = asked(page)
    page.go_back()
    shown(page, "tiling")
    assert asked(page)["seq_len"] == "50" and asked(page)["at_tile"] == "1" and step_of(page) == 3
    page.go_forward()
    shown(page, "online_softmax")
    assert asked(page) == went and step_of(page) == 2


def test_a_reload_and_a_copied_link_show_the_same(visit, server):
    page = visit(f"/online_softmax?{SMALL_URL}&what_if=RESCALE&at_tile=1&row=5&BLOCK_KV=8&step=1")
    press(page, *["ArrowRight"] * 7)
    expect(page).to_have_url(re.compile(r"step=8"))
    said, link = read(page), page.url
    again = visit(link.removeprefix(server.url))
    assert (read(again), again.url) == (said, link)
    again.reload()
    shown(again)
    assert (read(again), again.url) == (said, link)


def test_the_address_has_step_picture_and_tab_and_no_history_for_each_step(visit):
    page = visit(f"/tiling?{SMALL_URL}")
    length = page.evaluate("history.length")
    press(page, *["ArrowRight"] * 3)
    page.locator('.wg .tabs [data-tab="data"]').click()
    page.wait_for_function("() => document.querySelector('.wg').dataset.tab === 'data'", timeout=30_000)
    assert (address(page)["step"], address(page)["tab"]) == ("4", "data") and page.evaluate("history.length") == length
    page.reload()
    shown(page, "tiling")
    assert step_of(page) == 3
    page.wait_for_selector(".wg .drawer a[download]")


@pytest.mark.parametrize(
    ("wrong", "said", "step"),
    [
        ("step=999", "step is 999. Here it can be 1 to", -1),
        ("step=0", "step is 0. Here it can be 1 to", 0),
        ("seq_len=-9&frob=1", "seq_len is -9", 0),
        ("kernel=%3Cb%3Ex%3C%2Fb%3E", "kernel is '<b>x</b>'. It must be one of", 0),
    ],
)
def test_what_of_a_link_is_not_taken_is_told_and_the_page_stands(visit, wrong, said, step):
    base = (
        "backend=cpu"
        if "kernel" in wrong
        else SMALL_URL.replace("seq_len=50&", "")
        if "seq_len" in wrong
        else SMALL_URL
    )
    page = visit(f"/tiling?{base}&{wrong}")
    told = page.locator(".wg .messages [role=alert]")
    assert said in told.inner_text() and ("frob" not in wrong or "frob is not a choice" in told.inner_text())
    assert step_of(page) == step % count(page) and sentence(page)
    name = wrong.split("=")[0]
    assert "frob" not in page.url and address(page)[name] != wrong.split("&")[0].partition("=")[2]
    page.get_by_role("button", name="Dismiss").click()
    assert not told.count()


def test_a_refused_change_says_why_and_keeps_what_is_shown(visit):
    page = visit(f"/tiling?{SMALL_URL}&step=3")
    before = read(page)
    page.get_by_role("button", name="More", exact=True).click()
    field = page.locator('.wg .toolbar [data-name="seq_len"]')
    field.fill("99999")
    field.press("Enter")
    refused = page.locator(".wg .refused:not([hidden])")
    refused.wait_for()
    assert "seq_len is 99999. It must be a whole number from 1 to" in refused.inner_text()
    assert read(page) == before and asked(page)["seq_len"] == "50"
    page.locator('.wg .toolbar [data-name="seq_len"]').fill("48")
    page.keyboard.press("Enter")
    page.wait_for_function("() => new URL(location).searchParams.get('seq_len') === '48'", timeout=20_000)
    assert not refused.count()


def test_leaving_a_page_leaves_no_listener_behind(visit):
    page = visit(f"/tiling?{SMALL_URL}")
    for path in ("online_softmax", "tiling", "start", "tiling"):
        rail(page, path)
    start = step_of(page)
    press(page, "ArrowRight")
    assert step_of(page) == start + 1
    assert page.evaluate("window.clock.views.length") == page.locator(".wg .sheet").count()


def test_the_page_asks_nothing_of_the_internet(visit):
    hosts = set()
    page = visit(
        f"/tiling?{SMALL_URL}&tab=bytes",
        before=lambda page: page.on(
            "request", lambda request: hosts.add(re.sub(r"^(\w+:/*[^/]*).*", r"\1", request.url))
        ),
    )
    page.wait_for_selector(".wg .drawer .chart canvas", timeout=30_000)
    assert hosts and all(host.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")) for host in hosts), (
        hosts
    )
