"""Recordings: of the present code, honest about where they are from, and equal to what the CPU executes; and how they
are kept. That a kernel has none is no fault: `kernels record --missing` lists it."""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import last_of_each_kind
from dropped import odd_kernel
from same_trace import assert_same

from kernels.catalog import KERNELS, load_kernel
from kernels.core.remembered import recordings_changed
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, ProblemError, TraceError
from kernels.families.dense import DenseProblem
from kernels.measure import record
from kernels.recordings import packed, run_index
from kernels.run import backends, execute
from kernels.run.backends import recorded

PRESENT = {entry.path.stem: (spec, entry) for spec in KERNELS.values() for entry in run_index.of(spec)}
FLASH = KERNELS["03_flash"]
EMPTY = hashlib.sha256(b"").hexdigest()


def request_of(spec, entry):
    settings = tuple(entry.settings.items())
    return Request(spec, spec.problem_type(**entry.problem), settings, entry.scope, "recorded")


# ---- the committed index ----


def test_a_recording_is_of_a_named_gpu():
    assert PRESENT
    for name, (_, entry) in PRESENT.items():
        assert "NVIDIA" in entry.device and entry.driver and entry.date and "NVRTC" in entry.compiler, name
        assert set(entry.errors) == set(entry.yardsticks), name


def _compared():
    """One recording of the last kernel of each kind, the first, the second or the third in turn. Slow tests compare
    all."""
    found, asked = {}, last_of_each_kind({spec.name: spec for spec, _ in PRESENT.values()})
    for name, (spec, _) in PRESENT.items():
        found.setdefault(spec.name, []).append(name)
    for turn, names in enumerate(found.values()):
        quick = turn % min(len(names), 3) if PRESENT[names[0]][0].name in asked else None
        yield from (pytest.param(name, marks=() if n == quick else pytest.mark.slow) for n, name in enumerate(names))


@pytest.mark.parametrize("name", list(_compared()))
def test_gpu_and_cpu_traces_have_the_same_events_keys_lines_offsets_and_bytes_and_values_within_rounding(name):
    request = request_of(*PRESENT[name])
    assert_same(recorded.load(request), execute.run(replace(request, backend="cpu")))
    traffic = recorded.load_traffic(request)
    assert traffic.table.equals(execute.traffic(replace(request, backend="cpu")).table)


# ---- how they are kept ----


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in place of kernels/recordings/data/runs."""
    monkeypatch.setattr(run_index, "FOLDER", tmp_path / "runs")
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
    held = packed.read_header(made)
    assert held["errors"]["o"] == again.max_abs_error
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
    with pytest.raises(ProblemError, match="traced query tiles 0 to 3. The request is for query tiles 7 to 7"):
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
    assert len(run_index.missing([FLASH])) == len(run_index.cases([FLASH])) - 1
    changed = variant("03_flash", "PROBE_BEGIN();", "PROBE_BEGIN(); ;")
    assert changed.code_hash != FLASH.code_hash
    assert len(run_index.missing([changed])) == len(run_index.cases([changed]))
    with pytest.raises(ProblemError, match="No recording of 03_flash has this code"):
        execute.run(ask(changed))


def test_recordings_of_two_gpus_lie_side_by_side_and_the_newest_answers(folder, cpu_run):
    run = cpu_run("03_flash", scope=Scope(0, 4))
    older, newer = keep(run, "NVIDIA A100"), keep(run, "NVIDIA H300", "2026-12-01")
    assert older.name == newer.name and older.parent != newer.parent
    assert recorded.device().name == "NVIDIA A100, NVIDIA H300"
    assert execute.run(ask(FLASH)).device == "NVIDIA H300"
    assert len(run_index.of(FLASH)) == 2
    here = len(run_index.cases([FLASH]))
    assert [len(run_index.missing([FLASH], name)) for name in ("", "NVIDIA A100", "NVIDIA H200")] == [
        here - 1,
        here - 1,
        here,
    ]


def test_a_recording_that_holds_what_was_asked_for_goes_before_a_newer_one(folder, cpu_run):
    keep(cpu_run("03_flash", scope=Scope(0, 4)), "NVIDIA A100")
    keep(cpu_run("03_flash"), "NVIDIA H300", "2026-12-01")
    assert execute.run(ask(FLASH, scope=Scope(2))).device == "NVIDIA A100"


def with_header(path, header, format=packed.FORMAT):
    """Replaces the header of a recording, as if it had been written so."""
    table = pq.read_table(path)
    text = json.dumps({"format": format, **header} if isinstance(header, dict) else header).encode()
    table = table.replace_schema_metadata({"warpglass": text, "sha256": hashlib.sha256(text).hexdigest()})
    pq.write_table(table, path)


def rewritten(change):
    return lambda path: with_header(path, change(packed.read_header(path)))


def of_another_format(path):
    with_header(path, packed.read_header(path), packed.FORMAT + 1)


def with_a_changed_byte(path):
    """In the header, which holds the date."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b"2026-11-01", b"2026-12-01"))


