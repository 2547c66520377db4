"""grid.sync() of several blocks on the CPU: values, order between blocks, and a block that never comes."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from kernels.build import Mode, build
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.run.plain import launches


@lru_cache
def _prepared():
    kernel = load_kernel(Path(__file__).parent / "planted" / "grids.cu")
    request = Request(kernel, sample(kernel).problem, (), Scope(), "cpu")
    return request, *execute.prepare(request, Mode.PROBED)[:2]


def _launched(entry, reversed_order):
    request, built, plan = _prepared()
    arrays = execute.start_arrays(request)
    step = tuple(step for step in plan.launches if step.entry == entry)
    found = launches.launch(built, replace(plan, launches=step), arrays, Scope(), [1 << 12], reversed_order)
    return found, arrays["x"].ravel(), arrays["o"].ravel()[:64]


@pytest.mark.parametrize("reversed_order", [False, True])
def test_blocks_go_on_together_race_without_the_barrier_and_a_pipeline_brings_its_stages_in_order(reversed_order):
    found, x, o = _launched("neighbours", reversed_order)
    assert not found.stopped and not found.faults
    blocks = x[:64].reshape(4, 16)
    np.testing.assert_array_equal(o.reshape(4, 16), np.roll(blocks, -1, 0) + blocks[:, ::-1] + 2 * blocks)
    found, _, _ = _launched("no_barrier", reversed_order)
    assert {fault.kind for fault in found.faults} >= {"block race"}
    found, x, o = _launched("block_pipeline", reversed_order)
    assert not found.stopped and not found.faults
    np.testing.assert_allclose(o, x[:128].reshape(2, 64).sum(0)[::-1], rtol=1e-6)


def test_a_block_that_leaves_before_the_barrier_is_a_deadlock():
    found, _, _ = _launched("one_leaves", False)
    assert "3 of 4 blocks wait at grid.sync(), and the others have left" in str(found.stopped)
    assert [fault.kind for fault in found.faults] == ["deadlock"]


@pytest.mark.slow
def test_nvrtc_compiles_the_grids():
    request, _, _ = _prepared()
    assert len(build(request.kernel, request.defines, Mode.TIMED, "sm_90a").facts) == 4
