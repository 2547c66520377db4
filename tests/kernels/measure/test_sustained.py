"""Sustained times are added to recorded rows: which rows, in which groups, and that nothing else changes."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from kernels import __main__ as cli
from kernels import catalog
from kernels.errors import ProblemError, RunTimeout
from kernels.families.dense.problem import DenseProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import bench, bench_rows, load, peers, reports, sustained
from kernels.measure.bench_rows import SUSTAINED
from kernels.measure.protocol import Point, Timing
from kernels.recordings import tables

ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 600.0}
WHERE = tables.Provenance("X", "D", "2026-11-21", torch="T", roofs=ROOFS)
DEVICE = SimpleNamespace(name="X", driver="E")


def entry(name, problem):
    spec = catalog.KERNELS.get(name)
    settings = tuple(spec.settings_for(problem).items()) if spec else ()
    made = Timing(Point(name, problem, settings), "ok", "", 50, 10.0, 9.0, 12.0, moved_bytes=1000)
    return {**bench_rows.row(made, WHERE.roofs), "code_hash": spec.code_hash if spec else ""}


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A recorded table of five rows, and a worker whose sustained times count up: the groups that it was given."""
    dense, sixteen = DenseProblem(seq_len=128), SixteenBitProblem(4096, 128, causal=True)
    rows = [entry("03_flash", dense), entry("11_overlap", sixteen), entry("sdpa_cudnn", sixteen)]
    rows += [entry("flashinfer_nhd_fa3", sixteen), {**entry("02_tiled", dense), "code_hash": "former"}]
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(peers, "installed", lambda name: "flashinfer" not in name)
    made = bench_rows.table(rows).drop(columns=list(SUSTAINED))  # as it was recorded before
    tables.save(made, tables.path_of("bench", "X"), WHERE)
    groups = []

    def submit(function, points, **more):
        groups.append([point.name for point in points])
        if groups == [["11_overlap", "sdpa_cudnn"], ["03_flash"]]:
            raise RunTimeout("stopped")
        made = [replace(Timing(p, "ok"), sustained=load.Sustained(11.0, 10.0, 13.0, 1500, 690)) for p in points]
        return SimpleNamespace(result=lambda: made)

    monkeypatch.setattr("kernels.run.workers.submit", submit)
    return groups


def test_only_rows_of_present_code_and_installed_peers_get_them_and_no_rested_time_changes(worker):
    before, _ = tables.load(tables.path_of("bench", "X"))
    (path,) = sustained.record(DEVICE, families=["tensor_cores"])
    assert worker == [["11_overlap", "sdpa_cudnn"]]
    made, where = reports.load_kept(path)
    assert made[list(before)].equals(before) and list(made.sustained_us.notna()) == [False, True, True, False, False]
    assert list(made.loc[1, list(SUSTAINED)]) == [11.0, 10.0, 13.0, 1500, 690]
    assert where.date == WHERE.date and where.more["sustained"]["driver"] == "E"
    sustained.record(DEVICE, names=["sdpa_cudnn"])
    assert len(worker) == 1  # all there
    sustained.record(DEVICE, names=["sdpa_cudnn"], anew=True)
    assert worker[1:] == [["sdpa_cudnn"]]


def test_a_group_that_fails_leaves_its_rows_without_and_the_next_call_goes_on(worker):
    sustained.record(DEVICE, families=["tensor_cores"])
    sustained.record(DEVICE)
    assert worker[1:] == [["03_flash"]]
    sustained.record(DEVICE)
    made, _ = reports.load_kept(tables.path_of("bench", "X"))
    assert worker[2:] == [["03_flash"]] and list(made.sustained_us.notna()) == [True, True, True, False, False]


def test_a_peer_is_asked_only_on_problems_of_the_kernels_that_are_named(worker):
    sustained.record(DEVICE, names=["03_flash", "sdpa_cudnn"])
    assert worker == [["03_flash"]]


def test_the_command_takes_families_and_names(monkeypatch, capsys):
    asked = []
    survey = SimpleNamespace(pick=lambda backend: DEVICE)
    monkeypatch.setattr(cli.workers, "survey", lambda: survey)
    monkeypatch.setattr(sustained, "record", lambda device, progress, **more: asked.append(more) or ["a path"])
    assert cli.main(["measure", "--sustained", "tensor_cores", "11_overlap"]) == cli.OK
    assert asked == [{"families": ["tensor_cores"], "names": ["11_overlap"]}] and capsys.readouterr().out == "a path\n"


def test_a_name_that_is_nothing_is_refused(worker):
    with pytest.raises(ProblemError, match="No family, kernel or peer has the name warp_drive"):
        sustained.record(DEVICE, names=["warp_drive"])


def test_every_recorded_row_is_the_point_that_it_was():
    """The text of a row's problem and settings gives the Point again: no row is lost on the way."""
    for made, _ in bench.recorded().values():
        found = dict(sustained._points(made, (), ()))
        here = made["name"].map(lambda name: name in catalog.KERNELS or peers.installed(name))
        timed = made[(made.status == "ok") & here]
        assert set(found) == set(timed.index)
        for at, point in list(found.items())[:: max(1, len(found) // 40)]:
            assert bench_rows.problem_text(point.problem) == made.problem[at] and point.name == made["name"][at]
            assert pd.isna(made.settings[at]) or bench_rows.settings_text(point.settings) == made.settings[at]
