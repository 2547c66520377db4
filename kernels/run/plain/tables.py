"""The trace of a run with automatic probes: each access and barrier of the kernel, in the columns of every trace."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa

from kernels.build.plain import watching
from kernels.build.plain.edits import dynamic_names
from kernels.build.plain.lines import LINE_BITS
from kernels.build.plain.tokens import line_of_kernel
from kernels.core.distinct import distinct
from kernels.core.launch import Place, Plan
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import RunError
from kernels.run.plain.launches import LOG, Probed
from kernels.trace.automatic import BARRIER, PHASE, START
from kernels.trace.probes import Site, Sites
from kernels.trace.trace import Trace, assemble

EVENTS = ("load", "store", "atomic", BARRIER, "shuffle", START)  # enum simt_kind of device/simt/cuda/calls.h
MARKS, SHUFFLE, VALUE, KEY = (3, 5), 4, 6, 7
SHARED_BYTES = 2**24  # more than any shared array has
DYNAMIC = "shared memory"  # the runtime's name of all dynamic shared memory


def trace(probed: Probed, kernel: KernelSpec, plan: Plan, provenance: Mapping[str, str]) -> Trace:
    """The Trace of a run. Shuffles have no column of their own, so it leaves them out."""
    tables = [_launch(probed, number, kernel, plan) for number in range(len(probed.logs))]
    return Trace(pa.concat_tables(tables), sum(log.lost for log in probed.logs), dict(provenance))


def check_rows(probed: Probed, kernel: KernelSpec, plan: Plan, scope: Scope) -> None:
    """Raises RunError for a row that no run logs. A jailed kernel can write into its log."""
    tensors = {tensor.name: tensor.nbytes for tensor in plan.tensors}
    room = np.array([SHARED_BYTES if held.shared else tensors.get(held.name, 0) for held in probed.regions] or [0])
    for log, launch in zip(probed.logs, plan.launches):
        rows, (first, blocks) = log.rows, scope.blocks(launch, plan)
        kind, region = rows["what"] & 15, rows["region"].astype(int)
        of_mark, of_region = np.isin(kind, (VALUE, KEY)), kind < EVENTS.index(BARRIER)
        bytes_of = np.where(region < len(room), room[np.minimum(region, len(room) - 1)], 0)
        false = {
            "kind": (kind > KEY) | (kind == EVENTS.index(START)),
            "region": of_region & ((rows["offset"] < 0) | (rows["offset"] >= bytes_of)),
            "mark": of_mark & (region >= len(watching.marks(kernel))),
            "line": rows["place"] >> LINE_BITS >= len(probed.lines.files),
            "block": (rows["block"] < first) | (rows["block"] >= first + blocks),
            "thread": rows["thread"] >= launch.threads,
        }
        if said := [name for name, found in false.items() if found.any()]:
            raise RunError(
                f"The kernel wrote its own rows into the log of {launch.entry}: the run has no row with that "
                f"{said[0]}. Remove its calls of the runtime's functions."
            )


def traffic(trace: Trace) -> pd.DataFrame:
    frame = trace.frame("tensor", "space", "event", "bytes")
    frame = frame[frame.space.notna()].rename(columns={"event": "kind"})
    sums = frame.groupby(["tensor", "space", "kind"], as_index=False, observed=True)["bytes"].agg(["size", "sum"])
    table = sums.rename(columns={"size": "accesses", "sum": "bytes"}).reset_index(drop=True)
    return table.astype({"tensor": str, "space": str, "kind": str})


def _launch(probed: Probed, number: int, kernel: KernelSpec, plan: Plan) -> pa.Table:
    rows = probed.logs[number].rows
    file, line = line_of_kernel(kernel.files, plan.launches[number].entry)
    rows = rows[rows["what"] & 15 != SHUFFLE]
    # thread by thread, each thread with a START before its first row. Barriers are counted from 1
    threads = distinct(rows["block"].astype(np.int64) << 32 | rows["thread"])
    starts = np.zeros(len(threads), LOG)
    starts["block"], starts["thread"] = threads >> 32, threads & 0xFFFFFFFF
    starts["place"], starts["what"] = probed.lines.place(file, line), EVENTS.index(START)
    rows = np.concatenate([starts, rows])
    rows["offset"] += rows["what"] & 15 == EVENTS.index(BARRIER)
    later = rows["what"] & 15 != EVENTS.index(START)
    rows = rows[np.lexsort((rows["seq"], later, rows["thread"], rows["block"]))]
    marks = watching.marks(kernel)
    rows, keys = _keyed(rows, marks)
    seq = _counted(rows)
    identity = (rows["place"].astype(np.uint64) << np.uint64(16)) | (rows["region"].astype(np.uint64) << np.uint64(8))
    kinds, place = np.unique(identity | rows["what"], return_inverse=True)
    step, arrays = plan.launches[number], dynamic_names(kernel.files)
    given = zip(kernel.symbols(step.entry), (a.tensor if isinstance(a, Place) else a for a in step.args))
    named = ((name, arg) for name, arg in given if kernel.tensor_of_symbol.get(name.removesuffix("_gmem")) == arg)
    found = {("global", str(arg)): name for name, arg in named}
    symbols = found | ({("shared", DYNAMIC): arrays[0]} if len(arrays) == 1 else {})
    listed = [_site(probed, symbols, marks, int(k) >> 16, int(k) >> 8 & 255, int(k) & 255) for k in kinds]
    # Each launch has the same columns: the marks of all launches, then its own sites.
    all_keys = tuple(Site(mark.file, 0, "mark", START, (PHASE, *mark.keys)) for mark in marks)
    sites = Sites((Site("", 0, "mark", START, (PHASE,)), *all_keys, *listed))
    place += 1 + len(all_keys)
    positions = {"launch": np.full(len(rows), number, np.int32), "block": rows["block"].astype(np.int32)}
    positions |= {"thread": rows["thread"].astype(np.int32), "seq": seq}
    values = rows["offset"].astype(np.uint32).view(np.float32)
    return assemble(positions, place, keys, values, rows["offset"], sites)


def _keyed(rows: np.ndarray, marks: tuple[watching.Mark, ...]) -> tuple[np.ndarray, dict[str, pa.Array]]:
    """The rows without KEY, and the columns of the keys. A start or a barrier has the keys of the loop around it."""
    kind, mark_of = rows["what"] & 15, rows["region"].astype(int)
    is_mark, whole = np.isin(kind, MARKS), kind != KEY
    columns = {name: np.zeros(len(rows), np.int32) for name in (PHASE, *(k for mark in marks for k in mark.keys))}
    valid = {name: np.zeros(len(rows), bool) for name in columns}
    columns[PHASE], valid[PHASE] = rows["offset"].astype(np.int32), is_mark
    for number, mark in enumerate(marks):
        at = np.flatnonzero((kind == VALUE) & (mark_of == number))
        cut = at + len(mark.keys) >= len(rows)  # the log ended within the record
        whole[at[cut]] = False
        at = at[~cut]
        for place, name in enumerate(mark.keys, 1):
            columns[name][at], valid[name][at] = rows["offset"][at + place], True
    loops = [number for number, mark in enumerate(marks) if mark.event in watching.LOOPS]
    if loops:
        sets = (kind == EVENTS.index(START)) | (kind == VALUE) & np.isin(mark_of, loops)
        last = np.maximum.accumulate(np.where(sets, np.arange(len(rows)), 0))
        for name in {key for number in loops for key in marks[number].keys}:
            columns[name] = np.where(is_mark, columns[name][last], columns[name])
            valid[name] = np.where(is_mark, valid[name][last], valid[name])
    return rows[whole], {name: pa.array(columns[name][whole], mask=~valid[name][whole]) for name in columns}


def _counted(rows: np.ndarray) -> np.ndarray:
    if not len(rows):
        return np.zeros(0, np.int32)
    new = np.concatenate(
        [[True], (np.diff(rows["block"].astype(np.int64)) != 0) | (np.diff(rows["thread"].astype(int)) != 0)]
    )
    first = np.flatnonzero(new)
    return (np.arange(len(rows)) - np.repeat(first, np.diff([*first, len(rows)]))).astype(np.int32)


def _site(
    probed: Probed,
    symbols: Mapping[tuple[str, str], str],
    marks: tuple[watching.Mark, ...],
    place: int,
    region: int,
    what: int,
) -> Site:
    file, line = probed.lines.site(place)
    kind, width = what & 15, 1 << (what >> 4)
    if kind == VALUE:
        mark = marks[region]
        logs = "mark" if mark.event in watching.LOOPS else "value"
        return Site(mark.file, mark.line, logs, mark.event, mark.keys, code_line=mark.line)
    if kind in MARKS:
        return Site(file, line, "mark", EVENTS[kind], (PHASE,), code_line=line)
    held = probed.regions[region]
    space = "shared" if held.shared else "global"
    name = symbols.get((space, held.name), held.name).removesuffix("_smem").removesuffix("_gmem")
    return Site(file, line, "access", EVENTS[kind], (), space, name, width, line)
