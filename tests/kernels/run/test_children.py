"""Kernels that launch kernels: their order on the CPU, the check of each launch, and the link for a GPU."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import build
from kernels.build import Mode, linking
from kernels.catalog import load_kernel
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, BuildError, RunError
from kernels.run import execute
from kernels.run.backends import cpu

KERNEL = """/*
title = "Order"
idea = "each child notes its turn."
changed = "nothing, it is a test."
costs = "little."
limits = "none."
source = "this test."
family = "dense"
scratch.turn = {dtype = "int32", initial = "zero", shape = [1], axes = ["one"]}
launches = [
  {entry = "parent", grid = [1], block = [32], args = ["turn", "o"], children = ["note"]},
  {entry = "note", grid = ["1 + n"], block = [32], shared_bytes = 4, repeat = {n = 3}}]
*/
#include "children.cuh"
// Slot n gets the number of the grids before it
extern "C" __global__ void note(int* turn_gmem, float* O_gmem, int n PROBE_PARAM) {
  PROBE_BEGIN();
  if (threadIdx.x || blockIdx.x) return;
  PROBE_LOAD(turn_gmem, 0, 4);
  const int turn = ldg<int>(&turn_gmem[0]);
  PROBE_STORE(O_gmem, n, 4);
  stg<float>(&O_gmem[n], turn);
  PROBE_STORE(turn_gmem, 0, 4);
  stg<int>(&turn_gmem[0], turn + 1);
}
extern "C" __global__ void parent(int* turn_gmem, float* O_gmem PROBE_PARAM PROBE_CHILDREN) {
  PROBE_BEGIN();
  if (threadIdx.x) return;
  note<<<1, 32, 4, cudaStreamTailLaunch>>>(turn_gmem, O_gmem, 0 PROBE_CHILD(0));
  note<<<dim3(2), dim3(32), 4, cudaStreamFireAndForget>>>(turn_gmem, O_gmem, 1 PROBE_CHILD(1));
  note<<<3, 32, 4, cudaStreamFireAndForget>>>(turn_gmem, O_gmem, 2 PROBE_CHILD(2));
}
"""


def request_of(tmp_path, text=KERNEL) -> Request:
    (tmp_path / "order.cu").write_text(text)
    spec = load_kernel(tmp_path / "order.cu")
    request = Request(spec, spec.problem_type(), backend="cpu")
    return replace(request, scope=Scope.everything(request.plan))


@pytest.mark.parametrize(("reversed_order", "turns"), [(False, [2, 0, 1]), (True, [2, 1, 0])])
def test_a_tail_launch_is_the_last_and_the_others_have_both_orders(tmp_path, reversed_order, turns):
    request = request_of(tmp_path)
    for mode in (Mode.TIMED, Mode.PROBED):
        made, plan, arrays = execute.prepare(request, mode)
        room = [8] * len(plan.launches) if mode is Mode.PROBED else None
        raw = cpu.launch(made, plan, arrays, request.scope, room, reversed_order)
        assert arrays["o"].reshape(-1)[:3].tolist() == turns
    assert [int(r.counts.sum()) for r in raw] == [0, 3, 3, 3]  # a load and two stores of each child


def test_the_trace_has_each_child_under_its_own_launch(tmp_path):
    frame = execute.run(request_of(tmp_path)).trace.frame("launch", "block", "event", "offset")
    assert frame[(frame.event == "store") & (frame.launch > 0)].groupby("launch").size().tolist() == [2, 2, 2]
    assert np.array_equal(frame.launch.unique(), [1, 2, 3]) and not frame.block.any()


def test_a_launch_that_the_comment_does_not_list_stops_with_its_line(tmp_path):
    wrong = request_of(tmp_path, KERNEL.replace("note<<<3, 32", "note<<<4, 32"))
    with pytest.raises(RunError, match=r"it launches note with a grid of \(4, 1, 1\).*the opening comment lists no"):
        execute.run(wrong)
    outside = request_of(tmp_path, KERNEL.replace("turn + 1);", "turn + 1);\n  ldg<int>(&turn_gmem[9]);"))
    with pytest.raises(RunError, match=r"its launch of note, block \(0, 0, 0\).*illegal address"):
        execute.run(outside)


def test_a_launch_without_a_child_in_the_comment_does_not_build(tmp_path):
    text = KERNEL.replace("note<<<3", "other<<<3")
    for target in ("cpu", "sm_90a"):
        with pytest.raises(BuildError, match=r"order.cu line \d+: it launches other, and no launch of the opening"):
            request = request_of(tmp_path, text)
            build.build(request.kernel, request.defines, Mode.TIMED, target)


def test_relocatable_code_is_linked_with_the_device_runtime_without_a_gpu(tmp_path):
    request = request_of(tmp_path)
    made = build.build(request.kernel, request.defines, Mode.PROBED, "sm_90a")
    assert "nvJitLink" in made.compiler and {fact.entry for fact in made.facts} == {"parent", "note"}


def test_a_missing_linker_or_device_runtime_names_its_remedy(monkeypatch):
    def missing(*_):
        raise RuntimeError("not there")

    linking.runtime.cache_clear()
    monkeypatch.setattr("cuda.pathfinder.find_static_lib", missing)
    monkeypatch.setattr(linking, "_TOOLKIT", ())
    with pytest.raises(BackendUnavailable, match=r"libcudadevrt.a\) was not found. Install the wheel .* or choose"):
        linking.runtime()
    linking.runtime.cache_clear()
