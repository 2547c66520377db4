"""The index of recordings of single requests: it reads a file once, and follows the files and the catalogue."""

from dataclasses import replace

import pytest

from kernels.catalog import current
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.recordings import packed, tables
from kernels.recordings.requests import RecordedRequest, Recordings, header_of

ONE, SHARED = (
    Recordings(noun, RecordedRequest, "no_cases", str, str, (), shared)
    for noun, shared in (("note", False), ("verse", True))
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return tmp_path


def request_of(name="03_flash", **fields):
    return Request(current().kernels[name], DenseProblem(**fields))


def header(request, **said):
    return header_of(request) | {"device": "X", "date": "2026-11-21", **said}


def write(folder, name, request, **said):
    packed.write(folder / "notes" / "X" / name, {}, header(request, **said))


def test_an_unchanged_file_is_read_once(folder, monkeypatch):
    write(folder, "a.parquet", request_of(), color="red")
    (entry,) = ONE.all()
    monkeypatch.setattr(packed, "read_header", lambda path: pytest.fail("it is read again"))
    assert ONE.all() == [entry] and entry.said == {"color": "red"} and ONE.left_out() == []


def test_the_index_follows_new_changed_and_removed_files(folder):
    assert ONE.all() == []
    write(folder, "a.parquet", request_of())
    write(folder, "b.parquet", request_of("01_naive"))
    assert [entry.kernel for entry in ONE.all()] == ["01_naive", "03_flash"]
    (folder / "notes" / "X" / "b.parquet").write_bytes(b"half a fi")
    assert [entry.kernel for entry in ONE.all()] == ["03_flash"]
    (reason,) = ONE.left_out()
    assert reason.startswith("b.parquet is no note: ") and reason.endswith(f"{tables.REMEDY}.")
    (folder / "notes" / "X" / "a.parquet").unlink()
    assert ONE.all() == []


def test_the_index_follows_the_catalogue(folder, monkeypatch):
    write(folder, "a.parquet", request_of())
    (entry,) = ONE.all()
    spec = entry.request.kernel
    other = replace(spec, files=((spec.files[0][0], f"{spec.source}\nint x;"), *spec.files[1:]))
    monkeypatch.setitem(current().kernels, spec.name, other)
    assert ONE.all() == []
    assert ONE.left_out() == ["The note a.parquet on X is of another code of 03_flash."]


def test_a_shared_file_has_several_recordings_by_name(folder):
    entries = {name: header(request_of(name)) for name in ("03_flash", "01_naive")}
    packed.write(folder / "verses" / "X.parquet", {}, {"verses": entries})
    packed.write(folder / "verses" / "Y.parquet", {}, {})
    assert [entry.kernel for entry in SHARED.all()] == ["01_naive", "03_flash"]
    (reason,) = SHARED.left_out()
    assert reason.startswith("Y.parquet has no verses: ")


def test_a_missing_recording_is_told_with_the_kernels_others(folder):
    write(folder, "a.parquet", request_of(seq_len=96))
    assert [entry.problem.seq_len for entry in ONE.of(request_of(seq_len=96))] == [96]
    with pytest.raises(ProblemError, match=r"No note of 03_flash at .*\(03_flash: seq_len 96\).* measure notes"):
        ONE.of(request_of(seq_len=97))
