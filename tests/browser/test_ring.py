"""The page Ring in a real Chromium: the merge of one query, read off the picture, is that of float64."""

import re

import numpy as np
import pytest
from browser.stepping import go_to, hover, press
from pages import open_page

from kernels.families.ring.problem import RingProblem

LINK = "ring?kernel=ring_attention&gpus=2&seq_len=32&order=plain"
PROBLEM = RingProblem(32, gpus=2, order="plain")


def numbers(said, *names):
    """The number after each name in a tip."""
    return [float(re.search(rf"\b{name} (-?[\d.e-]+)", said)[1]) for name in names]


def test_both_parts_of_a_merge_add_up_to_the_softmax_of_all_keys(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    meta = made.views[0]["meta"]
    step = max(n for n, frame in enumerate(made.frames) if frame["kind"] == "merge")
    place = meta["place"]
    go_to(page, step)
    (m_a, l_a, by_a), (m_b, l_b, by_b) = (
        numbers(hover(page, "GPUs", merge=part), "m", "l", "factor") for part in range(2)
    )
    m, l = numbers(hover(page, "GPUs", merge=2), "m", "l")
    assert m == max(m_a, m_b)
    assert (by_a, by_b) == pytest.approx((np.exp(m_a - m), np.exp(m_b - m)), rel=1e-4)
    assert l == pytest.approx(l_a * by_a + l_b * by_b, rel=1e-4)
    q, k, v = (PROBLEM.whole.inputs()[name][0, 0].astype(np.float64) for name in "qkv")
    weights = np.exp(k[: place + 1] @ q[place] / 8 - m)
    assert l == pytest.approx(weights.sum(), rel=1e-3)
    for dim in (0, 9):
        (o,) = numbers(hover(page, "GPUs", o=2, dim=dim).replace(":", ""), f"dim {dim}")
        assert o == pytest.approx(weights @ v[: place + 1, dim], abs=4e-3)  # weights of 16 bits
    half = meta["size"]
    press(page, "2")
    said = hover(page, "Work", order="plain", gpu=0, step=1)
    assert f"0 pairs, waits for {half * half:,}" in said
