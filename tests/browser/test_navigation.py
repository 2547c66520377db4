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


def test_the_page_asks_nothing_of_the_internet_and_nothing_that_is_not_there(visit):
    hosts, failed = set(), []

    def listen(page):
        page.on("request", lambda request: hosts.add(re.sub(r"^(\w+:/*[^/]*).*", r"\1", request.url)))
        page.on("response", lambda got: got.status >= 400 and failed.append(got.url))

    page = visit(f"/tiling?{SMALL_URL}&tab=bytes", before=listen)
    page.wait_for_selector(".wg .drawer .chart canvas", timeout=30_000)
    assert hosts and all(host.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")) for host in hosts)
    assert not failed


# ---- unknown addresses ----


@pytest.mark.parametrize(
    ("address", "near", "shown"),
    [
        ("/threads", "In registers, picture threads", "registers"),
        ("/bytes", "Tiles, tab bytes", "tiling"),
        ("/nosuchpage?seq_len=64", "", ""),
    ],
)
def test_the_start_page_names_an_unknown_address_and_leads_to_what_is_near(visit, address, near, shown):
    page = visit(address, wait=".wg .messages .note")
    note, name = page.locator(".wg .messages .note"), address[1:].partition("?")[0]
    expect(note).to_contain_text(f"Warpglass has no page named '{name}'.")
    assert not page.locator("[data-testid=stDialog]").count()  # Streamlit's own word covered the menu
    if not near:
        expect(note).to_contain_text("More pages and Search list all pages.")
        page.get_by_role("button", name="Menu").click(timeout=5_000)
        return
    note.get_by_role("link", name=near, exact=True).click()
    page.wait_for_function("path => document.querySelector('.wg').dataset.shown?.startsWith(path)", arg=shown)
    expect(note).to_have_count(0)
    assert name in page.url


def test_a_slash_behind_a_page_changes_nothing(visit):
    page = visit("/registers/?kernel=04_warp_rows")
    assert "/registers?" in page.url and "kernel=04_warp_rows" in page.url


# ---- the title and the ways back ----

SMALL = "kernel=03_flash&seq_len=32&head_dim=32&backend=cpu"


def test_the_title_names_the_page_also_after_back(visit):
    page = visit(f"/tiling?{SMALL}")
    title = page.title()
    assert title.endswith(" - Warpglass") and title != " - Warpglass"
    rail(page, "online_softmax")
    expect(page).not_to_have_title(title)
    page.go_back()
    shown(page, "tiling")
    page.wait_for_timeout(500)  # nothing changes it later
    expect(page).to_have_title(title)


def test_a_choice_can_be_taken_back_and_neither_a_step_nor_a_refused_choice_makes_an_entry(visit):
    page = visit(f"/tiling?{SMALL}")
    before, entries = page.locator(".wg").get_attribute("data-shown"), page.evaluate("history.length")
    press(page, *["ArrowRight"] * 3)
    expect(page).to_have_url(re.compile(r"step=4"))
    assert page.evaluate("history.length") == entries
    choose(page, "what_if", "RESCALE")
    assert page.evaluate("history.length") == entries + 1 and address(page)["what_if"] == "RESCALE"
    bundle = choose(page, "seq_len", "64")
    assert page.evaluate("history.length") == entries + 2
    page.go_back()
    shown(page, other=bundle)
    assert address(page)["seq_len"] == "32" and address(page)["what_if"] == "RESCALE"
    page.go_back()
    page.wait_for_function("before => document.querySelector('.wg').dataset.shown === before", arg=before)
    assert address(page)["what_if"] == "none" and address(page)["step"] == "4"
    entries = page.evaluate("history.length")
    page.get_by_role("button", name="More", exact=True).click()
    field = page.locator('.wg .more [data-name="seq_len"]')
    field.fill("0")
    field.press("Enter")
    expect(page.locator(".wg .more .refused:not([hidden])")).to_be_visible()
    assert page.evaluate("history.length") == entries


def test_the_keyboard_comes_to_the_rail_after_the_way_past_it_and_the_name(visit):
    page = visit(f"/tiling?{SMALL}")
    said = []
    for _ in range(3):
        page.keyboard.press("Tab")
        said.append(page.evaluate("document.activeElement.closest('nav') ? 'rail' : document.activeElement.innerText"))
    assert said == ["Skip to main content", "Warpglass", "rail"]
    page.get_by_role("link", name="Skip to main content").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".wg .bar [data-action=play]")).to_be_focused()
