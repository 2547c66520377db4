"""The compact form of a trace's table, for recordings. Close numbers are next to each other, and the columns that
follow from a record's probe are left out.

Rows are sorted by event, keys, launch, block, warp, seq and lane. If two kernels log equal values for equal keys,
their columns of values are equal. A trace's own order is by launch, block, thread and seq, which is unique.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kernels.trace.probes import Sites
from kernels.trace.trace import Trace, assemble

POSITIONS = ("launch", "block", "thread", "seq")
Columns = dict[str, pa.Array]


def compact(trace: Trace, sites: Sites) -> tuple[Columns, pa.Array]:
    """(columns, values) of a trace: one row of columns per record, and the values of the records that have one.

    columns: launch, block, thread, seq, probe (its number in `sites`), each key, offset.
    values: float32, in the order of the columns' rows.
    """
    table = trace.table.combine_chunks()
    place = sites.index(table)
    columns = {name: _array(table[name]) for name in (*POSITIONS, *sites.keys, "offset")}
    columns["probe"] = pa.array(place.astype(np.int32))
    launch, block, thread, seq = (columns[name].to_numpy() for name in POSITIONS)
    events = sorted({site.event for site in sites})
    event = np.array([events.index(site.event) for site in sites], np.int32).take(columns["probe"].to_numpy())
    keys = [columns[name].fill_null(-1).to_numpy() for name in sorted(sites.keys)]
    order = pa.array(np.lexsort((thread & 31, seq, thread >> 5, block, launch, *reversed(keys), event)))
    values = _array(table["value"]).take(order).drop_null()
    return {name: column.take(order) for name, column in columns.items()}, values


def restore(columns: pa.Table, values: pa.Array, probes: Sequence[int], sites: Sites) -> pa.Table:
    """The table of the Trace behind the result of `compact`.

    probes: the present number in `sites` of each probe of the columns. A change of the source may have moved it.
    """
    place = np.array(probes, np.int64).take(columns["probe"].to_numpy())
    value = np.zeros(len(place), np.float32)
    value[np.array([site.kind == "value" for site in sites], bool).take(place)] = values.to_numpy()
    positions = {name: columns[name].to_numpy() for name in POSITIONS}
    order = _own_order(*positions.values())
    keys = {name: _array(columns[name]).take(pa.array(order)) for name in sites.keys}
    offset = columns["offset"].fill_null(0).to_numpy()
    positions = {name: column[order] for name, column in positions.items()}
    return assemble(positions, place[order], keys, value[order], offset[order], sites)


def _own_order(launch: np.ndarray, block: np.ndarray, thread: np.ndarray, seq: np.ndarray) -> np.ndarray:
    """The order by launch, block, thread and seq. It sorts one number per record, because that is faster than four."""
    number = launch.astype(np.int64)
    for part in (block, thread, seq):
        number = number * (int(part.max(initial=0)) + 1) + part
    return np.argsort(number)


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
