"""Faults planted in a rung: the CPU shim names what waits and what is missing, or the numbers are off. What one order
of threads hides the other shows."""

import re

import numpy as np
import pytest

from kernels.build import Mode
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tolerance import max_abs_error
from kernels.errors import RunError
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute
from kernels.run.backends import cpu

PROBLEM = SixteenBitProblem(300, 64, num_heads=1)  # five tiles of keys through two stages
SMALL = (("BLOCK_Q", 64), ("BLOCK_KV", 64))
K_WAIT, V_WAIT = (f"      barrier_wait(&rings.{x}_full[stage], parity);\n" for x in "KV")
EXPECT, K_BOXES = "barrier_expect(&rings.K_full[stage], TILE * ", ");\n"
SET_UP = "      barrier_init_done();\n    }\n"
NAMED = {
    "missing wait for K": (K_WAIT, "", "barrier 2, .*it waits for bytes, 0 of 8192 came"),
    "missing wait for V": (V_WAIT, "", "barrier 4, .*it waits for bytes, 0 of 8192 came"),
    "a stage is written before it is free": (
        "  barrier_wait(&rings.K_free[stage], turn.parity ^ 1);\n",
        "",
        "deadlock: warpgroup 1 at barrier_wait of barrier 2",
    ),
    "a stage is never freed": (
        "      release(&rings.K_free[stage]);\n",
        "",
        "deadlock: .*thread 0 at barrier_wait of barrier 3",
    ),
    "bytes that never come": (EXPECT + "2" + K_BOXES, EXPECT + "4" + K_BOXES, "8192 of 16384 bytes are missing"),
    "missing __syncthreads": (SET_UP + "    __syncthreads();\n", SET_UP, "where no barrier was set up"),
}
WRONG = {
    "a product that is not waited for": ("stage * TILE * 2));\n      product_wait<0>();", "stage * TILE * 2));"),
    "a wrong stride": ("rows_operand(K_smem)", "operand(K_smem, 16, 512)"),
}


def made(variant, old, new):
    """o in both orders of threads, or what stopped the run."""
    spec = variant("10_warp_roles", old, new)
    found = []
    for backwards in (False, True):
        build, plan, arrays = execute.prepare(Request(spec, PROBLEM, SMALL), Mode.TIMED)
        try:
            cpu.launch(build, plan, arrays, Scope(), reversed_order=backwards)
            found.append(arrays["o"])
        except RunError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("fault", NAMED)
def test_what_is_missing_is_named(variant, fault):
    old, new, words = NAMED[fault]
    said = [out for out in made(variant, old, new) if isinstance(out, str)]
    assert any(re.search(words, out, re.DOTALL) for out in said), said


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_not_named_is_wrong(variant, fault):
    right = PROBLEM.truth()["o"]
    for out in made(variant, *WRONG[fault]):
        assert isinstance(out, str) or not max_abs_error(out.astype(np.float32), right) <= 0.01


def test_as_written_both_orders_give_the_same(variant):
    one, other = made(variant, "__syncthreads();", "__syncthreads( );")
    assert np.array_equal(one, other)
