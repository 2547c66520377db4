"""Marks builds and what is read from them. A CPU has no time: there the marks themselves are looked at, and times are
made up here to be read."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kernels.build import Mode, builds
from kernels.catalog import KERNELS, current
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError, TraceError
from kernels.measure import perfetto, pipeline_bars, pipelines
from kernels.measure.elsewhere import opening
from kernels.recordings import requests, tables
from kernels.run import execute, workers
from kernels.run.backends import Device, cpu
from kernels.run.results import Marked
from kernels.trace.probes import CLOCKS, MARK, sites_of


def request_of(name, **fields):
    spec = KERNELS[name]
    small = {"seq_len": 70, "num_heads": 1} if {"seq_len", "causal"} <= set(fields_of(spec.problem_type)) else {}
    return Request(spec, spec.problem_type(**{**small, **fields}))


def marked(request, capacity=512):
    made, plan, arrays = execute.prepare(request, Mode.MARKS)
    every = builds.mark_every(request.kernel)
    return cpu.launch_marks(made, plan, arrays, every, capacity), every, arrays


SIMILAR = [pytest.param(name, marks=pytest.mark.slow) for name in ("01_naive", "08_pipeline", "10_warp_roles")]


@pytest.mark.parametrize("name", [*SIMILAR, "12_optimistic", "paged_v2", "lab_roles"])
def test_a_writer_s_marks_are_those_of_its_first_thread_in_the_trace(name):
    request = request_of(name)
    found, every, arrays = marked(request)
    whole = Request(request.kernel, request.problem, scope=Scope.everything(request.plan))
    run = execute.run(whole)
    for output, error in execute.largest_errors(request.problem, arrays).items():
        assert error == run.max_abs_errors[output]  # the same numbers come out
    sites = sites_of(request)
    kinds = np.array([site.kind for site in sites])[sites.index(run.trace.table)]
    trace = run.trace.frame()[np.isin(kinds, ("mark", "role"))]
    trace = trace[trace.thread % every == 0]
    made = pipelines.read(request, found, every, 1.0, 1.0, "made up", "today")
    keys = [key for key in run.trace.keys if key in made.marks]

    def said(frame, *by):
        told = frame[["event"]].join(frame[keys].astype("Int64").fillna(-1))
        rows = pd.Series(list(told.itertuples(index=False, name=None)), frame.index)
        return {place: list(part) for place, part in rows.groupby([frame[name] for name in by])}

    due = said(trace.assign(writer=trace.thread // every), "launch", "block", "writer")
    assert said(made.marks, "launch", "block", "writer") == due and made.lost == 0
    assert sum(map(len, due.values())) == len(made.marks) > 0


def test_the_roles_go_on_until_the_next():
    request = request_of("11_overlap", seq_len=130)
    found, every, _ = marked(request)
    made = pipelines.read(request, found, every, 1.0, 1.0, "made up", "today")
    assert made.noun == "warpgroup" and every == 128
    assert set(made.marks[made.marks.writer == 0].role) == {"producer"}
    assert set(made.marks[made.marks.writer == 1].role) == {"consumer"}
    assert set(made.marks[made.marks.role == "producer"].event) >= {"load_q", "prefetch_tile"}


def test_what_does_not_fit_is_counted():
    request = request_of("03_flash")
    full, few = marked(request)[0][0], marked(request, capacity=5)[0][0]
    made = pipelines.read(request, [few], 32, 1.0, 1.0, "made up", "today")
    assert made.lost == int((full.counts - 5).sum()) > 0 and made.marks.groupby(["block", "writer"]).size().max() == 5
    assert "marks did not fit" in pipeline_bars.sentence(made)


# ---- times, made up ----

SLOPE, NS0 = 0.57, 1_790_000_000_000_000_000  # ns of a cycle; when the first writer begins
STARTS = {0: 7_000_000_000_123, 1: 12_345}  # cycles of each multiprocessor at that time


def made_up(request, found, jitter=0):
    """The Marked with times: block b runs on multiprocessor b % 2 from 1000 b ns on, a mark every 100 cycles."""
    timed = []
    for launch in found:
        records, clocks = launch.records.copy(), launch.clocks.copy()
        for slot, count in enumerate(launch.counts):
            block = slot // launch.writers
            sm = block % 2
            begin = STARTS[sm] + round(1000 * block / SLOPE)
            records["clock"][slot, :count] = begin + 100 * np.arange(count) + 10
            ends = begin + 100 * int(count) + 50
            times = [NS0 + round((c - STARTS[sm]) * SLOPE) + jitter * (slot % 3 - 1) for c in (begin, ends)]
            clocks[slot] = (begin, ends, *times, sm)
        timed.append(Marked(launch.launch, launch.writers, records, launch.counts, clocks))
    return timed


@pytest.fixture(scope="module")
def overlap():
    request = request_of("11_overlap", seq_len=300)
    found, every, _ = marked(request)
    return pipelines.read(request, made_up(request, found), every, 1.08, 1.0, "made up", "today")


def test_cycles_of_every_multiprocessor_are_told_in_common_time(overlap):
    assert overlap.mhz == pytest.approx(1e3 / SLOPE, rel=1e-3) and overlap.residual_ns < 2
    for (block, _), mine in overlap.marks.groupby(["block", "writer"]):
        due = 1000 * block + (10 + 100 * mine.seq) * SLOPE
        assert np.abs(mine.ns - due).max() < 4
    assert overlap.writers.start_ns.min() == 0 and overlap.overhead == pytest.approx(0.08)


def test_a_coarse_clock_shows_in_the_residual():
    request = request_of("03_flash", seq_len=100)
    found, every, _ = marked(request)
    made = pipelines.read(request, made_up(request, found, jitter=40), every, 1.0, 1.0, "made up", "today")
    assert 35 < made.residual_ns < 90 and "differ by at most" in pipeline_bars.sentence(made)


def test_bars_lie_end_to_end(overlap):
    shown = pipeline_bars.bars(overlap, 0)
    for writer, mine in shown.groupby("writer"):
        assert (mine.start_ns.to_numpy()[1:] == mine.end_ns.to_numpy()[:-1]).all()
        end = overlap.writers[(overlap.writers.block == 0) & (overlap.writers.writer == writer)].end_ns.iloc[0]
        assert mine.end_ns.iloc[-1] == end and (mine.end_ns >= mine.start_ns).all()
    shares = pipeline_bars.shares(overlap, 0)
    assert shares.groupby("writer").share.sum().to_numpy() == pytest.approx(1)
    assert shares.bars.sum() == len(shown)


def test_products_are_in_flight_from_their_issue_until_they_were_waited_for(overlap):
    shown = pipeline_bars.bars(overlap, 0)
    flight = pipeline_bars.in_flight(shown)
    assert set(flight.event) == {"scores", "output"}
    consumer = shown[shown.writer == 1]
    for event in ("scores", "output"):
        begun, done = consumer[consumer.event == event], consumer[consumer.event == f"{event}_done"]
        mine = flight[(flight.writer == 1) & (flight.event == event)]
        assert len(mine) == len(done) > 1
        assert list(mine.start_ns) == list(begun.start_ns)[: len(done)] and list(mine.end_ns) == list(done.start_ns)
        assert list(mine.tile) == list(done.tile)


def test_the_share_in_which_tensor_cores_are_fed():
    columns = {"launch": 0, "block": 0, "role": "", "place": "x.cu:1", "seq": 0}
    rows = [  # two warpgroups: products in flight 10 to 40 and 30 to 60, of 100
        (1, "scores", 10.0), (1, "softmax", 20.0), (1, "scores_done", 40.0),
        (2, "scores", 30.0), (2, "scores_done", 60.0),
    ]  # fmt: skip
    marks = pd.DataFrame([{**columns, "writer": w, "event": e, "ns": at} for w, e, at in rows])
    marks["tile"] = pd.array([0] * len(rows), dtype="Int64")
    clocks = [{"launch": 0, "block": 0, "writer": w, "sm": 3, "start_ns": 0, "end_ns": 100} for w in (1, 2)]
    made = pipelines.Pipeline(
        request_of("11_overlap"), marks, pd.DataFrame(clocks), 128, 0, 1755.0, 1.0, 1.0, 1.0, "made up", "today"
    )
    assert pipeline_bars.fed(made, 0) == pytest.approx(0.5)
    warps = marks[~marks.event.str.endswith("_done")]  # as of a kernel whose products are not asynchronous
    whole = pipelines.Pipeline(made.request, warps, made.writers, 32, 0, 1755.0, 1.0, 1.0, 1.0, "made up", "today")
    assert pipeline_bars.fed(whole, 0) == pytest.approx(0.8)  # 10 to 20, and 30 to the end
    assert "Tensor cores of block 0 have something to do for at most 80.0%" in pipeline_bars.sentence(whole)
    without = replace(whole, request=request_of("03_flash"))
    assert pipeline_bars.fed(without, 0) is None and "ensor cores" not in pipeline_bars.sentence(without)


def test_a_writer_whose_end_the_coarser_clock_says_early_has_a_last_bar_of_no_length(overlap):
    early = overlap.writers.assign(end_ns=0)
    shown = pipeline_bars.bars(replace(overlap, writers=early), 0)
    last = shown.groupby("writer").tail(1)
    assert len(last) and (last.end_ns == last.start_ns).all() and (shown.end_ns >= shown.start_ns).all()


def test_perfetto_reads_back_every_bar(overlap):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace = Trace.FromString(perfetto.encode(overlap))
    names = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    events = [p for p in trace.packet if p.HasField("track_event")]
    assert [p.timestamp for p in events] == sorted(p.timestamp for p in events)
    open_at, slices = {}, []
    for packet in events:
        uuid = packet.track_event.track_uuid
        if packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert uuid not in open_at, "slices of a track do not overlap"
            open_at[uuid] = packet
        else:
            begun = open_at.pop(uuid)
            slices.append((names[uuid].name, begun.track_event.name, begun.timestamp, packet.timestamp))
    assert not open_at
    own = [s for s in slices if not s[0].endswith("in flight")]
    assert len(own) == len(overlap.marks)
    shown = pipeline_bars.bars(overlap, 0)
    first = shown[(shown.writer == 1) & (shown.event == "softmax")].iloc[0]
    assert ("warpgroup 1, consumer", "softmax", round(first.start_ns), round(first.end_ns)) in slices
    one = next(p.track_event for p in events if p.track_event.name == "softmax")
    said = {a.name: a.int_value if a.HasField("int_value") else a.string_value for a in one.debug_annotations}
    assert said == {"line": first.place, "tile": first.tile}
    assert any(n.name.startswith("launch 0, block 0, multiprocessor 0") for n in names.values())


def test_our_own_file_opens_as_one_that_was_measured_elsewhere(overlap):
    trace = opening.trace(perfetto.encode(overlap), "ours.pftrace")
    (first,) = [name for name in trace.groups if name.startswith("launch 0, block 0,")]
    own, shown = trace.bars[trace.bars.group == first], pipeline_bars.bars(overlap, 0)
    own = own[~own.lane.str.endswith("in flight")]
    assert sorted(own.kind) == sorted(shown.event)
    begin = round(shown.start_ns.min())
    assert sorted(own.start_ns) == sorted(shown.start_ns.round() - begin)
    assert sorted(own.end_ns) == sorted(shown.end_ns.round() - begin)


def test_json_has_the_bars_and_the_observer_effect(overlap):
    said = pipeline_bars.as_json(overlap)
    assert len(said["bars"]) == len(pipeline_bars.bars(overlap, 0)) and said["overhead"] == pytest.approx(0.08)
    assert said["kernel"] == "11_overlap" and said["problem"]["seq_len"] == 300


# ---- recorded ----


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return tmp_path


def test_every_rung_of_16_bits_and_paged_v2_are_asked_for():
    asked = pipelines.RECORDINGS.asked()
    assert len(asked) == len(set(asked)) and {r.backend for r in asked} == {"gpu"}
    for kernel in current().of_family("tensor_cores").values():
        problems = [r.problem for r in asked if r.kernel is kernel]
        assert {(p.seq_len, p.causal) for p in problems} == {(4096, False), (4096, True)}, kernel.name
    assert {"03_flash", "paged_v2"} <= {r.kernel.name for r in asked}


def test_what_is_recorded_is_read_back(overlap, folder, monkeypatch):
    made = replace(overlap, request=replace(overlap.request, backend="gpu"))
    monkeypatch.setattr(requests, "requests_of", lambda cases: [made.request])
    monkeypatch.setattr(workers, "submit", lambda *a, **k: SimpleNamespace(result=lambda: made))
    (path,) = pipelines.RECORDINGS.record(Device("gpu", made.device, "sm_90a", 232448))
    (entry,) = pipelines.recorded()
    found = entry.load()
    assert pipelines.find(made.request).path == path and not pipelines.RECORDINGS.left_out()
    assert found.writers.equals(made.writers) and found.overhead == made.overhead and found.mhz == made.mhz
    for block in (0, 1):
        pd.testing.assert_frame_equal(
            pipeline_bars.bars(found, block), pipeline_bars.bars(made, block), check_dtype=False
        )
        assert pipeline_bars.fed(found, block) == pipeline_bars.fed(made, block)
    with pytest.raises(ProblemError, match="measure pipelines"):
        pipelines.find(request_of("11_overlap", seq_len=301))


def test_only_whole_blocks_are_kept_and_one_at_least(overlap, folder, monkeypatch):
    sizes = overlap.marks.groupby("block").size()
    for most, kept in ((1, [0]), (int(sizes[:2].sum()), [0, 1])):
        monkeypatch.setattr(pipelines, "MOST_MARKS", most)
        pipelines.RECORDINGS.save(overlap, folder / "pipelines" / "X" / "a.parquet")
        (entry,) = pipelines.recorded()
        found = entry.load()
        assert sorted(found.marks.block.unique()) == kept and len(found.marks) == sizes[: len(kept)].sum()
        assert len(found.writers) == len(overlap.writers)


def test_a_comment_that_moves_the_lines_moves_the_places_of_a_recorded_pipeline(overlap, folder, monkeypatch):
    """A recording of 11_overlap lights the right lines after a comment has moved them."""
    pipelines.RECORDINGS.save(overlap, folder / "pipelines" / "X" / "a.parquet")
    spec = overlap.request.kernel
    source = spec.source.replace("\n#include", "\n// A remark\n// of two lines.\n#include", 1)
    moved = replace(spec, files=((spec.files[0][0], source), *spec.files[1:]))
    assert moved.code_hash == spec.code_hash and moved.source != spec.source
    monkeypatch.setitem(current().kernels, spec.name, moved)
    (entry,) = pipelines.recorded()
    before, after = overlap.marks.place, entry.load().marks.place
    of_the_kernel = before.str.startswith(f"{spec.files[0][0]}:")
    assert of_the_kernel.any()
    lines, now = (places[of_the_kernel].str.partition(":")[2].astype(int) for places in (before, after))
    assert (now == lines + 2).all() and (after[~of_the_kernel] == before[~of_the_kernel]).all()


def test_recordings_of_other_code_and_broken_files_are_left_out(overlap, folder):
    path = folder / "pipelines" / "X" / "a.parquet"
    name, source = overlap.request.kernel.files[0]
    other = replace(overlap.request.kernel, files=((name, f"{source}\nint x;"), *overlap.request.kernel.files[1:]))
    pipelines.RECORDINGS.save(replace(overlap, request=replace(overlap.request, kernel=other)), path)
    (folder / "pipelines" / "X" / "b.parquet").write_bytes(b"half a fi")
    assert pipelines.recorded() == [] and len(pipelines.RECORDINGS.left_out()) == 2
    assert "of another code of 11_overlap" in pipelines.RECORDINGS.left_out()[0]


# ---- errors ----


def test_a_cpu_has_no_pipeline():
    with pytest.raises(ProblemError, match="a CPU run yields none"):
        pipelines.pipeline(request_of("03_flash"))


def test_a_key_out_of_range_and_a_foreign_record_are_told():
    request = request_of("03_flash")
    found, every, _ = marked(request)
    for change, said in ((1 << 31, "a key of the mark"), (12345, "source changed under the run")):
        records = found[0].records.copy()
        records["site"][0, 0] ^= np.uint32(change)
        wrong = Marked(0, found[0].writers, records, found[0].counts, found[0].clocks)
        with pytest.raises(TraceError, match=said):
            pipelines.read(request, [wrong], every, 1.0, 1.0, "made up", "today")


def test_the_capacity_shrinks_where_there_are_many_writers():
    plan = request_of("03_flash", seq_len=16384, num_heads=64).plan
    room = pipelines.capacity(plan, 32)
    writers = sum(step.blocks * -(-step.threads // 32) for step in plan.launches)
    assert 1 <= room <= pipelines.CAPACITY and room * writers * MARK.itemsize <= pipelines.BYTES
    assert MARK.itemsize == 16 and CLOCKS.itemsize == 40


@pytest.mark.parametrize("name", dict.fromkeys(request.kernel.name for request in pipelines.RECORDINGS.asked()))
def test_the_need_for_tensor_cores_is_known_or_none_for_every_recorded_kernel(name, overlap):
    """V3 and the cascade multiply on tensor cores, but have no tile of BLOCK_Q queries."""
    request = next(request for request in pipelines.RECORDINGS.asked() if request.kernel.name == name)
    needed = pipeline_bars.multiplying(replace(overlap, request=request), 0)
    tiled = request.kernel.tensor_products == 1 and {"BLOCK_Q", "BLOCK_KV"} <= set(request.constants)
    assert (needed is not None) == tiled and (needed is None or needed > 0)
