"""What only a GPU can show of times: pytest -m gpu. None is compared with another here."""

import pytest

from kernels import catalog
from kernels.core.request import Request
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import (
    bench_rows,
    duels,
    hierarchy,
    meeting,
    peers,
    pipeline_bars,
    pipelines,
    protocol,
    sweeps,
    timelines,
)
from kernels.measure.protocol import Point

pytestmark = pytest.mark.gpu
ZEROED = """/*
title = "Adds"
idea = "every row of O is added to, one block after another; right only if O begins at zero in every run."
changed = "nothing."
costs = "nothing."
limits = "nothing."
source = "none"
family = "dense"

[scratch.sum]
shape = ["batch", "num_heads", "seq_len", "head_dim"]
axes = ["batch", "head", "query", "dim"]
initial = "zero"

[[launches]]
entry = "add"
grid = ["batch * num_heads"]
block = [128]
args = ["q", "k", "v", "o", "sum", "int32 seq_len", "int32 causal", "float32 scale"]
item = "head"
*/
"""


@pytest.mark.parametrize("name", catalog.KERNELS)
def test_every_kernel_gets_a_time_after_its_output_passed(name):
    (point,) = sweeps.points([name])
    made = protocol.measure(point)
    assert made.status == "ok", made.reason
    assert 0 < made.p10_us <= made.median_us <= made.p90_us and made.runs >= protocol.LEAST_RUNS
    assert made.error.ok and made.code_hash == point.kernel.code_hash
    assert 0 < made.sustained.p10_us <= made.sustained.median_us <= made.sustained.p90_us
    assert made.peak_bytes >= sum(tensor.nbytes for tensor in point.kernel.plan(point.problem, point.settings).tensors)
    row = bench_rows.row(made, protocol.roofs())
    assert row["status"] == "ok" and (row["gb_per_s"] is None) == (point.problem.work is None)


@pytest.mark.parametrize("constant", ["RESCALE", "SUBTRACT_MAX"])
def test_a_what_if_build_gets_no_time(constant):
    (point,) = sweeps.points(["08b_three_bfloat16"], [], [(constant, "0"), ("score_scale", "30")])
    made = protocol.measure(point)
    assert made.status == "wrong" and made.median_us is None
    assert "It is built broken on purpose" in made.reason and "A wrong kernel gets no time." in made.reason


def test_peers_are_timed_or_say_why_they_cannot():
    points = sweeps.points(["03_flash"], [("seq_len", ["300"])], with_peers=True)
    made = {p.name: protocol.measure(p) for p in points if p.is_peer}
    # FlexAttention is asked where there is a mask, and the unfused products in 16 bits
    assert set(made) == set(peers.PEERS) - {peers.FLEX, peers.UNFUSED}
    assert made["sdpa_efficient"].status == "ok"  # it is torch's own choice in fp32, and so the yardstick
    assert made["sdpa_math"].status in ("ok", "wrong")  # which it may miss by more than is allowed, as at seq_len 512
    for name in ("sdpa_flash", "sdpa_cudnn"):
        assert made[name].status == "unavailable" and f"torch says of {name}" in made[name].reason
    points = sweeps.points(["paged_v1"], [("batch", ["2"])], with_peers=True)
    assert {p.name: protocol.measure(p).status for p in points if p.is_peer}["sdpa_flash"] == "ok"


def test_a_duel_has_both_states_of_both_sides():
    problem = SixteenBitProblem(1024, 128, num_heads=16)
    kernels = [(name, catalog.KERNELS[name].settings_for(problem)) for name in duels.names()]
    for row in meeting.meet(problem, kernels):
        assert (row["status"], row["peer_status"]) == ("ok", "ok"), row["reason"]
        assert row["ratio"] > 0 and row["sustained_ratio"] > 0 and row["output_error"] <= row["output_allowed"]
        assert row["sustained_clock"] and row["sustained_peer_power"]  # NVML is one of the requirements


def test_what_is_too_large_is_skipped_before_it_is_allocated():
    held = [("seq_len", "16384"), ("batch", "64"), ("num_heads", "64"), ("head_dim", "128")]
    (point,) = sweeps.points(["01_naive"], [], held)
    made = protocol.measure(point)
    assert made.status == "skipped" and "Choose a smaller seq_len" in made.reason


def test_a_tensor_that_begins_at_zero_is_zero_in_every_timed_run(tmp_path):
    """A kernel that adds to its scratch would give another O in the second run, and the timed runs are hundreds."""
    spec = catalog.KERNELS["03_flash"]
    body = """#include "common.cuh"
#include "probe.cuh"
extern "C" __global__ void add(const float* q_gmem, const float* k_gmem, const float* v_gmem, float* o_gmem,
                               float* sum_gmem, int seq_len, int causal, float scale PROBE_PARAM) {
  const long base = (long)blockIdx.x * seq_len * HEAD_DIM;
  for (int i = threadIdx.x; i < seq_len * HEAD_DIM; i += blockDim.x) {
    sum_gmem[base + i] += v_gmem[base + i];
    o_gmem[base + i] = sum_gmem[base + i];
  }
}
"""
    path = tmp_path / "adds.cu"
    path.write_text(ZEROED + body)
    problem = spec.problem_type(seq_len=1, head_dim=64)  # one key: O is V
    point = Point(str(path), problem)
    request = Request(point.kernel, problem, backend="gpu")
    made = protocol.Kernel(request, problem.inputs())
    first = made.first_run()["o"]
    for enqueue in made.copies(2) * 3:
        enqueue()
    assert (made.first_run()["o"] == first).all() and (first == problem.inputs()["v"]).all()
    assert protocol.measure(point).status == "ok"


def test_a_row_of_the_hierarchy_and_a_walk_are_measured():
    latency, bandwidth = (next(p for p in hierarchy.sweep(4) if p.kind == kind) for kind in ("latency", "bandwidth"))
    assert hierarchy.point(latency)["cycles"] > 0 and hierarchy.point(bandwidth)["gb_per_s"] > 0
    row = hierarchy.cycles_point(*hierarchy.cycles_sweep()[0])
    assert row["cycles"] >= row["wavefronts"] - 0.01


@pytest.mark.parametrize("request_", timelines.RECORDINGS.asked()[:3], ids=lambda r: r.kernel.name)
def test_a_timeline_holds_every_block(request_):
    made = timelines.timeline(request_)
    assert len(made.table) + made.left == sum(launch.blocks for launch in request_.plan.launches)
    assert (made.table.end_ns >= made.table.start_ns).all() and made.table.start_ns.min() == 0


@pytest.mark.parametrize("name", ["03_flash", "08_pipeline", "09_wgmma", "11_overlap", "12_optimistic", "paged_v2"])
def test_when_the_steps_of_each_writer_began(name):
    spec = catalog.KERNELS[name]
    request = Request(spec, spec.problem_type(), backend="gpu")
    made = pipelines.pipeline(request)
    whole = made.writers.end_ns.max()
    assert 200 < made.mhz < 4000 and 0 <= made.residual_ns < 5000
    assert made.lost == 0 and made.marks_ms > 0 and made.timed_ms > 0
    for block in sorted(made.writers.block.unique())[:3]:
        shown = pipeline_bars.bars(made, int(block))
        assert (shown.end_ns >= shown.start_ns).all() and shown.end_ns.max() <= whole + made.residual_ns
        fed = pipeline_bars.fed(made, int(block))
        assert 0 < fed <= 1 if spec.tensor_products else fed is None
    print(pipeline_bars.sentence(made))
