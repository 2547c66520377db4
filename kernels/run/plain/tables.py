"""The trace of a run with automatic probes: each access and barrier of the kernel, in the columns of every trace."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa

from kernels.core.launch import Plan
from kernels.core.spec import KernelSpec
from kernels.run.plain.launches import Probed
from kernels.trace.probes import Site, Sites
from kernels.trace.trace import Trace, assemble

EVENTS = ("load", "store", "atomic", "barrier", "shuffle")  # enum simt_kind of device/simt/cuda/calls.h
BARRIER, SHUFFLE = 3, 4
PHASE = "phase"  # the key of a barrier: its number in the thread


def trace(probed: Probed, kernel: KernelSpec, plan: Plan, provenance: Mapping[str, str]) -> Trace:
    """The Trace of a run. Shuffles have no column of their own, so it leaves them out."""
    tables = [_launch(probed, number, kernel, plan) for number in range(len(probed.logs))]
    return Trace(pa.concat_tables(tables), sum(log.lost for log in probed.logs), dict(provenance))


def traffic(trace: Trace) -> pd.DataFrame:
    """Accesses and bytes by tensor, space and kind."""
    frame = trace.frame("tensor", "space", "event", "bytes")
    frame = frame[frame.space.notna()].rename(columns={"event": "kind"})
    sums = frame.groupby(["tensor", "space", "kind"], as_index=False, observed=True)["bytes"].agg(["size", "sum"])
    table = sums.rename(columns={"size": "accesses", "sum": "bytes"}).reset_index(drop=True)
    return table.astype({"tensor": str, "space": str, "kind": str})


def _launch(probed: Probed, number: int, kernel: KernelSpec, plan: Plan) -> pa.Table:
    rows = probed.logs[number].rows
    rows = rows[rows["what"] & 15 != SHUFFLE]
    rows = rows[np.lexsort((rows["seq"], rows["thread"], rows["block"]))]
    seq = _counted(rows)
    identity = (rows["place"].astype(np.uint64) << np.uint64(16)) | (rows["region"].astype(np.uint64) << np.uint64(8))
    kinds, place = np.unique(identity | rows["what"], return_inverse=True)
    symbols = _symbols(kernel, plan, number)
    listed = [_site(probed, symbols, int(k) >> 16, int(k) >> 8 & 255, int(k) & 255) for k in kinds]
    sites = Sites(tuple(listed) or (Site("", 0, "mark", EVENTS[BARRIER], (PHASE,)),))
    positions = {"launch": np.full(len(rows), number, np.int32), "block": rows["block"].astype(np.int32)}
    positions |= {"thread": rows["thread"].astype(np.int32), "seq": seq}
    is_barrier = rows["what"] & 15 == BARRIER
    keys = {PHASE: pa.array(rows["offset"].astype(np.int32), mask=~is_barrier)} if PHASE in sites.keys else {}
    table = assemble(positions, place, keys, np.zeros(len(rows), np.float32), rows["offset"], sites)
    return table if keys else table.append_column(PHASE, pa.nulls(len(rows), pa.int32())).select(_order(table))


def _order(table: pa.Table) -> list[str]:
    """The columns with the key before the value, as in a table with barriers."""
    names = table.column_names
    at = names.index("value")
    return [*names[:at], PHASE, *names[at:]]


def _counted(rows: np.ndarray) -> np.ndarray:
    """Each row's number in its thread."""
    if not len(rows):
        return np.zeros(0, np.int32)
    new = np.concatenate(
        [[True], (np.diff(rows["block"].astype(np.int64)) != 0) | (np.diff(rows["thread"].astype(int)) != 0)]
    )
    first = np.flatnonzero(new)
    return (np.arange(len(rows)) - np.repeat(first, np.diff([*first, len(rows)]))).astype(np.int32)


def _site(probed: Probed, symbols: Mapping[str, str], place: int, region: int, what: int) -> Site:
    file, line = probed.lines.site(place)
    kind, width = what & 15, 1 << (what >> 4)
    if kind == BARRIER:
        return Site(file, line, "mark", EVENTS[kind], (PHASE,), code_line=line)
    held = probed.regions[region]
    name = symbols.get(held.name, held.name).removesuffix("_smem").removesuffix("_gmem")
    space = "shared" if held.shared else "global"
    return Site(file, line, "access", EVENTS[kind], (), space, name, width, line)


def _symbols(kernel: KernelSpec, plan: Plan, number: int) -> dict[str, str]:
    """A launch's tensor -> the name of its parameter."""
    step = plan.launches[number]
    return {arg: name for name, arg in zip(kernel.symbols(step.entry), step.args) if isinstance(arg, str)}
