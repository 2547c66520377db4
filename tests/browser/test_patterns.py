"""Patterns in a real Chromium: the page's cycles, wavefronts in turn and barriers, computed again."""

import re

import numpy as np
import pandas as pd
from browser.stepping import hover, press, sentence

from kernels.recordings import tables

FIGURES = r"([\d,]+) wavefronts? in turn, (\d+) shuffles?, (\d+) barriers?, (\d+) adds? in L2, ([\d,]+) cycles"


def shown(page, way):
    said = hover(page, "One way after another", way=way)
    return [int(text.replace(",", "")) for text in re.search(FIGURES, said).groups()]


def test_a_tree_without_conflicts_needs_a_wavefront_for_each_warp_and_access(visit):
    page = visit("/patterns?backend=cpu")
    adders = [2**n for n in range(7, -1, -1)]  # threads of each step
    chain, shuffles, barriers, adds, cycles = shown(page, "Tree, no conflicts")
    assert barriers == len(adders) and not shuffles and not adds
    assert chain == 3 * len(adders)  # two reads and a write of a warp in each step
    (table, _), *_ = tables.recorded("patterns").values()
    row = table[(table.settings == "TREE=2") & table.problem.str.startswith("numbers=256 ")].iloc[0]
    assert cycles == round(np.median(pd.to_numeric(row.medians.split())))
    for _ in adders[1:]:
        press(page, "ArrowRight")
    assert "No two words share a bank, so an access takes one wavefront. The sum is complete" in sentence(page)
