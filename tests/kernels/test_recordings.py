"""The committed recordings: of the present sources, honest about where they are from, and equal to what the CPU executes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kernels import execute
from kernels.backends import recorded
from kernels.catalog import KERNELS
from kernels.errors import ProblemError
from kernels.execute import Request, Scope
from kernels.problem import AttentionProblem

RECORDINGS = {folder.name: entry for folder, entry in recorded.index().items()}


def request_of(entry, scope=None):
    spec = KERNELS[entry["kernel"]]
    return Request(spec, spec.problem_type(**entry["problem"]), tuple(entry["settings"].items()), scope or Scope(**entry["scope"]), "recorded")


def test_every_kernel_is_recorded_on_a_named_gpu_from_its_present_source():
    for spec in KERNELS.values():
        mine = [e for e in RECORDINGS.values() if e["kernel"] == spec.name and e["source_hash"] == spec.source_hash]
        assert mine, f"{spec.name} has no recording of its present source: run python -m kernels record on a GPU"
        assert all("NVIDIA" in e["device"] and e["driver"] and e["date"] and "NVRTC" in e["compiler"] for e in mine)


@pytest.mark.parametrize("name", RECORDINGS)
def test_gpu_and_cpu_traces_have_the_same_events_keys_lines_offsets_and_bytes_and_values_within_1e5(name):
    request = request_of(RECORDINGS[name])
    close = 1e-3 if request.broken else 1e-5  # a what-if build sums numbers of 1e20 that cancel, and tensor cores cut off what they add
    gpu, cpu = recorded.load(request), execute.run(replace(request, backend="cpu"))
    assert gpu.trace.lost == cpu.trace.lost == 0
    assert gpu.trace.table.column_names == cpu.trace.table.column_names
    for column in gpu.trace.table.column_names:
        a, b = gpu.trace.table[column].combine_chunks(), cpu.trace.table[column].combine_chunks()
        if column == "value":
            a, b = (x.fill_null(0).to_numpy() for x in (a, b))
            assert np.allclose(a, b, rtol=close, atol=1e-5, equal_nan=True)
        else:
            assert a.equals(b) or a.to_pylist() == b.to_pylist(), column
    for name in request.problem.outputs:
        assert np.allclose(gpu.arrays[name], cpu.arrays[name], rtol=close, atol=1e-5, equal_nan=True)
    traffic = recorded.load_traffic(request)
    assert traffic.table.equals(execute.traffic(replace(request, backend="cpu")).table)


def test_a_recording_is_cut_to_the_query_tile_asked_for(cpu_run):
    run = execute.run(Request(KERNELS["01_naive"], AttentionProblem(), scope=Scope(2), backend="recorded"))
    assert run.provenance == "recorded" and "H200" in run.device
    assert run.trace.table.select(["launch", "block", "line"]).equals(cpu_run("01_naive", scope=Scope(2)).trace.table.select(["launch", "block", "line"]))


def test_what_was_not_recorded_is_refused_with_what_was():
    with pytest.raises(ProblemError, match="No recording of 03_flash .* Recorded: .*seq_len 64"):
        execute.run(Request(KERNELS["03_flash"], AttentionProblem(seq_len=77), backend="recorded"))
    with pytest.raises(ProblemError, match="traced query tiles 0 to 3; query tiles 7 to 7 were asked for"):
        execute.run(Request(KERNELS["03_flash"], AttentionProblem(), scope=Scope(7), backend="recorded"))


def test_an_unreadable_recording_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "recording.json").write_text("{")
    recorded.index.cache_clear()
    try:
        with pytest.raises(Exception, match="x/recording.json cannot be read"):
            recorded.index()
    finally:
        recorded.index.cache_clear()


def test_what_is_saved_comes_back(tmp_path, monkeypatch, cpu_run):
    run = cpu_run("03_flash", AttentionProblem(seq_len=20))
    recorded.save(run, execute.traffic(run.request), execute.baseline(run.request), tmp_path)
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    recorded.index.cache_clear()
    try:
        again = recorded.load(replace(run.request, backend="recorded"))
        assert again.trace.table.equals(run.trace.table) and np.array_equal(again.arrays["o"], run.arrays["o"])
        assert json.loads(next(tmp_path.glob("*/recording.json")).read_text())["max_abs_error"] == again.max_abs_error
    finally:
        recorded.index.cache_clear()
