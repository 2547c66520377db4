"""Whether two backends ran the same: traces and outputs, within rounding."""

import numpy as np
import pyarrow as pa

from kernels.core.dtypes import element_type

AFTER_ROUNDING = (
    "o",
    "o_part",
    "o_after",
    "ds",
    "dk",
    "dv",
    "dq",
    "dq_part",
)  # events that follow a rounding to 16 bits


def assert_same(gpu, cpu):
    """gpu, cpu: Runs of one request. The same events, keys, lines, offsets and bytes; values within rounding."""
    request = gpu.request
    units = {t.name: _unit_of(t.dtype) for t in request.problem.outputs}
    waits = request.constants.get("WAIT", 1)  # without it, values are of whatever had come by then
    assert gpu.trace.lost == cpu.trace.lost == 0
    tables = gpu.trace.table, cpu.trace.table
    assert tables[0].column_names == tables[1].column_names
    if "range" in tables[0].column_names:
        tables = [_whoever_came_last(table) for table in tables]
    for column in tables[0].column_names:
        a, b = (table[column].combine_chunks() for table in tables)
        if column == "value":
            a, b = (x.fill_null(0).to_numpy() for x in (a, b))
            events = np.array(tables[0]["event"].to_pylist())
            for event in set(events) if waits else ():
                sums = event in AFTER_ROUNDING or bool(request.broken)
                unit = sums * max(units.values())
                _assert_near(event, a[events == event], b[events == event], request.broken, unit)
        else:
            assert a.equals(b) or a.to_pylist() == b.to_pylist(), column
    for tensor in request.problem.outputs:
        a, b = (run.arrays[tensor.name].astype(np.float64) for run in (gpu, cpu))
        if waits:
            _assert_near(tensor.name, a, b, request.broken, units[tensor.name])


def _unit_of(dtype):
    """The unit in the last place of 1 in a type of 16 bits; 0 of any other."""
    made = element_type(dtype)
    return 2.0 ** (1 - made.digits) if made.bytes == 2 else 0.0


def _assert_near(name, gpu, cpu, broken, unit):
    """Within 1e-5; of a what-if build, which sums numbers of 1e20 that cancel, within 1e-3. unit: or within half so
    much of the largest: a weight that was rounded to 16 bits the other way shifts every sum that it is in."""
    largest = np.abs(cpu[np.isfinite(cpu)]).max(initial=0)
    atol = max(1e-5, unit / 2 * largest)
    assert np.allclose(gpu, cpu, rtol=1e-3 if broken else 1e-5, atol=atol, equal_nan=True), name


def _whoever_came_last(table):
    """The records of a kernel that goes by ranges, in which the last block to arrive merges, without what says which
    block that was and when: a merge has no range. In an order that does not depend on it either."""
    frame = table.to_pandas()
    frame.loc[frame["range"].isna(), "block"] = -1
    keys = [name for name in frame.columns if name not in ("seq", "value")]
    said = frame[keys].astype(object).where(frame[keys].notna(), "").astype(str).assign(value=frame["value"])
    return pa.Table.from_pandas(said.sort_values([*keys, "value"]), preserve_index=False)
