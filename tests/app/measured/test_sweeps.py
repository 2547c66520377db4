"""Sweeps of O's error: what is asked of a GPU, and a table that is written and read back (here of runs on the CPU)."""

import runpy
from types import SimpleNamespace

import pytest
from pages import page_of

from app.choices.links import read_link
from app.measured import sweeps
from app.stories import precision as page
from explainers.stories.precision import error_tables, rounding
from explainers.stories.precision.rounding import label_of
from kernels.recordings import tables
from kernels.run import execute, workers

DEVICE = SimpleNamespace(name="a CPU", driver="none")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return tmp_path


def test_a_gpu_is_asked_for_every_type_and_the_first_optimistic_rung():
    requests = sweeps.asked()
    assert {"float32", "float32 as 3 bfloat16", "bfloat16", "float16"} == {label_of(r) for r in requests}
    last = [r for r in requests if r.kernel.rung == max(r.kernel.rung for r in requests)]
    assert {r.problem.dtype for r in last} == {"float16", "bfloat16"} and len(requests) == len(set(requests)) == 6
    for request in requests:
        assert request.backend == "gpu" and request.problem.seq_len == sweeps.BEGIN["seq_len"]
        tuned, chosen = request.kernel.settings_for(request.problem), dict(request.settings)
        assert chosen.pop("KEY_GROUPS", 1) == 1  # a replay follows one group of warps
        assert chosen == {name: value for name, value in tuned.items() if name != "KEY_GROUPS"}


def test_a_table_is_written_read_back_and_shown(folder, monkeypatch):
    values = {"score_scale": {"cpu": (0.3, 3.0)}, "seq_len": {"cpu": (16, 40)}}
    monkeypatch.setattr(sweeps, "VALUES", values)
    monkeypatch.setattr(sweeps, "BEGIN", {"seq_len": 32, "head_dim": 64, "num_heads": 1})
    requests = [r for r in sweeps.asked("cpu") if r.kernel.name[:2] in ("03", "06")]
    assert len(requests) == 3
    monkeypatch.setattr(sweeps, "asked", lambda: requests[:1])
    (path,) = sweeps.TABLE.record(DEVICE)
    before = path.read_text().splitlines()[1:]
    monkeypatch.setattr(sweeps, "asked", lambda: requests)
    assert sweeps.TABLE.record(DEVICE) == [path] and path.parent == folder / sweeps.KIND
    assert {*before} <= {*path.read_text().splitlines()}  # the second call measured only the other two
    found, where = sweeps.recorded()
    assert where.device == "a CPU" and len(found) == 3 * 4
    for field, asked in values.items():
        shown = sweeps.recorded_sweep(found, field)
        assert list(shown.columns) == list(error_tables.sweep_table(field, [rounding.replay(execute.run(requests[0]))]))
        assert sorted(set(shown[field])) == list(asked["cpu"])
        for request in requests:
            name = f"{label_of(request)}, {request.kernel.name}"
            due = error_tables.sweep_table(
                field, [rounding.replay(execute.run(r)) for r in sweeps.swept(request, field)]
            )
            mine = shown[shown["computes in"] == name]
            assert mine["RMS error of O"].to_numpy() == pytest.approx(due["RMS error of O"].to_numpy(), rel=1e-9)
            assert list(mine["most of it"]) == list(due["most of it"])
    state, _ = read_link(page_of("precision"), {"kernel": "06_mma", "seq_len": "32", "num_heads": "1"})
    headings = [
        b["text"] for b in page.sweep_tab(page.subject(page_of("precision"), state, "cpu")) if b["kind"] == "heading"
    ]
    assert headings == ["Over score_scale", "Over seq_len", "Over score_scale, on a CPU", "Over seq_len, on a CPU"]


def test_rows_of_other_code_are_left_out(folder, monkeypatch):
    monkeypatch.setattr(sweeps, "VALUES", {"score_scale": {"cpu": (1.0,)}})
    monkeypatch.setattr(sweeps, "BEGIN", {"seq_len": 32, "head_dim": 64, "num_heads": 1})
    (request,) = [r for r in sweeps.asked("cpu") if r.kernel.name.startswith("03")]
    monkeypatch.setattr(sweeps, "asked", lambda: [request])
    (path,) = sweeps.TABLE.record(DEVICE)
    table, where = tables.load(path)
    tables.save(table.assign(code_hash="other"), path, where)
    assert sweeps.recorded() is None


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(workers, "stop", lambda: None)  # other tests use them
    with pytest.raises(SystemExit, match="3"):
        runpy.run_module("app.sweeps", run_name="__main__")
    assert "No GPU was found" in capsys.readouterr().err
