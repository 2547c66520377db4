"""The block table story in a real Chromium: a preset played, the kernel run on the cache, its walk stepped, the pages
shuffled."""

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from browser.stepping import hover, lit, point_at, press, sentence, step_of
from playwright.sync_api import expect

from explainers import block_table, kv_cache, partitions
from kernels.catalog import KERNELS
from kernels.core.request import Request, Scope
from kernels.families.paged.scenarios import PRESETS, problem_at
from kernels.run import execute

pytestmark = pytest.mark.xdist_group("browser")
CACHE_READY = ".events .event"


def query(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def run_here(preset, name="paged_v1", item=0, shuffle=0, moment=-1, settings=()):
    cache = PRESETS[preset].states(16)[moment][0]
    return execute.run(
        Request(KERNELS[name], problem_at(cache.shuffled(shuffle) if shuffle else cache), settings, Scope(item))
    )


def said_by_the_walk(page, frames):
    """Steps through the walk from its first step and compares every sentence, title and lit line."""
    press(page, "Home")
    for frame in frames:
        assert sentence(page) == frame["sentence"]
        expect(page.locator("[data-part=title]")).to_have_text(frame["title"])
        assert lit(page) == sorted(frame["lines"])
        press(page, "ArrowRight")
    assert step_of(page) == len(frames) - 1


def test_a_preset_is_played_the_kernel_run_its_walk_stepped_and_the_pages_shuffled(visit):
    page, scenario = (
        visit("/block_table?scenario=shared_prompt&backend=cpu&moment=0&step=0", wait=CACHE_READY),
        PRESETS["shared_prompt"],
    )
    frames = kv_cache.cache_frames(scenario.states(16), scenario.max_len)
    page.wait_for_selector("canvas[aria-label]")
    page.evaluate("window.seen = []; window.__warpglass.addEventListener('step', e => window.seen.push(e.detail.step))")
    page.locator("[data-part=speed]").select_option("10")
    page.locator("[data-part=play]").click()
    page.wait_for_function("window.__warpglass.step === window.__warpglass.count - 1")
    assert page.evaluate("window.seen") == list(range(1, len(frames)))
    assert sentence(page) == frames[-1]["sentence"]
    for number in range(len(frames) - 1, 4, -1):
        assert sentence(page) == frames[number]["sentence"]
        assert page.locator(".event.lit").inner_text() == f"{number}{frames[number]['event']}"
        if number > 5:
            press(page, "ArrowLeft")
    page.wait_for_selector("text=After event 5.")  # Python hears the moment when the user rests
    assert kv_cache.usage_sentence(scenario.states(16)[5][0], scenario.max_len) in page.inner_text("body")

    page.get_by_role("button", name="Run the kernel on this cache").click()
    page.wait_for_selector(".code .row")
    page.wait_for_selector("text=executed on")
    assert query(page)["moment"] == "5"
    plain = run_here("shared_prompt", moment=5)
    said_by_the_walk(page, block_table.walk(plain, "S").frames)

    page.get_by_role("button", name="Shuffle the pages").click()
    page.wait_for_selector("text=the same output, bit for bit, in every sequence and head")
    moved = run_here("shared_prompt", moment=5, shuffle=1)
    frames = block_table.walk(moved, "S").frames
    page.wait_for_timeout(500)
    said_by_the_walk(page, frames)
    pages = [(f["page"], g["page"]) for f, g in zip(block_table.walk(plain, "S").frames, frames) if "page" in f]
    assert any(a != b for a, b in pages) and np.array_equal(plain.arrays["o"], moved.arrays["o"])
    o = moved.arrays["o"][0, 0]
    text = hover(page, "Walk", dim=3)
    assert text.startswith("O[3] = ") and np.float32(text.split(" = ")[1]) == o[3]


def test_hovering_a_token_gives_its_page_slot_and_addresses_in_k_and_v(visit):
    page = visit("/block_table?view=walk&scenario=churn&backend=cpu&sequence=1&head=3&step=4")
    run = run_here("churn", item=4 + 3)
    problem, token = run.request.problem, 37
    table = problem.block_tables[1]
    tip = hover(page, "Walk", token=token, part="bars")
    k, v = (
        list(map(int, f(table[token // 16], 1, token % 16)))
        for f in (problem.layout.k_offsets, problem.layout.v_offsets)
    )
    assert f"token {token} of E: logical block 2, slot 5; page {table[2]}, KV head 1" in tip
    assert f"16 pieces of 16 bytes at bytes {k[0]:,}, {k[1]:,}, ... ({k[1] - k[0]} apart)" in tip
    assert f"64 numbers of 4 bytes at bytes {v[0]:,}, {v[1]:,}, ... ({v[1] - v[0]} apart)" in tip
    assert np.float32(re.search(r"score (\S+)", tip)[1]) == block_table.walk(run, "E").scores[token]
    for part in ("pool", "K", "V"):  # the same token wherever it is drawn
        assert hover(page, "Walk", token=token, part=part) == tip
    page.mouse.click(*point_at(page, "Walk", token=token, part="bars"))
    assert "token 37 of E" in page.locator(".pin").inner_text()


def test_v1_and_v2_on_one_clock_end_with_the_same_m_and_l(visit):
    page = visit("/block_table?view=partitions&scenario=one_long&backend=cpu")
    story = partitions.compare(
        run_here("one_long"), run_here("one_long", "paged_v2", settings=(("PARTITION", 32),)), "L"
    )
    for frame in story.frames:
        assert sentence(page) == frame["sentence"]
        press(page, "ArrowRight")
    rows = [row.split("\t") for row in page.locator(".numbers tr").all_inner_texts()][1:]
    for cells, part in zip(rows, story.table.itertuples()):
        assert [np.float32(text) for text in cells[2:5]] == [np.float32(x) for x in (part.m, part.l, part.weight)]
    assert [np.float32(text) for text in rows[-2][2:4]] == [np.float32(story.v2[key]) for key in "ml"]
    assert [np.float32(text) for text in rows[-1][2:4]] == [np.float32(story.v1[key]) for key in "ml"]
    assert page.locator(".file").all_inner_texts() == ["paged_v1.cu + walk.cuh", "paged_v2.cu + walk.cuh"]
    assert "132 multiprocessors" in page.inner_text("body")


def test_the_calculator_and_the_counted_reads(visit):
    page = visit("/block_table?view=heads&backend=cpu&num_heads=8&num_kv_heads=2", wait="text=How large is a KV cache")
    expect(page.locator("[data-testid=stMetricValue]")).to_have_text(["1 GiB", "256 MiB", "32 MiB"])
    page.get_by_role("spinbutton", name="Sequences").fill("64")
    page.keyboard.press("Enter")
    expect(page.locator("[data-testid=stMetricValue]")).to_have_text(["64 GiB", "16 GiB", "2 GiB"])
    body = page.inner_text("body")
    assert "MQA 8:1" in body and "reads each 8 times" in body


def test_a_cache_by_hand_says_when_it_is_full_and_keeps_what_it_had(visit):
    page = visit("/block_table?scenario=by_hand&num_blocks=3&backend=cpu", wait=CACHE_READY)
    expect(page.locator(".event")).to_have_count(3)
    page.get_by_role("spinbutton", name="Tokens").fill("40")
    page.keyboard.press("Tab")
    page.wait_for_timeout(400)
    page.get_by_role("button", name="Apply").click()
    page.wait_for_selector("text=Out of pages.")
    assert (
        "40 tokens for A need 2 more pages of 16 slots; 0 of 3 are free"
        in page.locator("[data-testid=stAlert]").first.inner_text()
    )
    expect(page.locator(".event")).to_have_count(3)
    page.get_by_role("radio", name="Fork a sequence").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".event")).to_have_count(4)
    page.wait_for_function("window.__warpglass.step === 3")
    assert sentence(page).startswith("C is forked from A: its block table is a copy, 2 entries")
    assert query(page)["events"] == "add A 20, add B 9, fork C A"


def test_a_link_opens_the_same_walk_at_the_same_step(visit):
    page = visit(
        "/block_table?view=walk&scenario=churn&backend=cpu&kernel=paged_v2&sequence=1&head=2&shuffle=4&moment=11"
    )
    press(page, *["ArrowRight"] * 7)
    page.wait_for_timeout(500)
    url = page.url
    again = visit(url[url.index("/block_table") :])
    again.wait_for_function("window.__warpglass.step === 7")
    assert (sentence(again), query(again)) == (sentence(page), query(page))


@pytest.mark.parametrize(
    "url",
    [
        "scenario=zoo&block_size=7&frob=1",
        "scenario=by_hand&events=add A 9999",
        "view=walk&scenario=by_hand&events=add A 5, free A",
    ],
)
def test_nonsense_is_told_and_no_traceback_reaches_the_page(visit, url):
    page = visit(f"/block_table?{url}&backend=cpu", wait="[data-testid=stAlert]")
    assert "Traceback" not in page.inner_text("body")
