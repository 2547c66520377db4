"""grid.sync() of several blocks on the CPU: values, order between blocks, and a block that never comes."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from front import of_roles

from explainers.stories.bank_conflicts import bank_walk
from explainers.stories.coalescing import sector_walk
from kernels.build import Mode, build
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.run.plain import launches
from kernels.trace.memory import traced


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


# ---- the table of findings: faults come before harmless races, and a full table is a fault ----

MANY = of_roles("""
[[launches]]
entry = "many"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]
*/
__global__ void many(const float* x, float* o, int tiles) {
  __shared__ float same[3], word[64];
  same[0] = 1.f;
  same[1] = 1.f;
  same[2] = 1.f;
  word[threadIdx.x] = threadIdx.x;
  o[threadIdx.x] = word[63 - threadIdx.x];
}
""")


@pytest.mark.parametrize("room", [1 << 14, 2])
def test_a_real_race_comes_before_harmless_ones(tmp_path, monkeypatch, room):
    monkeypatch.setattr(launches, "FINDINGS", room)
    path = tmp_path / "many.cu"
    path.write_text(MANY)
    kernel = load_kernel(path)
    request = Request(kernel, sample(kernel).problem, (), Scope(), "cpu")
    built, plan, _ = execute.prepare(request, Mode.PROBED)
    found = launches.launch(built, plan, execute.start_arrays(request), Scope(), [1 << 12], False).faults
    assert ("race", "error", "word") in [(fault.kind, fault.level, fault.tensor) for fault in found]
    full = [fault.level for fault in found if fault.kind == "too many findings"]
    assert full == (["error"] if room == 2 else [])


# ---- accesses of Coalescing and Banks: each once, and atomics among them ----

FLOAT4 = Path(__file__).parent / "tutorials" / "t10_float4_ldg.cu"
ATOMICS = of_roles("""
[[launches]]
entry = "counts"
grid = [1]
block = [32]
args = ["x", "o", "int32 tiles"]
*/
__global__ void counts(const float* x, float* o, int tiles) {
  __shared__ int bins[4];
  if (threadIdx.x < 4) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[threadIdx.x % 4], 1);
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(&o[threadIdx.x * 8], (float)bins[threadIdx.x]);
}
""")


def _run(path):
    kernel = load_kernel(path)
    shown = sample(kernel)
    return execute.run(Request(kernel, shown.problem, tuple(kernel.settings(shown.settings).items()), Scope(), "cpu"))


def test_atomics_are_requests_with_their_name(tmp_path):
    path = tmp_path / "counts.cu"
    path.write_text(ATOMICS)
    run = _run(path)
    table = traced.requests(run.trace).costs
    atomics = table[table.kind == "atomic"].set_index("space")
    assert dict(atomics.active) == {"shared": 32, "global": 4}
    assert atomics.loc["shared", "wavefronts"] == 8  # eight lanes take turns at each of four words
    assert atomics.loc["global", "sectors"] == 4
    said = [frame["sentence"] for frame in sector_walk.explain(run).frames]
    assert any(one.startswith("The 4 lanes update 16 bytes of o by an atomic.") for one in said)
    said = [frame["sentence"] for frame in bank_walk.explain([run]).frames]
    assert any(
        "Each lane updates 4 bytes of bins by an atomic. Lanes with the same word take turns." in one for one in said
    )


def test_a_load_of_sixteen_bytes_counts_once():
    frame = _run(FLOAT4).trace.frame("line", "event", "lane", "warp", "bytes", "offset")
    line = 1 + FLOAT4.read_text().partition("query[i] = __ldg")[0].count("\n")
    loads = frame[(frame.line == line) & (frame.event == "load")]
    assert set(loads.bytes) == {16}
    assert not loads.duplicated(["warp", "lane", "offset"]).any()
