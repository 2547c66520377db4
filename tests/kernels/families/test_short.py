"""Query tiles one after another in a block: every tile is done once, in both orders of threads, within the rule."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.build import Mode
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tolerance import worst
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute
from kernels.run.backends import cpu

# 144 and 280 query tiles for at most 114 blocks, with rows past the last tile, and both layouts
PROBLEM = SixteenBitProblem(150, 64, 2, 36, True, num_kv_heads=4)
WIDE = replace(PROBLEM, seq_len=130, head_dim=128, num_heads=35, num_kv_heads=5, dtype="bfloat16", layout="bshd")
FEW = {"MULTIPROCESSORS": 114}


def outputs(name, problem, settings, backwards):
    spec = KERNELS[name]
    request = Request(spec, problem, tuple(spec.settings_for(problem, {**FEW, **settings}).items()))
    built, plan, arrays = execute.prepare(request, Mode.TIMED)
    cpu.launch(built, plan, arrays, Scope(), reversed_order=backwards)
    errors = execute.judge(execute.largest_errors(problem, arrays), execute.yardstick(request), problem)
    assert worst(errors).ok, worst(errors)
    return arrays["o"], arrays["lse"]


@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (PROBLEM, {}),
        (PROBLEM, {"OPTIMISTIC": 1, "NEAR": 8, "LAST": 2, "BLOCK_KV": 64}),
        (WIDE, {"NEAR": 1, "LAST": 0}),
        (replace(WIDE, causal=False, seq_len_kv=300), {"OPTIMISTIC": 1}),
    ],
    ids=["D 64", "D 64, optimistic", "D 128", "D 128, full"],
)
def test_a_block_with_several_query_tiles_has_the_same_numbers_in_both_orders(problem, settings):
    forward, backward = (outputs("13_short", problem, settings, backwards) for backwards in (False, True))
    assert all(np.array_equal(one, other) for one, other in zip(forward, backward))


def test_12_ends_where_a_number_is_past_the_last_query_tile_of_whole_groups():
    """A division by no heads ended the program on a CPU."""
    outputs("12_optimistic", SixteenBitProblem(64, 64, num_heads=120, causal=True), {}, False)
