"""The block table story in a real Chromium: events played, the walk read off its canvas, the pages shuffled. That every
sentence, lit line and figure is the run's is tested in test_stage.py, for every story."""

import re

import numpy as np
from browser.stepping import address, asked, choose, count, hover, point_at, press, read, step_of, walked
from playwright.sync_api import expect

from explainers.stories.block_table import kv_cache, walk
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute


def run_here(preset, name="paged_v1", item=0, shuffle=0, moment=-1, settings=()):
    cache = PRESETS[preset].states(16)[moment][0]
    problem = PagedProblem.of_cache(cache.shuffled(shuffle) if shuffle else cache)
    return execute.run(Request(KERNELS[name], problem, settings, Scope(item)))


def walk_says(page, frames):
    assert count(page) == len(frames)
    for frame, said in zip(frames, walked(page, len(frames))):
        assert (said["sentences"], said["title"]) == ([frame["sentence"]], frame["title"])


def test_events_are_played_and_the_kernel_is_run_at_the_moment_where_one_stands(visit):
    page, scenario = (
        visit("/block_table?view=cache&scenario=shared_prompt&backend=cpu&step=1"),
        PRESETS["shared_prompt"],
    )
    frames = kv_cache.cache_frames(scenario.states(16), scenario.max_len)
    walk_says(page, frames)
    page.evaluate("window.clock.set(5, 'user')")
    choose(page, "view", "walk")
    assert asked(page)["moment"] == "5"
    sequence, heads = int(asked(page)["sequence"]), int(asked(page)["num_heads"])
    plain = run_here("shared_prompt", item=sequence * heads, moment=5)
    walk_says(page, walk.frames_of(plain, "SABC"[sequence]))


def test_the_caches_link_says_its_step_once_and_from_1(visit):
    page = visit("/block_table?view=cache&scenario=shared_prompt&backend=cpu&step=1")
    page.evaluate("window.clock.set(5, 'user')")
    page.wait_for_function("new URLSearchParams(location.search).get('step') === '6'")
    assert "moment" not in asked(page)
    link = page.url.split("/block_table")[1]
    said = read(page)
    again = visit(f"/block_table{link}")
    assert step_of(again) == 5 and read(again)["title"] == said["title"]
    choose(again, "view", "walk")
    assert asked(again)["moment"] == "5"  # how many events have been played


def test_hovering_a_token_gives_its_addresses_and_shuffled_pages_change_them_and_no_output(visit):
    page = visit("/block_table?view=walk&scenario=churn&backend=cpu&sequence=1&head=3&step=5")
    run = run_here("churn", item=4 + 3)
    problem, token = run.request.problem, 37
    table = problem.block_tables[1]
    tip = hover(page, "Walk", token=token, part="scores")
    k, v = (
        list(map(int, f(table[token // 16], 1, token % 16)))
        for f in (problem.layout.k_offsets, problem.layout.v_offsets)
    )
    assert f"token {token} of E: logical block 2, slot 5; page {table[2]}, KV head 1" in tip
    assert f"16 pieces of 16 bytes at bytes {k[0]:,}, {k[1]:,}, ... ({k[1] - k[0]} apart)" in tip
    assert f"64 numbers of 4 bytes at bytes {v[0]:,}, {v[1]:,}, ... ({v[1] - v[0]} apart)" in tip
    scores = walk.picture(run, walk.frames_of(run, "E"), "E", "#000").columns["scores"]
    assert np.float32(re.search(r"score (\S+)", tip)[1]) == scores[token]
    assert "token 37 of E" in hover(page, "Walk", page=table[2], slot=5)  # the same token in the pool
    page.mouse.click(*point_at(page, "Walk", token=token, part="scores"))
    assert "token 37 of E" in page.locator(".pin").inner_text()
    plain, moved = run_here("churn", item=4 + 3), run_here("churn", item=4 + 3, shuffle=1)
    said = read(page)
    choose(page, "shuffle", "1")
    assert step_of(page) == 4 and read(page)["title"] == said["title"]  # the same moment
    walk_says(page, walk.frames_of(moved, "E"))
    press(page, "End")
    o = moved.arrays["o"][1, 3]
    assert np.array_equal(plain.arrays["o"], moved.arrays["o"])
    text = hover(page, "Walk", part="O", dim=3)
    assert text.startswith("dim 3: O = ") and np.float32(text.split(" = ")[1]) == o[3]


def headline(page):
    return page.locator(".wg .narration .sentence")


def test_a_drag_along_the_sequence_gives_the_place_of_each_token(visit):
    page = visit("/block_table?view=walk&scenario=churn&backend=cpu&picture=pages&step=7")
    problem = run_here("churn", item=4).request.problem
    slider = page.locator(".hands input.wide")
    for token in (37, 0, 15, 16):
        slider.fill(str(token))
        place = f"page {problem.block_tables[1][token // 16]}, slot {token % 16}"
        expect(slider).to_have_attribute("aria-valuetext", f"token {token}: {place}")
    expect(headline(page)).to_contain_text("The next page can be anywhere")
    slider.fill("67")
    expect(headline(page)).to_contain_text("Another entry names another page")
    slider.fill("16")
    slider.focus()
    page.keyboard.press("ArrowRight")  # the key belongs to the slider
    assert slider.input_value() == "17" and step_of(page) == 6
    x, y = point_at(page, "Pages", own=3)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(*point_at(page, "Pages", own=40), steps=5)
    page.mouse.up()
    assert slider.input_value() == "40"
    page.mouse.click(*point_at(page, "Pages", of="E", token=20))  # in memory
    assert slider.input_value() == "20"


def test_the_contexts_of_the_reader_have_recorded_times(visit):
    page = visit("/block_table?view=partitions&scenario=one_long&backend=cpu&picture=split&step=7")
    slider, chips = page.locator(".hands input.wide"), page.locator(".hands .chip")
    slider.fill(slider.get_attribute("max"))
    expect(headline(page)).to_contain_text("times as fast")
    slider.fill("0")
    expect(headline(page)).to_contain_text("One partition each")
    chips.nth(1).click()
    slider.fill(slider.get_attribute("max"))
    expect(headline(page)).to_have_text("V2 is 2% slower: V1's many blocks fill the pipe already.")
    expect(page.locator(".of-hand")).to_contain_text("Recorded: H200")


def test_fewer_kv_heads_hold_less_and_ask_for_as_much(visit):
    page = visit("/block_table?view=heads&backend=cpu&picture=sharing&step=7")
    slider = page.locator(".hands input.wide")
    slider.fill("0")
    expect(headline(page)).to_have_text("32 times as many requests fit. The multiplications stay.")
    page.wait_for_timeout(800)
    assert f"K and V in memory: {32 * 2**20:,}" in hover(page, "Grouped heads", part="size", size="held")
    assert f"V1 asks for: {2**30:,}" in hover(page, "Grouped heads", part="size", size="asked")
    slider.fill("5")
    expect(headline(page)).to_have_text("Each query head has a KV head of its own: nothing is saved.")


def test_a_link_opens_the_same_walk_at_the_same_step(visit, server):
    page = visit(
        "/block_table?view=walk&scenario=churn&backend=cpu&kernel=paged_v2&sequence=1&head=2&shuffle=4&moment=11"
    )
    press(page, *["ArrowRight"] * 7)
    expect(page).to_have_url(re.compile("step=8"))
    again = visit(page.url.removeprefix(server.url))
    assert (read(again), address(again)) == (read(page), address(page))
