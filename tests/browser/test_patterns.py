"""Patterns in a real Chromium: the page's cycles, wavefronts, chains and barriers, computed again."""

import re
from math import ceil

import numpy as np
import pandas as pd
from browser.stepping import press, read
from playwright.sync_api import expect

from kernels.recordings import tables

FIGURES = r"{}: ([\d,]+) wavefronts?, (\d+) in a chain, (\d+) barriers?, ([\d,]+) cycles"


def shown(page, way):
    label = page.locator(".wg .picture canvas").first.get_attribute("aria-label")
    return [int(text.replace(",", "")) for text in re.search(FIGURES.format(way), label).groups()]


def test_a_tree_without_conflicts_needs_a_wavefront_for_each_warp_and_access(visit):
    page = visit("/patterns?backend=cpu")
    adders = [2**n for n in range(7, -1, -1)]  # threads of each step
    waves, chain, barriers, cycles = shown(page, "Tree, no conflicts")
    assert waves == 3 * sum(ceil(n / 32) for n in adders) and barriers == len(adders)  # two reads and a write
    assert chain == 3 * len(adders)  # no warp has more than three wavefronts in a step
    (table, _), *_ = tables.recorded("patterns").values()
    row = table[(table.settings == "TREE=2") & table.problem.str.startswith("numbers=256 ")].iloc[0]
    assert cycles == round(np.median(pd.to_numeric(row.medians.split())))
    total = shown(page, "Tree, divergent")[0]
    page.locator(".wg .guide-button").click()
    canvas = page.locator(".wg .picture canvas").first
    expect(canvas).not_to_have_attribute("aria-label", re.compile("bfloat16|cycles"))  # the question asks for them
    page.locator(".wg .guide-button").click()
    for _ in adders[1:]:
        press(page, "ArrowRight")
    assert dict(read(page)["state"])["wavefronts so far"] == f"{total} of {total}"
