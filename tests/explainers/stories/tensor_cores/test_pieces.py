"""Eight rows in the banks: the places are those of the trace, and the turns are the wavefronts of a matrix."""

import numpy as np
import pytest
from conftest import small_tiles

from explainers.stories.tensor_cores import pieces, product_questions, tensor_cores
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute


def story_of(name):
    spec, problem = KERNELS[name], SixteenBitProblem()
    chosen = spec.settings_for(problem, dict(small_tiles(name)))
    return tensor_cores.explain(execute.run(Request(spec, problem, tuple(chosen.items()), Scope(0))))


@pytest.mark.parametrize(("name", "own"), [("06_mma", "In order"), ("07_swizzle", "Swizzled")])
def test_the_own_order_is_the_trace_s_and_its_turns_are_the_wavefronts(name, own):
    story = story_of(name)
    (view,) = pieces.views(story)
    side = next(side for side in view.meta["sides"] if side["own"])
    assert side["title"] == own and sum(side["own"] for side in view.meta["sides"]) == 1
    first, k = story.products[0], story.matrices["K"]
    for r, row in enumerate(side["places"]):
        due = [int(k.byte[first.cols[0] - k.row0 + r, 8 * p]) % 128 // 16 for p in range(8)]
        assert row == due
    fetch = story.fetches[first.b]
    assert side["turns"] == fetch.wavefronts // fetch.ideal
    assert all(sorted(row) == list(range(8)) for other in view.meta["sides"] for row in other["places"])


def test_the_questions_on_banks_cover_their_answer_and_a_warpgroups_product_has_no_picture_of_them():
    asked = {q.id: q for q in product_questions.questions(story_of("06_mma"))}
    assert {asked["fetch"].view, asked["swizzle"].view} == {"pieces"}
    assert {"side": 1} in asked["fetch"].covers and {"turns": 1} in asked["fetch"].covers
    assert asked["swizzle"].covers == [{"side": 1}]
    story = story_of("09_wgmma")
    assert pieces.views(story) == [] and np.all([p.b < 0 for p in story.products])
