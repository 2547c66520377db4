"""Tensor cores in a real Chromium: owners, ways and sums read off the page are those of the run's own trace."""

import numpy as np
import pytest
from browser.stepping import count, go_to, hover, sentence, step_of
from pages import page_of

from app.choices.links import read_link
from explainers.stories.tensor_cores import fragments
from kernels.run import execute


def click(page, **what):
    at = page.evaluate("what => window.clock.where('One product', what)", what)
    page.mouse.click(at["x"], at["y"])
    page.mouse.move(1, 1)
    return page.locator(".wg .pin.words").first.inner_text()


@pytest.mark.parametrize("kernel", ["07_swizzle", pytest.param("09_wgmma", marks=pytest.mark.slow)])
def test_owners_ways_and_sums_are_those_of_the_trace(visit, kernel):
    page = visit(f"/tensor_cores?kernel={kernel}&backend=cpu")
    state, _ = read_link(page_of("tensor_cores"), {"kernel": kernel})
    story = fragments.explain(execute.run(page_of("tensor_cores").request_of(state)))
    assert count(page) == len(story.steps)
    last = max(n for n, product in enumerate(story.shown) if product.c == "S")  # of the first tile
    go_to(page, last)
    assert step_of(page) == last and sentence(page) == story.frames[last]["sentence"]
    product, s, k = story.shown[last], story.matrices["S"], story.matrices["K"]
    i, j = 3, 6
    row, col = product.rows[0] + i, product.cols[0] + j
    said = click(page, part="C", i=i, j=j)
    at = row - s.row0, col - s.col0
    assert said.startswith(f"S[{row}, {col}]: ")
    assert f"lane {s.lane[at] % 32}" in said and f"register c{s.register[at]}" in said
    due = np.format_float_positional(s.value[at], unique=True)
    tip = hover(page, "One product", part="C", i=i, j=j).replace("\n", " ")
    assert f"the score {due}; the kernel logged {due}, " in tip  # added up here, and as the trace has it
    assert "the sum in float64 (derived)" in tip
    assert f"the score {due}; the kernel logged {due}" in said
    way = click(page, part="B", i=5, j=j)
    dim = product.k[0] + 5
    byte = int(k.byte[col - k.row0, dim - k.col0])
    assert way.startswith(f"K[{col}, {dim}] = ") and f"byte {byte:,}, bank {byte // 4 % 32} " in way
    if kernel == "07_swizzle":
        assert f"lane {k.lane[col - k.row0, dim]}, register b{k.register[col - k.row0, dim]}" in way


def test_the_what_if_without_the_swizzle_costs_eight_times_the_wavefronts(visit):
    page = visit("/tensor_cores?kernel=07_swizzle&what_if=SWIZZLE&backend=cpu")
    assert "32 wavefronts, 4 at best" in page.locator(".wg .strip").first.inner_text()
    page = visit("/tensor_cores?kernel=07_swizzle&backend=cpu")
    assert "4 wavefronts, 4 at best" in page.locator(".wg .strip").first.inner_text()