HARMS = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "not Parquet": lambda path: path.write_bytes(b"\xff"),
    "another table": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "a changed byte": with_a_changed_byte,
    "a list": rewritten(lambda held: [held]),
    "without a date": rewritten(lambda held: {k: v for k, v in held.items() if k != "date"}),
    "of another format": of_another_format,
    "with a field more": rewritten(lambda held: {**held, "more": 1}),
    "a scope of text": rewritten(lambda held: {**held, "scope": {**held["scope"], "first": "x"}}),
    "a problem of a list": rewritten(lambda held: {**held, "problem": [1]}),
    "a problem that cannot be": rewritten(lambda held: {**held, "problem": {**held["problem"], "seq_len": -1}}),
    "settings of text": rewritten(lambda held: {**held, "settings": {"BLOCK_Q": "16"}}),
    "errors of null": rewritten(lambda held: {**held, "errors": None}),
    "values in a missing file": rewritten(lambda held: {**held, "holder": "gone.parquet"}),
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_unreadable_recording_is_left_out_with_a_reason(kept, harm):
    bad, good = kept
    HARMS[harm](bad)
    recordings_changed()
    assert [entry.path for entry in run_index.entries()] == [good]
    (said,) = run_index.left_out()
    assert said.startswith(f"NVIDIA_H200/{bad.name} ") and said.endswith(f"{run_index.REMEDY}.")
    assert execute.run(ask(KERNELS["01_naive"])).device == "NVIDIA H200"
    with pytest.raises(ProblemError) as refused:
        execute.run(ask(FLASH))
    assert said in str(refused.value) and said in record.missing([FLASH], with_tables=False)


@pytest.mark.parametrize("harm", ["emptied", "missing", "another table", "a byte changed"])
@pytest.mark.parametrize("part", ["trace", "outputs", "traffic"])
def test_a_harm_after_the_index_was_read_is_reported_with_the_file_and_what_to_do(kept, part, harm):
    path = kept[0]
    assert len(run_index.entries()) == 2
    if harm == "missing":
        path.unlink()
    elif harm == "another table":
        pq.write_table(pa.table({"a": [1]}), path)
    elif harm == "emptied":
        path.write_bytes(b"")
    else:
        change_a_page(path, part)
    load = execute.traffic if part == "traffic" else execute.run
    with pytest.raises(TraceError, match="NVIDIA_H200/03_flash.*.parquet cannot be read: .*Restore it, or remove it"):
        load(ask(FLASH))


def change_a_page(path, part):
    """Changes the last byte of a table's first column."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    column = next(c for c in columns if c.path_in_schema.startswith(part))
    start = column.data_page_offset if column.dictionary_page_offset is None else column.dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(bytes(data))


# ---- values in common ----


def test_the_committed_runs_share_their_values():
    """Rungs that compute the same numbers in the same order hold them once."""
    holders = Counter(entry.holder for entry in run_index.entries() if entry.holder)
    if not run_index.entries():
        pytest.skip("nothing is recorded")
    seen = {(entry.device, entry.values_sha256) for entry in run_index.entries() if not entry.holder}
    whole = [entry for entry in run_index.entries() if not entry.holder and entry.lengths["values"]]
    assert holders and len(whole) == len([value for value in seen if value[1] != EMPTY])


@pytest.fixture
def twins(folder, cpu_run):
    """Two recordings with equal values. The second has them in the first."""
    run = cpu_run("03_flash")
    path = keep(run)
    other = path.with_name(path.name.replace("03_flash", "03_twin"))
    shutil.copy(path, other)
    recordings_changed()
    run_index.share_values()
    return path, other


def test_equal_values_are_in_one_file_and_a_second_call_changes_nothing(twins):
    before = [path.read_bytes() for path in twins]
    assert len(before[1]) < len(before[0])
    held, whole = (run_index.read_trace(entry, ask(FLASH)) for entry in reversed(run_index.entries()))
    assert held.table.equals(whole.table)
    run_index.share_values()
    assert [path.read_bytes() for path in twins] == before
    assert [entry.holder for entry in run_index.entries()] == ["", twins[0].name]


def test_a_recording_whose_holder_changed_is_left_out_and_missing(twins, cpu_run):
    holder, other = twins
    keep(cpu_run("03_flash", DenseProblem(seq_len=20)))
    (made,) = set(holder.parent.iterdir()) - set(twins)
    made.replace(holder)
    recordings_changed()
    assert [entry.path for entry in run_index.entries()] == [holder]
    (said,) = run_index.left_out()
    assert said.startswith(f"NVIDIA_H200/{other.name} has its values in {holder.name}, which no longer has them.")


def test_where_no_recording_can_be_read_the_backend_says_why(folder):
    (folder / "gpu").mkdir(parents=True)
    (folder / "gpu" / "x.parquet").write_bytes(b"{")
    assert "gpu/x.parquet cannot be read" in backends.survey().reasons["recorded"]


def test_no_recordings_are_said_to_be_missing(folder):
    with pytest.raises(BackendUnavailable, match="There are no recordings"):
        recorded.device()


def test_recording_goes_on_where_it_was_and_again_only_when_asked(folder):
    spec, device = KERNELS["lab_fma"], backends.module("cpu").device()
    made = list(record.record([spec], device))
    assert len(made) == len(run_index.cases([spec])) and not run_index.missing([spec], device.name)
    assert list(record.record([spec], device)) == []
    assert list(record.record([spec], device, anew=True)) == made
    made[0].unlink()  # as if it had been broken off
    recordings_changed()
    assert list(record.record([spec], device)) == made[:1]
