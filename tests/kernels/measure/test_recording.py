"""Recording goes on after a break, for each kind of table. A worker without a GPU gives the results."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from kernels import __main__ as cli
from kernels.catalog import current
from kernels.core.tolerance import OutputError
from kernels.errors import BackendUnavailable, RunError
from kernels.measure import (
    bench,
    calibration,
    chains,
    choices,
    duels,
    gradient_duels,
    hierarchy,
    launch_times,
    meeting,
    pattern_cycles,
    pipelines,
    protocol,
    sweeps,
    timelines,
)
from kernels.measure.bench_rows import SUSTAINED, problem_text, settings_text
from kernels.measure.load import Sustained
from kernels.recordings import requests, tables
from kernels.recordings.tables import silent
from kernels.run import workers
from kernels.run.backends import Device
from kernels.trace.probes import sites_of

GPU = Device("gpu", "Small GPU", "sm_90a", 232448, "580", 132)
ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 600.0}
SPANS = pd.DataFrame({"run": [0], "step": [0], "start_ns": [0], "end_ns": [9]})


def _duel(problem, entries, rivals):
    for name, settings in entries:
        row = {"name": name, "status": "ok", "problem": problem_text(problem), "us": 2.0}
        row |= {"code_hash": current().kernels[name].code_hash, "settings": settings_text(settings.items())}
        yield from (dict.fromkeys(meeting.COLUMNS) | row | {"peer": peer, "peer_status": "ok"} for peer in rivals)


def _choice(problem, entries):
    for name, variant in entries:
        yield choices._begun(problem, name, variant) | {"status": "ok", "us": 2.0}


def _chain(case):
    made = dict.fromkeys(chains.COLUMNS) | {"fused": case.fused.name, "status": "ok", "us": 2.0}
    made |= {"problem": problem_text(case.problem)}
    for spec in case.kernels:
        settings = settings_text(spec.settings_for(case.problem).items())
        yield made | {"name": spec.name, "code_hash": spec.code_hash, "settings": settings}
    yield made | {"name": chains.COMPILED}


def _way(request):
    kernel, settings, problem = pattern_cycles.key_of(request)
    figures = {"cycles": 2.0, "least": 1.0, "most": 3.0, "medians": "1 2 3", "per_us": ""}
    return {"kernel": kernel, "settings": settings, "problem": problem, **figures}


def _level(place):
    problem = place.problem
    return {"kind": place.kind, "space": problem.space, "working_set": problem.working_set, "cycles": 29.0}


def _timing(point):
    code = point.kernel.code_hash
    error, hot = OutputError("o", 1e-7, 1e-7, 3e-7), Sustained(10.5, 9.5, 12.5)
    made = protocol.Timing(point, "ok", "", 50, 10.0, 9.0, 12.0, moved_bytes=1000, error=error, code_hash=code)
    return replace(made, sustained=hot)


def _timeline(request):
    table = pd.DataFrame({"launch": [0], "block": [0], "sm": [3], "start_ns": [0], "end_ns": [64]})
    return timelines.Timeline(request, table, 2, 4, "measured", GPU.name, "2026-11-21")


def _launch(request):
    free = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in launch_times.FREE.items()})
    host = {}, {}, "Test CPU"
    clock = 32, 150.0, Sustained(2.5, 2.4, 2.6)
    return launch_times.LaunchTimes(request, SPANS, SPANS, free, *host, *clock, "measured", GPU.name, "2026-11-21")


def _pipeline(request):
    site = sites_of(request)[0]
    mark = {"launch": 0, "block": 0, "writer": 0, "seq": 0, "event": site.event, "place": site.place}
    marks = pd.DataFrame([mark | {"role": "", "tile": 1, "ns": 1.5}]).astype({"tile": "Int64"})
    writers = pd.DataFrame([{"launch": 0, "block": 0, "writer": 0, "sm": 3, "start_ns": 0.0, "end_ns": 9.0}])
    return pipelines.Pipeline(request, marks, writers, 32, 0, 1500.0, 1.0, 1.0, 1.0, GPU.name, "2026-11-21")


RESULTS = {
    hierarchy.point: _level,
    hierarchy.cycles_point: lambda problem, settings: {"stride": problem.stride, **dict(settings), "cycles": 29.0},
    pattern_cycles.measure: _way,
    meeting.meet: lambda *duel: list(_duel(*duel)),
    chains.meet: lambda case: list(_chain(case)),
    choices.meet: lambda *case: list(_choice(*case)),
    protocol.measure: _timing,
    protocol.roofs: lambda: ROOFS,
    timelines.timeline: _timeline,
    launch_times.launch_times: _launch,
    pipelines.pipeline: _pipeline,
}
"""What a worker runs -> what it gives here."""


class Worker(list):
    """The cases that a worker got. `breaks` interrupts the one with this number, `fails` fails it."""

    breaks = fails = None

    def submit(self, function, *args, **more):
        if args:
            self.append(args)
            if len(self) - 1 == self.breaks:
                raise KeyboardInterrupt
            if len(self) - 1 == self.fails:
                raise RunError("It fell.")
        made = RESULTS[function](*args)
        return SimpleNamespace(result=lambda: made)


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A worker, an empty folder of recordings, and four cases of each kind."""
    worker = Worker()
    monkeypatch.setattr(workers, "submit", worker.submit)
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    points = sweeps.points(["03_flash"], [("seq_len", [64, 128, 256, 512])])
    monkeypatch.setattr(bench, "recorded_points", lambda: points)
    for module, name in (
        *((duels, "problems"), (gradient_duels, "problems"), (choices, "problems"), (chains, "cases")),
        *((hierarchy, "sweep"), (hierarchy, "cycles_sweep"), (requests, "requests_of")),
    ):
        whole = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, of=whole: of(*args)[:4])
    four = dict([*pattern_cycles.asked().items()][:4])
    monkeypatch.setattr(pattern_cycles, "asked", lambda: four)
    return worker


