"""Recordings: of the present code, honest about where they are from, and equal to what the CPU executes; and how they
are kept. That a kernel has none is no fault: `kernels record --missing` lists it."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from dropped import odd_kernel
from same_trace import assert_same

from kernels.catalog import KERNELS, load_kernel
from kernels.core.remembered import recordings_changed
from kernels.core.request import Request, Scope
from kernels.errors import BackendUnavailable, ProblemError, TraceError
from kernels.families.dense import DenseProblem
from kernels.measure import record
from kernels.run import backends, execute
from kernels.run.backends import recorded

PRESENT = {entry.folder.name: (spec, entry) for spec in KERNELS.values() for entry in recorded.of(spec)}
FLASH = KERNELS["03_flash"]


def request_of(spec, entry):
    settings = tuple(entry.settings.items())
    return Request(spec, spec.problem_type(**entry.problem), settings, entry.scope, "recorded")


# ---- those that are committed ----


@pytest.mark.parametrize("name", PRESENT)
def test_a_recording_is_of_a_named_gpu(name):
    entry = PRESENT[name][1]
    assert "NVIDIA" in entry.device and entry.driver and entry.date and "NVRTC" in entry.compiler
    assert entry.format == recorded.FORMAT and set(entry.errors) == set(entry.yardsticks)


SOME = 2  # recordings of a kernel that are compared each time; slow tests compare them all


def _compared():
    seen = Counter()
    for name, (spec, _) in PRESENT.items():
        seen[spec.name] += 1
        yield pytest.param(name, marks=pytest.mark.slow) if seen[spec.name] > SOME else name


@pytest.mark.parametrize("name", list(_compared()))
def test_gpu_and_cpu_traces_have_the_same_events_keys_lines_offsets_and_bytes_and_values_within_rounding(name):
    request = request_of(*PRESENT[name])
    assert_same(recorded.load(request), execute.run(replace(request, backend="cpu")))
    traffic = recorded.load_traffic(request)
    assert traffic.table.equals(execute.traffic(replace(request, backend="cpu")).table)


# ---- how they are kept ----


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in place of kernels/recordings/runs."""
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "runs")
    recordings_changed()
    yield tmp_path / "runs"
    recordings_changed()


def keep(run, device="NVIDIA H200", date="2026-11-01", base=None):
    """Records a Run as if it had been made on that GPU, that day."""
    run = replace(
        run, device=device, date=date, trace=replace(run.trace, provenance={**run.trace.provenance, "driver": "580"})
    )
    return recorded.save(run, execute.traffic(run.request), execute.yardstick(run.request), base)


@pytest.fixture(scope="module")
def two(tmp_path_factory, cpu_run):
    """A recording of 03_flash and one of 01_naive, to be copied and harmed."""
    base = tmp_path_factory.mktemp("two")
    return base, [keep(cpu_run(name), base=base).relative_to(base) for name in ("03_flash", "01_naive")]


@pytest.fixture
def kept(folder, two):
    """Copies of these, where recordings are looked for."""
    base, names = two
    shutil.copytree(base, folder)
    recordings_changed()
    return [folder / name for name in names]


def ask(spec, problem=None, **changes):
    return Request(spec, problem or spec.problem_type(), **{"backend": "recorded", **changes})


def test_what_is_saved_comes_back(folder, cpu_run):
    run = cpu_run("03_flash", DenseProblem(seq_len=20))
    made = keep(run)
    again = execute.run(ask(FLASH, DenseProblem(seq_len=20)))
    assert again.trace.table.equals(run.trace.table) and np.array_equal(again.arrays["o"], run.arrays["o"])
    held = json.loads((made / "recording.json").read_text())
    assert held["errors"]["o"] == again.max_abs_error and held["format"] == recorded.FORMAT
    assert (again.provenance, again.device) == ("recorded", "NVIDIA H200")
    assert made.name.startswith(f"03_flash-{FLASH.code_hash[:8]}-") and made.parent.name == "NVIDIA_H200"
    assert execute.yardstick(ask(FLASH, DenseProblem(seq_len=20))) == held["yardsticks"]


