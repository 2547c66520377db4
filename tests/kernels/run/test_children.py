"""Kernels that launch kernels: their order on the CPU, the check of each launch, and the link for a GPU."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from front import of_dense

from kernels import build
from kernels.build import Mode, nvrtc
from kernels.catalog import load_kernel
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, BuildError, RunError
from kernels.jail import setting
from kernels.run import execute
from kernels.run.backends import cpu, gpu_launches
from kernels.run.backends.gpu import BLOCK_TIME

KERNEL = of_dense("""
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
""")


THREADS = KERNEL.replace("if (threadIdx.x) return;\n  note", "if (threadIdx.x > 1) return;\n  if (!threadIdx.x) note")
for config, condition in (("dim3", "!threadIdx.x"), ("3", "threadIdx.x")):
    THREADS = THREADS.replace(f"note<<<{config}", f"if ({condition}) note<<<{config}")
"""The last child is the second thread's."""
DEFAULT = KERNEL.replace("dim3(32), 4, cudaStreamFireAndForget", "dim3(32), 4")
"""The second child is in the default stream."""


def request_of(tmp_path, text=KERNEL) -> Request:
    (tmp_path / "order.cu").write_text(text)
    spec = load_kernel(tmp_path / "order.cu")
    request = Request(spec, spec.problem_type(), backend="cpu")
    return replace(request, scope=Scope.everything(request.plan))


@pytest.mark.parametrize("text", [KERNEL, THREADS, DEFAULT])
def test_a_tail_launch_is_the_last_and_the_others_have_both_orders(tmp_path, text):
    request = request_of(tmp_path, text)
    for mode, reversed_order, turns in [(Mode.TIMED, False, [2, 0, 1]), (Mode.PROBED, True, [2, 1, 0])]:
        made, plan, arrays = execute.prepare(request, mode)
        room = [8] * len(plan.launches) if mode is Mode.PROBED else None
        raw = cpu.launch(made, plan, arrays, request.scope, room, reversed_order)
        assert arrays["o"].reshape(-1)[:3].tolist() == turns
    assert [int(r.counts.sum()) for r in raw] == [0, 3, 3, 3]  # a load and two stores of each child


def test_the_trace_has_each_child_under_its_launch_and_one_without_a_child_does_not_build(tmp_path):
    frame = execute.run(request_of(tmp_path)).trace.frame("launch", "block", "event", "offset")
    assert frame[(frame.event == "store") & (frame.launch > 0)].groupby("launch").size().tolist() == [2, 2, 2]
    assert np.array_equal(frame.launch.unique(), [1, 2, 3]) and not frame.block.any()
    text = KERNEL.replace("note<<<3", "other<<<3")
    for target in ("cpu", "sm_90a"):
        with pytest.raises(BuildError, match=r"order.cu line \d+: it launches other, and no launch of the opening"):
            request = request_of(tmp_path, text)
            build.build(request.kernel, request.defines, Mode.TIMED, target)


def test_a_launch_that_is_missing_unlisted_or_under_another_number_stops_a_run_with_its_line(tmp_path):
    wrong = request_of(tmp_path, KERNEL.replace("note<<<3, 32", "note<<<4, 32"))
    with pytest.raises(RunError, match=r"it launches note with a grid of \(4, 1, 1\).*the opening comment lists no"):
        execute.run(wrong)
    outside = request_of(tmp_path, KERNEL.replace("turn + 1);", "turn + 1);\n  ldg<int>(&turn_gmem[9]);"))
    with pytest.raises(RunError, match=r"its launch of note, block \(0, 0, 0\).*illegal address"):
        execute.run(outside)
    missing = request_of(tmp_path, KERNEL.replace("note<<<3", "if (!turn_gmem) note<<<3"))
    with pytest.raises(RunError, match=r"its end: it did not launch the child note with a grid of \(3, 1, 1\)"):
        execute.run(missing)
    swapped = KERNEL.replace("CHILD(1)", "CHILD(9)").replace("CHILD(2)", "CHILD(1)").replace("CHILD(9)", "CHILD(2)")
    with pytest.raises(RunError, match="PROBE_CHILD of another launch. .* number 1; at order.cu:31"):
        execute.run(request_of(tmp_path, swapped))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("turn + 1);", "turn + 1);\n  note<<<3, 32>>>(turn_gmem, O_gmem, 2);", "launches note outside of the body of"),
        ('#include "children.cuh"', '#include "children.cuh"\n#define L note<<<3, 32>>>', "a macro launches a kernel"),
    ],
)
def test_only_the_body_of_the_parent_launches_a_child(tmp_path, old, new, said):
    request = request_of(tmp_path, KERNEL.replace(old, new))
    with pytest.raises(BuildError, match=rf"order.cu line \d+: .*{said}"):
        build.build(request.kernel, request.defines, Mode.TIMED, "sm_90a")


def test_times_without_a_block_name_the_kernel():
    times = SimpleNamespace(get=lambda: np.zeros(2, BLOCK_TIME).view(np.uint8))
    with pytest.raises(RunError, match="No block of note ran. Does its parent launch each child"):
        gpu_launches._span(times, "note")


def test_relocatable_code_is_linked_with_the_device_runtime_and_never_for_a_stranger(tmp_path, monkeypatch):
    request = request_of(tmp_path)
    made = build.build(request.kernel, request.defines, Mode.PROBED, "sm_90a")
    assert "nvJitLink" in made.compiler and {fact.entry for fact in made.facts} == {"parent", "note"}
    monkeypatch.setattr(setting, "is_jailed", lambda _: True)  # the cache has the same text
    with pytest.raises(BuildError, match=r"order.cu launches kernels from a kernel. .* Choose the cpu backend."):
        build.build(request.kernel, request.defines, Mode.PROBED, "sm_90a")


def test_a_missing_linker_and_one_older_than_the_device_runtime_name_their_remedy(monkeypatch, tmp_path):
    def missing(*_):
        raise RuntimeError("not there")

    nvrtc.runtime.cache_clear()
    monkeypatch.setattr("cuda.pathfinder.find_static_lib", missing)
    monkeypatch.setattr(nvrtc, "_TOOLKIT", ())
    with pytest.raises(BackendUnavailable, match=r"libcudadevrt.a\) was not found. .* Choose the recorded backend"):
        nvrtc.runtime()
    nvrtc.runtime.cache_clear()
    # nvJitLink 12.8 ended the process with a signal.
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").write_text("#define CUDA_VERSION 13000\n")
    monkeypatch.setattr(nvrtc, "runtime", lambda: f"{tmp_path}/lib64/libcudadevrt.a")
    monkeypatch.setattr(nvrtc, "_nvjitlink", lambda: SimpleNamespace(version=lambda: (12, 8)))
    said = r"mine.cu does not link: nvJitLink 12.8 cannot link \S*libcudadevrt.a of CUDA 13 for sm_120. Set"
    with pytest.raises(BuildError, match=said):
        nvrtc.linked("mine.cu", "sm_120", b"")
    assert not nvrtc.misfit("sm_90a")
    monkeypatch.setattr(nvrtc, "_nvjitlink", lambda: SimpleNamespace(version=lambda: (13, 0)))
    assert not nvrtc.misfit("sm_120")
