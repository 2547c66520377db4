import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import small_tiles

from kernels.catalog import ATTENTION, KERNELS
from kernels.errors import TraceError
from kernels.execute import Request, Scope, run
from kernels.probes import RECORD, Site
from kernels.problem import AttentionProblem
from kernels.trace import RawRecords, Trace, decode

SITES = {3: Site(3, "value", "o", ("row", "tile", "dim")), 5: Site(5, "load", "load", ("tile",), "shared", "K", 16), 7: Site(7, "mark", "begin", ("tile",))}
COLUMNS = {"block", "thread", "warp", "lane", "seq", "line", "event", "row", "tile", "col", "value", "space", "tensor", "offset", "bytes"}


def raw(*threads, capacity=4):
    """RawRecords of one block from each thread's (payload, line, keys) records, kept up to the capacity."""
    records = np.zeros((len(threads), capacity), RECORD)
    for thread, made in enumerate(threads):
        for at, record in enumerate(made[:capacity]):
            records[thread, at] = record
    return RawRecords(0, 9, len(threads), records, np.array([len(made) for made in threads], np.uint32))


def test_records_decode_into_the_columns_their_line_declares():
    bits = int(np.float32(2.5).view(np.uint32))
    table = decode([raw([(0, 7, 4)], [(bits | 17 << 32, 3, 6 | 2 << 16), (640, 5, 1)])], SITES).table.to_pylist()
    mark, value, load = table
    assert (mark["block"], mark["thread"], mark["event"], mark["tile"], mark["value"], mark["offset"]) == (9, 0, "begin", 4, None, None)
    assert (value["thread"], value["event"], value["row"], value["tile"], value["dim"], value["value"]) == (1, "o", 6, 2, 17, 2.5)
    assert (load["seq"], load["space"], load["tensor"], load["offset"], load["bytes"], load["tile"], load["row"]) == (1, "shared", "K", 640, 16, 1, None)


def test_what_did_not_fit_is_counted():
    trace = decode([raw([(0, 7, n) for n in range(6)], [(0, 7, 0)], capacity=4)], SITES)
    assert (trace.table.num_rows, trace.lost) == (5, 2)


def test_records_of_another_source_are_refused():
    with pytest.raises(TraceError, match="lines that hold no probe"):
        decode([raw([(0, 4, 0)])], SITES)


def test_a_trace_survives_parquet_with_its_provenance(cpu_run, tmp_path):
    trace = cpu_run().trace
    trace.save(tmp_path / "a.parquet")
    again = Trace.load(tmp_path / "a.parquet")
    assert again.table.equals(trace.table) and again.provenance == trace.provenance and again.lost == 0
    assert {"kernel", "source_hash", "problem", "backend", "device", "driver", "compiler", "date"} <= set(again.provenance)
    assert set(pq.read_table(tmp_path / "a.parquet").column_names) >= COLUMNS


@pytest.mark.parametrize("name", KERNELS)
def test_two_runs_write_the_same_bytes(name, tmp_path):
    for file in ("a", "b"):
        run(Request(KERNELS[name], KERNELS[name].problem_type())).trace.save(tmp_path / file)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("content", [b"", b"not parquet", None])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "x.parquet"
    if content is None:
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.write_bytes(content)
    with pytest.raises(TraceError, match="x.parquet is not a Warpglass trace"):
        Trace.load(path)


@pytest.mark.parametrize("name", ATTENTION)
def test_every_element_of_o_in_scope_is_stored_once(name):
    problem = AttentionProblem(seq_len=50, heads=3)
    made = run(Request(KERNELS[name], problem, small_tiles(name), Scope(5, 2)))  # the second tile of head 1, and the next
    frame = made.trace.frame("tensor", "event", "space", "offset", "bytes")
    stores = frame[(frame.tensor == "O") & (frame.event == "store")]
    rows = [1 * 50 + r for r in range(16, 48)]
    stored = [int(at) // 4 + n for at, size in zip(stores.offset, stores.bytes) for n in range(int(size) // 4)]
    assert sorted(stored) == [row * 32 + d for row in rows for d in range(32)]
    assert (stores.space == "global").all()
