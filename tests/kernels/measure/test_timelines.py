"""Timelines: what is asked for, and how a recorded one is found again. Nothing here needs a GPU or a recording."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from kernels import catalog
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.measure import timelines
from kernels.measure.timelines import Timeline
from kernels.recordings import packed, requests, tables
from kernels.run import workers
from kernels.run.backends import Device

GPU = Device("gpu", "NVIDIA X", "sm_90a", 227 * 1024, "D", 4)
TABLE = pd.DataFrame({"launch": [0, 0], "block": [0, 1], "sm": [0, 3], "start_ns": [0, 32], "end_ns": [64, 96]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def recording(folder, monkeypatch):
    """The requests that `record` measured, without a GPU."""
    done = []

    def submit(function, request, **how):
        assert function is timelines.timeline
        done.append(request)
        made = Timeline(request, TABLE, 2, 4, "measured", GPU.name, "2026-11-21")
        return SimpleNamespace(result=lambda: made)

    monkeypatch.setattr(workers, "submit", submit)
    return done


def test_a_cpu_run_has_no_timeline():
    with pytest.raises(ProblemError, match="a CPU run yields none"):
        timelines.timeline(Request(catalog.KERNELS["03_flash"], DenseProblem()))


def test_every_attention_kernel_is_asked_for_with_blocks_of_equal_and_of_unequal_length():
    asked = timelines.RECORDINGS.asked()
    assert len(asked) == len(set(asked)) and {r.backend for r in asked} == {"gpu"}
    for kernel in catalog.current().of_family("dense").values():
        problems = [request.problem for request in asked if request.kernel is kernel]
        assert {problem.causal for problem in problems} == {False, True}, kernel.name
    for name in ("paged_v1", "paged_v2"):
        lengths = [request.problem.context_lens for request in asked if request.kernel.name == name]
        assert any(max(lens) > 100 * min(lens) for lens in lengths)


def test_a_recording_is_found_again_with_its_problem_and_settings(recording, folder):
    (path,) = timelines.RECORDINGS.record(GPU)
    asked = timelines.RECORDINGS.asked()
    assert recording == asked and path.exists()
    entries = timelines.recorded()
    assert len(entries) == len(asked) and not timelines.RECORDINGS.left_out()
    assert {(e.kernel, e.request.problem, e.request.settings) for e in entries} == {
        (r.kernel.name, r.problem, r.settings) for r in asked
    }
    entry = entries[0]
    found = timelines.timeline(entry.request)
    assert (found.device, found.left, found.multiprocessors) == ("NVIDIA X", 2, 4)
    assert found.provenance == "recorded" and found.table.equals(TABLE)
    assert found.request.problem == entry.request.problem
    assert entry.label.startswith(f"{entry.kernel}: ")


def test_a_torn_file_is_replaced(recording, folder, monkeypatch):
    monkeypatch.setattr(requests, "requests_of", lambda cases, of=requests.requests_of: of(cases)[:3])
    (path,) = timelines.RECORDINGS.record(GPU)
    path.write_bytes(path.read_bytes()[:-9])
    assert timelines.RECORDINGS.record(GPU) == [path] and len(recording) == 6 and len(timelines.recorded()) == 3


def test_a_timeline_of_another_code_is_left_out_with_the_reason(recording, folder, monkeypatch):
    timelines.RECORDINGS.record(GPU)
    spec = catalog.current().kernels["03_flash"]
    other = replace(spec, files=((spec.files[0][0], spec.source.replace("/*", "int another;\n/*", 1)), *spec.files[1:]))
    assert other.code_hash != spec.code_hash
    monkeypatch.setitem(catalog.current().kernels, "03_flash", other)
    assert "03_flash" not in {entry.kernel for entry in timelines.recorded()}
    assert any("is of another code of 03_flash" in reason for reason in timelines.RECORDINGS.left_out())
    with pytest.raises(ProblemError, match="No timeline of 03_flash .* python -m kernels measure timelines"):
        timelines.timeline(Request(other, DenseProblem(seq_len=2048, head_dim=64, num_heads=8), backend="recorded"))


def test_files_without_timelines_are_left_out_with_the_reason(folder):
    place = folder / "timelines"
    place.mkdir()
    (place / "torn.parquet").write_bytes(b"half a fi")
    packed.write(place / "other.parquet", {}, {"device": "H"})
    assert timelines.recorded() == []
    other, torn = timelines.RECORDINGS.left_out()
    assert "other.parquet has no timelines" in other and "torn.parquet has no timelines" in torn
    assert other.endswith(f"{tables.REMEDY}.")


def test_recorded_timelines_hold_every_block():
    for entry in timelines.recorded():
        found = entry.load()
        blocks = sum(launch.blocks for launch in entry.request.plan.launches)
        assert len(found.table) + found.left == blocks
        assert (found.table.end_ns >= found.table.start_ns).all()
        assert found.table.sm.between(0, found.multiprocessors - 1).all()


def test_a_timeline_is_recorded_of_the_constants_that_a_kernel_chooses_too():
    """Its times are of those: 08b takes larger blocks where there are enough of them."""
    spec = catalog.KERNELS["08b_three_bfloat16"]
    asked = [request for request in timelines.RECORDINGS.asked() if request.kernel is spec]
    for request in asked:
        own = tuple(spec.settings_for(request.problem).items())
        assert any(other.problem == request.problem and tuple(other.constants.items()) == own for other in asked)
    assert {dict(request.settings)["BLOCK_Q"] for request in asked} == {64, 128}