def test_outputs_of_several_sizes_and_small_types_come_back_as_they_were(folder, monkeypatch):
    spec = odd_kernel(monkeypatch)
    run = execute.run(Request(spec, spec.problem_type(), scope=Scope(0, 3)))
    keep(run)
    again = execute.run(ask(spec))
    for tensor in spec.problem_type().outputs:
        assert again.arrays[tensor.name].dtype == run.arrays[tensor.name].dtype
        assert np.array_equal(again.arrays[tensor.name], run.arrays[tensor.name])


def test_a_recording_is_cut_to_the_items_asked_for(folder, cpu_run):
    keep(cpu_run("01_naive", scope=Scope(0, 4)))
    run = execute.run(ask(KERNELS["01_naive"], scope=Scope(2)))
    columns = ["launch", "block", "line"]
    assert run.trace.table.select(columns).equals(cpu_run("01_naive", scope=Scope(2)).trace.table.select(columns))


def test_what_was_not_recorded_is_refused_with_what_was(folder, cpu_run):
    keep(cpu_run("03_flash", scope=Scope(0, 4)))
    with pytest.raises(ProblemError, match="No recording of 03_flash .* Recorded: .*seq_len 64"):
        execute.run(ask(FLASH, DenseProblem(seq_len=77)))
    with pytest.raises(ProblemError, match="traced query tiles 0 to 3; query tiles 7 to 7 were asked for"):
        execute.run(ask(FLASH, scope=Scope(7)))


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [("03_flash", "03_flash.cu", "#define THREADS"), ("paged_v1", "walk.cuh", "struct Context")],
)
def test_a_comment_that_moves_the_lines_keeps_the_recording(folder, variant, cpu_run, name, file, text):
    run = cpu_run(name)
    keep(run)
    moved = variant(name, text, f"\n// A remark\n// of three\n// lines.\n{text}")
    again = execute.run(ask(moved))
    assert again.trace.table.equals(execute.run(ask(moved, backend="cpu")).trace.table)
    here, before = (r.trace.table.filter(pc.equal(r.trace.table["file"], file))["line"] for r in (again, run))
    assert len(here) and here.to_pylist() == [line + 4 for line in before.to_pylist()]


def test_a_renamed_file_keeps_the_recording(folder, tmp_path, cpu_run):
    keep(cpu_run("03_flash"))
    (tmp_path / "mine.cu").write_text(FLASH.source)
    again = execute.run(ask(load_kernel(tmp_path / "mine.cu")))
    assert set(again.trace.table["file"].to_pylist()) == {"mine.cu"}


def test_changed_code_loses_the_recording_and_is_listed_as_missing(folder, variant, cpu_run):
    keep(cpu_run("03_flash"))
    assert len(recorded.missing([FLASH])) == len(recorded.cases([FLASH])) - 1
    changed = variant("03_flash", "PROBE_BEGIN();", "PROBE_BEGIN(); ;")
    assert changed.code_hash != FLASH.code_hash
    assert len(recorded.missing([changed])) == len(recorded.cases([changed]))
    with pytest.raises(ProblemError, match="No recording of 03_flash has this code"):
        execute.run(ask(changed))


def test_recordings_of_two_gpus_lie_side_by_side_and_the_newest_answers(folder, cpu_run):
    run = cpu_run("03_flash", scope=Scope(0, 4))
    older, newer = keep(run, "NVIDIA A100"), keep(run, "NVIDIA H300", "2026-12-01")
    assert older.name == newer.name and older.parent != newer.parent
    assert recorded.device().name == "NVIDIA A100, NVIDIA H300"
    assert execute.run(ask(FLASH)).device == "NVIDIA H300"
    assert len(recorded.of(FLASH)) == 2
    here = len(recorded.cases([FLASH]))
    assert [len(recorded.missing([FLASH], name)) for name in ("", "NVIDIA A100", "NVIDIA H200")] == [
        here - 1,
        here - 1,
        here,
    ]


def test_a_recording_that_holds_what_was_asked_for_goes_before_a_newer_one(folder, cpu_run):
    keep(cpu_run("03_flash", scope=Scope(0, 4)), "NVIDIA A100")
    keep(cpu_run("03_flash"), "NVIDIA H300", "2026-12-01")
    assert execute.run(ask(FLASH, scope=Scope(2))).device == "NVIDIA A100"


def rewritten(change):
    def harm(folder):
        held = json.loads((folder / "recording.json").read_text())
        (folder / "recording.json").write_text(json.dumps(change(held)))

    return harm


