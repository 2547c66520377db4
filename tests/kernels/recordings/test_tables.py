"""Tables of measurements: their format, their provenance, and that reading them needs no GPU."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from kernels.errors import TraceError
from kernels.recordings import tables

TABLE = pd.DataFrame({"name": ["a", "b"], "median_us": [1.5, None]})
WHERE = tables.Provenance("NVIDIA X", "580.1", "2026-11-21", codes={"a": "12"}, more={"profiler": "Nsight Compute"})


def test_a_table_is_read_back_as_it_was_written(tmp_path):
    path = tables.save(TABLE, tmp_path / "deep" / "t.csv", WHERE)
    made, where = tables.load(path)
    assert made.equals(TABLE) and where == WHERE
    assert [p.name for p in path.parent.iterdir()] == ["t.csv"]
    assert '"format": 2' in path.read_text().splitlines()[0]


def test_a_changed_file_is_read_again(tmp_path):
    path = tables.save(TABLE, tmp_path / "t.csv", WHERE)
    assert len(tables.load(path)[0]) == 2
    tables.save(TABLE.head(1), path, WHERE)
    assert len(tables.load(path)[0]) == 1


@pytest.mark.parametrize("version", ["", '"format": 1, ', '"format": 3, '])
def test_a_table_of_another_format_is_refused_with_what_to_do(tmp_path, version):
    path = tmp_path / "t.csv"
    path.write_text(f'# {{{version}"device": "X", "driver": "D", "date": "2026-01-01"}}\nname\na\n')
    with pytest.raises(TraceError, match=r"t.csv has format \d, and this program reads format 2. Measure it again"):
        tables.load(path)


@pytest.mark.parametrize("text", ["", "# {", "# 7\na\n", '# {"format": 2}\nname\na\n', "name\na\n", "\0"])
def test_a_file_that_is_no_table_is_refused(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match="t.csv is not a table of measurements: .*Restore it, or measure it again"):
        tables.load(path)
    with pytest.raises(TraceError, match="is not a table"):
        tables.load(tmp_path / "none.csv")


@pytest.mark.parametrize("harm", ["a row less", "cut", "a digit changed", "no rows"])
def test_a_table_whose_rows_are_not_those_that_were_written_is_refused(tmp_path, harm):
    path = tables.save(TABLE, tmp_path / "t.csv", WHERE)
    first, columns, *rows = path.read_text().splitlines(keepends=True)
    harmed = {"a row less": rows[:1], "cut": [rows[0], rows[1][:1]], "a digit changed": ["a,1.6\n", rows[1]]}
    path.write_text("".join([first, columns, *harmed.get(harm, [])]))
    with pytest.raises(TraceError, match="t.csv is not a table of measurements: its rows are not as they were writ"):
        tables.load(path)


def test_a_table_of_before_that_has_no_hash_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('# {"format": 2, "device": "X", "driver": "D", "date": "2026-01-01"}\nname\na\n')
    assert list(tables.load(path)[0].name) == ["a"]


def test_each_gpu_has_a_file_of_its_own_and_what_cannot_be_read_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    for device, date in (("NVIDIA A", "2026-01-01"), ("NVIDIA B/2", "2026-02-02")):
        tables.save(TABLE, tables.path_of("calibration", device), replace(WHERE, device=device, date=date))
    (tmp_path / "calibration" / "Torn.csv").write_text("# {")
    assert list(tables.recorded("calibration")) == ["NVIDIA B/2", "NVIDIA A"]
    assert len(tables.left_out("calibration")) == 1 and tables.recorded("occupancy") == {}
    assert tables.unreadable() == tables.left_out("calibration")


def test_provenance_holds_what_a_kind_adds():
    device = SimpleNamespace(name="NVIDIA X", driver="D")
    where = tables.provenance(device, {"a": "12"}, compiler="NVRTC 13.0", arch="sm_90a")
    assert (where.device, where.codes, where.compiler, where.more) == (
        "NVIDIA X",
        {"a": "12"},
        "NVRTC 13.0",
        {"arch": "sm_90a"},
    )
    assert tables.Provenance.from_json(where.as_json()) == where


def test_reading_recorded_tables_needs_neither_torch_nor_cupy():
    code = """
import sys
for name in ("torch", "cupy", "pynvml", "cuda"):
    sys.modules[name] = None  # an import of it fails
from kernels.measure import bench, hierarchy, peers, protocol, timelines
from kernels.recordings import tables
bench.recorded(), bench.not_recorded(), timelines.recorded(), hierarchy.devices(), tables.recorded("calibration")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
