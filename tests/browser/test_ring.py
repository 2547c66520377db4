"""The page Ring in a real Chromium: the merge of one query, read off the picture, is that of float64."""

import re

import numpy as np
import pytest
from browser.stepping import go_to, hover, press
from pages import open_page

from kernels.families.ring.problem import RingProblem

LINK = "ring?kernel=ring_attention&gpus=2&seq_len=32&order=plain"
PROBLEM = RingProblem(32, gpus=2, order="plain")
PARTS = ("before", "this part", "after")


def test_both_parts_of_a_merge_add_up_to_the_softmax_of_all_keys(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    step = max(n for n, frame in enumerate(made.frames) if frame["title"].endswith("merge"))
    query = int(re.search(r"Query (\d+)", made.frames[step]["sentence"])[1])
    go_to(page, step)

    def value(figure, column):
        said = hover(page, "The ring", merge=1, figure=figure, column=column)
        return float(re.match(rf"{figure}, {column}: (-?[\d.e-]+)", said)[1])

    m_a, m_b, m = (value("m", part) for part in PARTS)
    by = [value("factor", part) for part in PARTS[:2]]
    l_a, l_b, l = (value("l", part) for part in PARTS)
    assert m == max(m_a, m_b) and by == pytest.approx([np.exp(m_a - m), np.exp(m_b - m)], rel=1e-4)
    assert l == pytest.approx(l_a * by[0] + l_b * by[1], rel=1e-4)
    q, k, v = (PROBLEM.whole.inputs()[name][0, 0].astype(np.float64) for name in "qkv")
    weights = np.exp(k[: query + 1] @ q[query] / 8 - m)
    assert l == pytest.approx(weights.sum(), rel=1e-3)
    for dim in (0, 3):
        assert value(f"O {dim}", "after") == pytest.approx(weights @ v[: query + 1, dim], abs=4e-3)  # of 16 bits
    press(page, "2")
    said = hover(page, "Work and waiting", order="plain", gpu=0, round=1)
    assert f"0 pairs, waits for {16 * 16:,}" in said