HARMS = {
    "emptied": lambda folder: (folder / "recording.json").write_text(""),
    "cut": lambda folder: (folder / "recording.json").write_text("{"),
    "not text": lambda folder: (folder / "recording.json").write_bytes(b"\xff"),
    "too deep": lambda folder: (folder / "recording.json").write_text("[" * 100_000),
    "a list": rewritten(lambda held: [held]),
    "without a date": rewritten(lambda held: {k: v for k, v in held.items() if k != "date"}),
    "without a format": rewritten(lambda held: {k: v for k, v in held.items() if k != "format"}),
    "of another format": rewritten(lambda held: {**held, "format": recorded.FORMAT + 1}),
    "with a field more": rewritten(lambda held: {**held, "more": 1}),
    "a scope of text": rewritten(lambda held: {**held, "scope": {**held["scope"], "first": "x"}}),
    "a problem of a list": rewritten(lambda held: {**held, "problem": [1]}),
    "a problem that cannot be": rewritten(lambda held: {**held, "problem": {**held["problem"], "seq_len": -1}}),
    "settings of text": rewritten(lambda held: {**held, "settings": {"BLOCK_Q": "16"}}),
    "errors of null": rewritten(lambda held: {**held, "errors": None}),
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_unreadable_recording_is_left_out_and_told(kept, harm):
    bad, good = kept
    HARMS[harm](bad)
    recordings_changed()
    assert [entry.folder for entry in recorded.index()] == [good]
    (said,) = recorded.left_out()
    assert said.startswith(f"NVIDIA_H200/{bad.name}/recording.json ") and said.endswith(f"{recorded.REMEDY}.")
    assert execute.run(ask(KERNELS["01_naive"])).device == "NVIDIA H200"
    with pytest.raises(ProblemError) as refused:
        execute.run(ask(FLASH))
    assert said in str(refused.value) and said in record.missing([FLASH], with_tables=False)


@pytest.mark.parametrize("part", recorded.PARTS)
@pytest.mark.parametrize("harm", ["emptied", "cut", "a byte changed", "missing", "another table"])
def test_a_harmed_part_of_a_recording_is_told_with_its_file_and_what_to_do(kept, part, harm):
    path = kept[0] / part
    data = path.read_bytes()
    middle = len(data) // 2
    if harm == "missing":
        path.unlink()
    elif harm == "another table":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.write_bytes(
            {"emptied": b"", "cut": data[:-9]}.get(harm, data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        )
    load = execute.traffic if part == "traffic.parquet" else execute.run
    with pytest.raises(TraceError, match=f"NVIDIA_H200/03_flash.*/{part} cannot be read: .*Restore it, or remove its"):
        load(ask(FLASH))


def test_a_recording_without_hashes_is_read_and_a_part_that_is_no_such_table_is_told(kept):
    made, _ = kept
    rewritten(lambda held: {k: v for k, v in held.items() if k != "sha256"})(made)
    recordings_changed()
    assert execute.run(ask(FLASH)).device == "NVIDIA H200"
    for part in ("outputs.parquet", "trace.parquet"):  # the trace is read first
        pq.write_table(pa.table({"o": [1]}), made / part)
        with pytest.raises(TraceError, match=f"{part} cannot be read"):
            execute.run(ask(FLASH))


def test_where_no_recording_can_be_read_the_backend_says_why(folder):
    (folder / "gpu" / "x").mkdir(parents=True)
    (folder / "gpu" / "x" / "recording.json").write_text("{")
    assert "gpu/x/recording.json cannot be read" in backends.survey().reasons["recorded"]


def test_no_recordings_are_said_to_be_missing(folder):
    with pytest.raises(BackendUnavailable, match="There are no recordings"):
        recorded.device()


def test_recording_goes_on_where_it_was_and_again_only_when_asked(folder):
    spec, device = KERNELS["lab_fma"], backends.module("cpu").device()
    made = list(record.record([spec], device))
    assert len(made) == len(recorded.cases([spec])) and not recorded.missing([spec], device.name)
    assert list(record.record([spec], device)) == []
    assert list(record.record([spec], device, anew=True)) == made
    (made[0] / "recording.json").unlink()  # as if it had been broken off
    recordings_changed()
    assert list(record.record([spec], device)) == made[:1]