KINDS = [kind for kind in cli.TABLES if kind not in ("operators", "rings", "conflicts")]  # they have tests of their own


@pytest.fixture
def record(worker):
    """A function that records a kind of table. It returns what the worker got."""

    def recorded(kind, breaks=None, fails=None, anew=False, device=GPU):
        worker.clear()
        worker.breaks, worker.fails = breaks, fails
        try:
            assert all(path.is_file() for path in cli.TABLES[kind](device, silent, anew))
        except KeyboardInterrupt:
            assert breaks is not None
        return list(worker)

    return recorded


def files(folder):
    """The recorded files, without a file that still grows."""
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob("*.*") if path.suffix != ".anew"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_break_loses_one_case_and_the_next_call_goes_on(kind, record):
    one, two, three = record(kind, breaks=2)
    again, four = record(kind, breaks=1)
    assert again == three and record(kind) == [four] and record(kind) == []
    assert len({str(args) for args in (one, two, three, four)}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_measuring_anew_goes_on_too_and_a_break_leaves_the_recorded_table(kind, record, tmp_path):
    every, recorded = record(kind), files(tmp_path)
    assert record(kind, breaks=2, anew=True) == every[:3]
    if kind == "pipelines":  # each has a file of its own
        assert len(files(tmp_path)) == 4 and record(kind, anew=True) == every
        return
    assert files(tmp_path) == recorded and record(kind) == []
    assert record(kind, anew=True) == every[2:] and [*files(tmp_path)] == [*recorded]
    assert not [*tmp_path.rglob("*.anew")] and record(kind) == []


@pytest.mark.parametrize("kind", ["bench", "chains", "duels", "gradient_duels"])
def test_rows_of_another_driver_are_measured_again_and_a_break_leaves_them(kind, record, tmp_path):
    other, every, recorded = replace(GPU, driver="581"), record(kind), files(tmp_path)
    assert record(kind, breaks=2, device=other) == every[:3] and files(tmp_path) == recorded
    assert record(kind, device=other) == every[2:] and files(tmp_path) != recorded
    assert next(iter(tables.recorded(kind).values()))[1].driver == "581"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bench"])  # which has rows of failed points
def test_a_failed_case_does_not_end_the_others_and_is_measured_the_next_time(kind, record, worker):
    with pytest.raises(RunError, match=rf"1 cases of {kind} failed. .*: It fell. Run the command again."):
        record(kind, fails=1)
    failed = worker[1]
    assert len(worker) == 4 and record(kind) == [failed] and record(kind) == []
    with pytest.raises(RunError):
        record(kind, fails=1, anew=True)
    assert record(kind) == []  # the row of before stays


def test_a_failed_point_of_a_bench_has_a_row_and_is_measured_the_next_time(record):
    every = record("bench", fails=1)
    ((made, _),) = bench.recorded().values()
    assert list(made.status) == ["ok", "failed", "ok", "ok"] and "It fell." in made.reason[1]
    assert record("bench") == [every[1]] and record("bench") == []


def test_a_rested_time_gains_a_sustained_one_and_stays(record, monkeypatch):
    every = [point for (point,) in record("bench")]
    (path,) = tables.FOLDER.rglob("*.csv")
    made, where = tables.load(path)
    rested = made.assign(sustained_us=[1.0, None, None, None])
    tables.save(rested, path, where)
    hot = Sustained(11.0, 10.0, 13.0, 1500, 690)

    def sustained(points, turns):
        return [replace(_timing(p), sustained=hot) for p in points]

    monkeypatch.setitem(RESULTS, protocol.measure_in_turns, sustained)
    assert record("bench") == [([point], 0) for point in every[1:]] and record("bench") == []
    now, _ = tables.load(path)
    assert list(now.sustained_us) == [1.0, 11.0, 11.0, 11.0] and list(now.sustained_clock[1:]) == [1500] * 3
    assert now.drop(columns=[*SUSTAINED]).equals(rested.drop(columns=[*SUSTAINED]))


def test_rows_without_a_case_stay(record, monkeypatch):
    record("bench")
    fewer, more = bench.recorded_points()[1:], sweeps.points(["02_tiled"], [("seq_len", [64])])
    monkeypatch.setattr(bench, "recorded_points", lambda: [*more, *fewer])
    assert len(record("bench")) == 1 and len(bench.recorded()[GPU.name][0]) == 5


def test_without_a_gpu_measuring_ends_at_once(monkeypatch):
    def submit(*args, **more):
        raise BackendUnavailable("No GPU was found.")

    monkeypatch.setattr(workers, "submit", submit)
    with pytest.raises(BackendUnavailable):
        cli.TABLES["patterns"](GPU, silent, True)


def test_the_command_goes_on_unless_it_is_told_to_start_anew(monkeypatch, capsys, tmp_path):
    asked = []
    monkeypatch.setattr(workers, "survey", lambda: SimpleNamespace(pick=lambda backend: GPU))
    monkeypatch.setitem(cli.TABLES, "duels", lambda device, progress, anew: asked.append(anew) or [tmp_path])
    assert cli.main(["measure", "duels"]) == cli.main(["measure", "--anew", "duels"]) == cli.OK
    assert asked == [False, True] and capsys.readouterr().out == f"{tmp_path}\n" * 2


def test_an_unknown_table_or_op_is_bad_usage_also_without_a_gpu(capsys):
    for command in (["measure", "duel"], ["calibrate", "--op", "duel"]):
        assert cli.main(command) == cli.USAGE
    assert "There is no table 'duel'; there are hierarchy, cycles" in capsys.readouterr().err


@pytest.mark.skipif("gpu" in workers.survey().devices, reason="this machine has a GPU")
def test_without_a_gpu_measure_exits_3():
    assert cli.main(["measure", "duels"]) == cli.main(["measure"]) == cli.NO_GPU == 3


def test_the_progress_counts_the_recorded_cases(record, worker):
    told = []
    record("chains", breaks=2)
    worker.breaks = None
    chains.TABLE.record(GPU, lambda *said: told.append(said[:2]))
    assert told == [(6, 12), (9, 12), (12, 12)]  # keys: three rows a case


def test_a_calibration_measures_the_ops_it_is_asked_for_and_the_others_stay(tmp_path, monkeypatch):
    asked = []

    def measured(problems):
        (op,) = {problem.op for problem in problems}
        asked.append(op)
        return pd.DataFrame([dict.fromkeys(calibration.COLUMNS, 1) | {"op": op}])

    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(calibration, "measure", measured)
    calibration.TABLE.record(GPU, only=calibration.METRICS)
    assert asked == [*calibration.METRICS]
    calibration.TABLE.record(GPU, only=["ldmatrix"])
    assert asked[len(calibration.METRICS) :] == ["ldmatrix"]
    assert set(calibration.recorded()[GPU.name][0].op) == {*calibration.METRICS}


@pytest.mark.parametrize("kind", sorted(path.name for path in tables.FOLDER.iterdir() if path.is_dir()))
def test_each_committed_table_is_read_and_a_present_row_is_a_row_of_its_file(kind):
    known = {"bench": bench.TABLE, "calibration": calibration.TABLE, "chains": chains.TABLE, "duels": duels.TABLE}
    known |= {"gradient_duels": gradient_duels.TABLE, "patterns": pattern_cycles.TABLE, **hierarchy.TABLES}
    assert not tables.left_out(kind)
    for device, (rows, where) in tables.recorded(kind).items():
        assert len(rows) and where.device == device
        if kind in known and device in known[kind].recorded():
            present, again = known[kind].recorded()[device]
            assert again == where and set(present) == set(rows)
            written, read = ({*table.astype(str).itertuples(index=False)} for table in (rows, present[[*rows]]))
            assert read <= written
