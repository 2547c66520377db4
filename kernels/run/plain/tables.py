"""The trace of a run with automatic probes: each access and barrier of the kernel, in the columns of every trace."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa

from kernels.build.plain.edits import dynamic_names
from kernels.build.plain.functions import line_of_kernel
from kernels.core.launch import Plan
from kernels.core.spec import KernelSpec
from kernels.run.plain.launches import LOG, Probed
from kernels.trace.automatic import BARRIER, PHASE, START
from kernels.trace.probes import Site, Sites
from kernels.trace.trace import Trace, assemble

EVENTS = ("load", "store", "atomic", BARRIER, "shuffle", START)  # enum simt_kind of device/simt/cuda/calls.h, and START
MARKS, SHUFFLE = (3, 5), 4
DYNAMIC = "shared memory"  # the runtime's name of all dynamic shared memory


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
    rows = _with_starts(rows[rows["what"] & 15 != SHUFFLE], _start(probed, kernel, plan.launches[number].entry))
    seq = _counted(rows)
    identity = (rows["place"].astype(np.uint64) << np.uint64(16)) | (rows["region"].astype(np.uint64) << np.uint64(8))
    kinds, place = np.unique(identity | rows["what"], return_inverse=True)
    symbols = _symbols(kernel, plan, number)
    listed = [_site(probed, symbols, int(k) >> 16, int(k) >> 8 & 255, int(k) & 255) for k in kinds]
    sites = Sites(tuple(listed) or (Site("", 0, "mark", START, (PHASE,)),))
    positions = {"launch": np.full(len(rows), number, np.int32), "block": rows["block"].astype(np.int32)}
    positions |= {"thread": rows["thread"].astype(np.int32), "seq": seq}
    is_mark = np.isin(rows["what"] & 15, MARKS)
    keys = {PHASE: pa.array(rows["offset"].astype(np.int32), mask=~is_mark)}
    return assemble(positions, place, keys, np.zeros(len(rows), np.float32), rows["offset"], sites)


def _start(probed: Probed, kernel: KernelSpec, entry: str) -> int:
    """The place of the first line of an entry."""
    file, line = line_of_kernel(kernel.files, entry)
    return probed.lines.place(file, line)


def _with_starts(rows: np.ndarray, place: int) -> np.ndarray:
    """The rows thread by thread, each thread with a START before its first row. Barriers are counted from 1."""
    threads = np.unique(rows[["block", "thread"]])
    starts = np.zeros(len(threads), LOG)
    starts["block"], starts["thread"], starts["place"], starts["what"] = (
        threads["block"],
        threads["thread"],
        place,
        EVENTS.index(START),
    )
    rows = np.concatenate([starts, rows])
    rows["offset"] += rows["what"] & 15 == EVENTS.index(BARRIER)
    later = rows["what"] & 15 != EVENTS.index(START)
    return rows[np.lexsort((rows["seq"], later, rows["thread"], rows["block"]))]


def _counted(rows: np.ndarray) -> np.ndarray:
    """Each row's number in its thread."""
    if not len(rows):
        return np.zeros(0, np.int32)
    new = np.concatenate(
        [[True], (np.diff(rows["block"].astype(np.int64)) != 0) | (np.diff(rows["thread"].astype(int)) != 0)]
    )
    first = np.flatnonzero(new)
    return (np.arange(len(rows)) - np.repeat(first, np.diff([*first, len(rows)]))).astype(np.int32)


def _site(probed: Probed, symbols: Mapping[tuple[str, str], str], place: int, region: int, what: int) -> Site:
    file, line = probed.lines.site(place)
    kind, width = what & 15, 1 << (what >> 4)
    if kind in MARKS:
        return Site(file, line, "mark", EVENTS[kind], (PHASE,), code_line=line)
    held = probed.regions[region]
    space = "shared" if held.shared else "global"
    name = symbols.get((space, held.name), held.name).removesuffix("_smem").removesuffix("_gmem")
    return Site(file, line, "access", EVENTS[kind], (), space, name, width, line)


def _symbols(kernel: KernelSpec, plan: Plan, number: int) -> dict[tuple[str, str], str]:
    """A launch's memory and tensor -> the name in the source. Dynamic shared memory has its array's name, if it has
    only one."""
    step, arrays = plan.launches[number], dynamic_names(kernel.files)
    found = {("global", arg): name for name, arg in zip(kernel.symbols(step.entry), step.args) if isinstance(arg, str)}
    return found | ({("shared", DYNAMIC): arrays[0]} if len(arrays) == 1 else {})
