"""The sparsity story in a real Chromium: a mask drawn by hand and run, its list walked, the ledger read and
recomputed."""

import re

import numpy as np
from browser.conftest import shown
from browser.stepping import address, asked, choose, count, hover, point_at, press, read, sentence, step_of, walked
from playwright.sync_api import expect

from explainers.stories.sparsity import block_mask, mask_walk
from explainers.stories.sparsity.story import STORY
from explainers.story import probed
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute

NAME = probed.first(STORY).name
DRAW = "/sparsity?backend=cpu&mask=drawn&causal=false&seq_len=256&at_tile=1&row=3&drawn="


def run_here(item, **fields):
    problem = KERNELS[NAME].problem_type(**{"num_heads": 1, **fields})
    return execute.run(Request(KERNELS[NAME], problem, (), Scope(item)))


def click(page, **what):
    """Clicks what the mask's picture draws there, and waits for the stage that this asks for."""
    before = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    page.mouse.click(*point_at(page, "Mask and list", **what))
    return shown(page, other=before)


def walk_says(page, frames):
    assert count(page) == len(frames)
    for frame, said in zip(frames, walked(page, len(frames))):
        assert (said["sentences"], said["title"]) == ([frame["sentence"]], frame["title"])


def table(page, heading):
    """The cells of the first table after a heading of the open tab, first column -> the others."""
    page.wait_for_selector(f"h3:has-text('{heading}')", timeout=60_000)
    rows = page.locator(f"h3:has-text('{heading}') ~ figure tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return {row[0]: [text.replace(",", "") for text in row[1:]] for row in cells}


def test_a_mask_is_drawn_run_and_walked_and_its_ledger_is_that_of_the_drawn_blocks(visit):
    page = visit(DRAW + "0;0,1;;3")
    walk_says(page, mask_walk.explain(run_here(1, **mask("0;0,1;;3")), 67).frames)
    click(page, part="block", cell_row=1, cell_col=3)  # shown
    assert asked(page)["drawn"] == "0;0,1,3;;3"
    click(page, part="block", cell_row=1, cell_col=0)  # hidden
    assert asked(page)["drawn"] == "0;1,3;;3"
    walk = mask_walk.explain(run_here(1, **mask("0;1,3;;3")), 67)
    assert [entry.column for entry in walk.entries] == [1, 3]
    walk_says(page, walk.frames)
    press(page, "Home", "ArrowRight")
    tip = hover(page, "Mask and list", part="key", key=70)
    assert np.float32(re.search(r"score (\S+)$", tip)[1]) == walk.scores[70]
    page.get_by_role("button", name="Ledger").click()
    rows = table(page, "Executed, masked, skipped")
    block, kv = 64 * 64, 2 * 64 * 64 * 2  # pairs of a block; bytes of its K and V
    dim = 64
    assert rows["full: executed"][:4] == ["4", str(4 * block), f"{4 * 4 * block * dim / 1e6:.3f}", str(4 * kv)]
    assert rows["partial: executed, then masked"][0] == "0" and rows["skipped"][0] == "12"
    assert rows["every block"][0] == "16" and rows["executed"][4] == "25.0%"
    said = page.locator("p:has-text('byte for byte')").inner_text()
    assert f"the lists say {4 * kv:,} bytes of K and V. The probes counted {4 * kv:,}: the same" in said


def mask(drawn):
    rows = tuple(tuple(int(c) for c in row.split(",") if c) for row in drawn.split(";"))
    return {"mask": "drawn", "causal": False, "seq_len": 256, "drawn": rows}


def test_wrong_blocks_are_refused_and_a_row_without_blocks_says_so(visit, server):
    page = visit(DRAW + "0;0,1;;3")
    field = page.locator('.wg .toolbar [data-name="drawn"]')
    field.fill("0;9")
    field.press("Enter")
    refused = page.locator(".wg .toolbar .refused:not([hidden])")
    expect(refused).to_contain_text("drawn row 1 holds block 9. These keys have blocks 0 to 3.")
    assert asked(page)["drawn"] == "0;0,1;;3" and count(page) == 4
    click(page, part="row", row=2)
    assert address(page)["at_tile"] == "2" and count(page) == 2
    assert "64 rows see no key" in sentence(page)
    press(page, "End")
    assert "O = 0 and lse = -inf" in sentence(page)
    expect(page).to_have_url(re.compile("step=2"))
    again = visit(page.url.removeprefix(server.url))
    assert read(again)["sentences"] == read(page)["sentences"]


def test_an_entry_is_gone_to_and_a_block_told_by_its_counts_and_bytes(visit):
    page = visit("/sparsity?backend=cpu")
    run = run_here(5, mask="sinks", window=192)
    walk, dense = mask_walk.explain(run, 326), run.request.problem.masks[0].dense()
    told = hover(page, "Mask and list", part="block", row=4, col=2)
    seen = int(dense[256:320, 128:192].sum())
    assert told.startswith(f"query block 4, key block 2: full, all {seen:,} pairs seen. 16,384 bytes")
    told = hover(page, "Mask and list", part="block", row=5, col=0)
    assert f"partial, {int(dense[320:, :64].sum()):,} of 4,096 pairs seen" in told
    assert "not loaded" in hover(page, "Mask and list", part="block", row=0, col=5)
    page.mouse.click(*point_at(page, "Mask and list", part="entry", number=3))
    assert step_of(page) == 4 and sentence(page) == walk.frames[4]["sentence"]
    page.mouse.click(*point_at(page, "Mask and list", part="block", row=5, col=2))
    assert step_of(page) == 2 and sentence(page) == walk.frames[2]["sentence"]


def test_drawing_begins_with_blocks_that_can_be_pressed_and_a_kernel_of_windows_takes_no_other_mask(visit):
    page = visit("/sparsity?backend=cpu")
    choose(page, "mask", "drawn")
    assert asked(page)["causal"] == "false" and asked(page)["drawn"].startswith("0;0,1;0,2")
    windows = next(n for n, s in KERNELS.items() if STORY.accepts(s) and not block_mask.has_lists(probed.sample(s)))
    choose(page, "kernel", windows)
    assert asked(page)["mask"] == "window" and count(page) > 2
    option = page.locator('.wg .toolbar [data-choice="mask=drawn"]')
    assert option.get_attribute("aria-disabled") == "true"
