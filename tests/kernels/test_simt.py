"""The CPU shim: it gives what the GPU gives, and stops with a message where the GPU would hang, read wrongly or be undefined."""

import numpy as np
import pytest
from faulty import spec

from kernels import build
from kernels.backends import cpu
from kernels.build import Mode
from kernels.catalog import KERNELS, defines
from kernels.errors import RunError
from kernels.execute import Request, Scope, run
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(seq_len=50, heads=1)


def outputs(kernel, problem=PROBLEM, reversed_order=False):
    settings = kernel.settings()
    plan = kernel.plan(problem, settings)
    arrays = problem.inputs() | {name: np.full(shape, np.nan, np.float32) for name, shape in plan.written.items()}
    cpu.launch(build.build(kernel, defines(problem, settings), Mode.TIMED, "cpu"), plan, arrays, Scope(), reversed_order=reversed_order)
    return arrays["o"]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("causal", [False, True])
def test_reversed_lane_order_gives_the_same_output(kernel, causal):
    problem = AttentionProblem(seq_len=50, heads=2, causal=causal)
    forward = outputs(kernel, problem)
    assert np.isfinite(forward).all()
    assert np.array_equal(forward, outputs(kernel, problem, reversed_order=True))


@pytest.mark.parametrize("which", range(3))
def test_a_removed_syncthreads_changes_the_output(variant, which):
    source = KERNELS["03_flash"].source
    racy = variant("03_flash", source, _without_barrier(source, which))
    forward, backward = outputs(racy), outputs(racy, reversed_order=True)
    assert not np.array_equal(forward, backward, equal_nan=True) or not np.array_equal(forward, outputs(KERNELS["03_flash"]))


def _without_barrier(source, which):
    parts = source.split("__syncthreads();")
    assert len(parts) == 4
    return "__syncthreads();".join(parts[:which + 1]) + ";" + "__syncthreads();".join(parts[which + 1:])


@pytest.mark.parametrize(("name", "message"), [
    ("illegal", r"illegal address: a global store of 4 bytes outside every buffer"),
    ("deadlock", r"deadlock: 32 of 64 threads wait at __syncthreads"),
    ("lying", r"a store of 4 bytes at .* has no probe before it that says so"),
    ("uninitialised", r"illegal address: a shared load of 4 bytes at offset 0; the block has 0 bytes"),
])
def test_a_faulty_kernel_is_stopped_with_block_thread_and_reason(name, message):
    with pytest.raises(RunError, match=rf"broken was stopped on the CPU at block \(0, 0, 0\).*{message}"):
        run(Request(spec(name), PROBLEM))
