"""The moves of each launch between memory and chip: of a fused kernel, and of the separate kernels that it replaces.

Executed runs log every access of global memory, with its place and its bytes. A byte counts once in each launch: caches
answer the repeats. The requested bytes count all accesses.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from explainers.story import axes
from kernels.core.tensors import Role
from kernels.run.results import Run
from kernels.trace.kinds import READS
from kernels.trace.memory.model import SECTOR

SIDES = ("separate", "fused")


def moves(runs: Sequence[Run]) -> pd.DataFrame:
    """A row for each tensor that a launch reads or writes, launch by launch: first what comes from memory.

    runs: of the separate kernels and of the fused one, over all blocks.
    Columns: side. launch: of this side, from 0. entry: its name. tensor. kind: load or store.
        bytes: the touched ones, each once. requested: of all accesses. sectors: touched pieces of 32 bytes.
        width: bytes of the smallest access. lines: "FILE:LINE" of its code -> accesses.
    """
    rows = []
    for side, run in zip(SIDES, runs):
        table = run.trace.frame("launch", "offset", "bytes").assign(site=run.sites.index(run.trace.table))
        probes = {n: probe for n, probe in enumerate(run.sites) if probe.space == "global"}
        table = table[table.site.isin(probes)]
        table["kind"] = table.site.map({n: "load" if probe.event in READS else "store" for n, probe in probes.items()})
        table["tensor"] = table.site.map({n: str(probe.tensor) for n, probe in probes.items()})
        for (launch, kind, tensor), accesses in table.groupby(["launch", "kind", "tensor"], sort=False):
            first, size = accesses.offset.to_numpy(np.int64), accesses.bytes.to_numpy(np.int64)
            ends = first // SECTOR, (first + size - 1) // SECTOR
            rows.append(
                {
                    "side": side,
                    "launch": int(launch),
                    "entry": run.request.plan.launches[int(launch)].entry,
                    "tensor": tensor,
                    "kind": kind,
                    "bytes": touched(first, size),
                    "requested": int(size.sum()),
                    "sectors": np.unique(np.concatenate(ends)).size,
                    "width": int(size.min()),
                    "lines": {
                        probes[n].place: int(count) for n, count in accesses.site.value_counts(sort=False).items()
                    },
                }
            )
    order = pd.DataFrame(rows)
    return order.sort_values(
        ["side", "launch", "kind"], ascending=[False, True, True], kind="stable", ignore_index=True
    )


def touched(first: np.ndarray, size: np.ndarray) -> int:
    """The bytes of ranges, each byte once."""
    order = np.argsort(first, kind="stable")
    start, end = first[order], (first + size)[order]
    before = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(0, end - np.maximum(start, before)).sum())


def tensors(moves: pd.DataFrame, runs: Sequence[Run], meanings: Mapping[str, str]) -> pd.DataFrame:
    """A row for each moved tensor, by its name in the probes.

    meanings: of some tensors, by their names.
    Columns: size: bytes in memory. shape: with its type. part: its meaning, or input, output or between launches.
        separate, fused: the bytes that each side moves. saved: their difference.
        kept: never (the fused kernel never moves it), once (it moves fewer of its bytes) or "".
        writer, reader: the separate launches that hand it on, or -1.
    """
    known = {symbol: tensor for run in runs for symbol, tensor in axes.tensors(run.request).items()}
    rows = {}
    for name, own in moves.groupby("tensor", sort=False):
        tensor = known[str(name)]
        before, after = (int(own.bytes[own.side == side].sum()) for side in SIDES)
        launches = own[own.side == "separate"].drop_duplicates("kind", keep="last").set_index("kind").launch
        rows[str(name)] = {
            "size": tensor.nbytes,
            "shape": f"{[*tensor.shape]} {tensor.dtype}",
            "part": meanings.get(tensor.name)
            or ("between launches" if tensor.role is Role.SCRATCH else tensor.role.value),
            "separate": before,
            "fused": after,
            "saved": before - after,
            "kept": "never" if before and not after else "once" if after < before else "",
            "writer": int(launches["store"]) if len(launches) == 2 else -1,
            "reader": int(launches["load"]) if len(launches) == 2 else -1,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def ends(moves: pd.DataFrame, separate: Run) -> dict[str, set[str]]:
    """tensor -> the tensors that the fused kernel makes of it and stores.

    The warps of a separate launch that load it store the next one, up to a tensor that the fused kernel stores.
    """
    table = separate.trace.frame("launch", "block", "warp").assign(site=separate.sites.index(separate.trace.table))
    seen = dict[tuple[int, int, int], tuple[set[str], set[str]]]()
    for launch, block, warp, number in table.drop_duplicates().itertuples(index=False):
        probe = separate.sites[int(number)]
        if probe.space == "global":
            pair = seen.setdefault((int(launch), int(block), int(warp)), (set(), set()))
            pair[probe.event not in READS].add(str(probe.tensor))
    feeds = dict[str, set[str]]()
    for loaded, written in seen.values():
        for tensor in loaded:
            feeds.setdefault(tensor, set()).update(written)
    stored = {*moves.tensor[(moves.side == "fused") & (moves.kind == "store")]}

    def end(tensor: str, before: frozenset[str]) -> set[str]:
        found = set[str]()
        for fed in feeds.get(tensor, set()) - before - {tensor}:
            found |= {fed} if fed in stored else end(fed, before | {tensor})
        return found

    return {tensor: end(tensor, frozenset()) for tensor in feeds}
