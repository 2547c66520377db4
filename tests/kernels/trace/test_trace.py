import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import one_of_each_family, small_tiles

from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import TraceError
from kernels.run.execute import run
from kernels.trace.probes import RECORD, Site, Sites, site_word
from kernels.trace.trace import FORMAT, RawRecords, Trace, decode

SITES = Sites(
    (
        Site("x.cu", 3, "value", "o", ("row", "tile", "dim")),
        Site("x.cu", 7, "mark", "begin", ("tile",)),
        Site("x.cu", 9, "role", "producer"),
        Site("h.cuh", 3, "access", "load", ("tile",), "shared", "K", 16),
    )
)
COLUMNS = (
    *("launch", "block", "thread", "warp", "lane", "seq", "file", "line", "event", "role"),
    *("row", "tile", "dim", "value", "space", "tensor", "offset", "bytes"),
)
O, MARK, ROLE, LOAD = (site.word for site in SITES)


def raw(*threads, capacity=4):
    """RawRecords of one block from each thread's (payload, site, keys) records, kept up to the capacity."""
    records = np.zeros((len(threads), capacity), RECORD)
    for thread, made in enumerate(threads):
        for at, record in enumerate(made[:capacity]):
            records[thread, at] = record
    return RawRecords(0, 9, len(threads), records, np.array([len(made) for made in threads], np.uint32))


def test_records_decode_into_the_columns_of_their_line_with_roles_and_what_did_not_fit():
    bits = int(np.float32(2.5).view(np.uint32))
    found = decode([raw([(0, MARK, 4)], [(bits | 17 << 32, O, 6 | 2 << 16), (640, LOAD, 1)])], SITES).table
    assert tuple(found.column_names) == COLUMNS
    mark, value, load = found.to_pylist()
    assert [mark[name] for name in ("block", "thread", "event", "tile", "value", "offset", "role")] == [
        9,
        0,
        "begin",
        4,
        None,
        None,
        None,
    ]
    assert [value[name] for name in ("thread", "event", "row", "tile", "dim", "value")] == [1, "o", 6, 2, 17, 2.5]
    assert [load[name] for name in ("seq", "file", "line", "space", "tensor")] == [1, "h.cuh", 3, "shared", "K"]
    assert [load[name] for name in ("offset", "bytes", "tile", "row")] == [640, 16, 1, None]
    found = decode([raw([(0, MARK, 1), (0, ROLE, 0), (0, MARK, 2)], [(0, MARK, 3)])], SITES).table
    assert found["role"].to_pylist() == [None, "producer", "producer", None]
    trace = decode([raw([(0, MARK, n) for n in range(6)], [(0, MARK, 0)], capacity=4)], SITES)
    assert (trace.table.num_rows, trace.lost) == (5, 2)


@pytest.mark.parametrize("word", [site_word("x.cu", 4), site_word("x.cu", 10), site_word("y.cu", 3), 0, 0xFFFFFFFF])
def test_records_of_another_source_are_refused(word):
    with pytest.raises(TraceError, match="lines that hold no probe"):
        decode([raw([(0, MARK, 0)], [(0, word, 0)])], SITES)
    with pytest.raises(TraceError, match="lines that hold no probe"):
        decode([raw([(0, word, 0)])], Sites(()))


def test_a_record_finds_its_site_and_a_trace_survives_parquet_with_its_provenance(cpu_run, tmp_path):
    table = decode([raw([(0, LOAD, 0), (0, O, 0), (0, MARK, 0)])], SITES).table
    assert SITES.index(table).tolist() == [3, 0, 1]
    assert SITES.index(pa.concat_tables([table, table.slice(1)])).tolist() == [3, 0, 1, 0, 1]
    with pytest.raises(TraceError, match="names x.cu:7, a line without a probe"):
        Sites((SITES[0], SITES[3])).index(table)
    trace = cpu_run().trace
    trace.save(tmp_path / "a.parquet")
    again = Trace.load(tmp_path / "a.parquet")
    assert again.table.equals(trace.table) and again.provenance == trace.provenance and again.lost == 0
    assert {"kernel", "code_hash", "problem", "backend", "device", "driver", "compiler", "date"} <= set(
        again.provenance
    )
    assert set(pq.read_table(tmp_path / "a.parquet").column_names) >= set(COLUMNS) - {"dim"}


# ---- files ----


@pytest.mark.parametrize("name", one_of_each_family(KERNELS))
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


@pytest.mark.parametrize("version", [None, FORMAT - 1, FORMAT + 1])
def test_a_trace_of_another_version_is_refused_with_what_to_do(tmp_path, version):
    path = tmp_path / "x.parquet"
    said = {"lost": 0} | ({} if version is None else {"format": version})
    table = decode([raw([(0, MARK, 0)])], SITES).table
    pq.write_table(table.replace_schema_metadata({b"warpglass": json.dumps(said).encode()}), path)
    with pytest.raises(
        TraceError,
        match=f"x.parquet is a trace of format {version or 1}. .* reads format {FORMAT}. Make it anew with python -m",
    ):
        Trace.load(path)


@pytest.mark.parametrize("name", current().of_family("dense"))
def test_every_element_of_o_in_scope_is_stored_once(name):
    spec = KERNELS[name]
    tile = dict(small_tiles(name)).get("BLOCK_Q", 16)
    length = 3 * tile + 2
    problem = spec.problem_type(seq_len=length, num_heads=3)
    made = run(Request(spec, problem, small_tiles(name), Scope(5, 2)))  # the second tile of head 1, and the next
    frame = made.trace.frame("tensor", "event", "space", "offset", "bytes")
    stores = frame[(frame.tensor == "O") & (frame.event == "store")]
    dims, item = problem.head_dim, made.request.plan.tensor("o").itemsize
    rows = [1 * length + r for r in range(tile, 3 * tile)]
    stored = [int(at) // item + n for at, size in zip(stores.offset, stores.bytes) for n in range(int(size) // item)]
    assert sorted(stored) == [row * dims + d for row in rows for d in range(dims)]
    assert (stores.space == "global").all()
