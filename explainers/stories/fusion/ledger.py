"""The ledger of a fused kernel next to its separate launches: the bytes of each tensor in each launch.

Executed runs log every access of global memory, with its place and its bytes. A byte counts once in each launch: caches
answer the repeats. The requested bytes are those of all accesses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from explainers.story import axes
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace.kinds import READS
from kernels.trace.memory.model import SECTOR

SIDES = ("separate", "fused")
NEVER, ONCE = "never", "once"


@dataclass(frozen=True)
class Move:
    """A tensor between memory and chip, in one launch.

    side: 0 separate, 1 fused. launch: of this side, from 0.
    kind: load or store.
    bytes: the touched ones, each once.
    requested: of all accesses.
    sectors: touched pieces of SECTOR bytes.
    width: bytes of the smallest access.
    lines: "FILE:LINE" of its code -> accesses.
    """

    side: int
    launch: int
    tensor: str
    kind: str
    bytes: int
    requested: int
    sectors: int
    width: int
    lines: dict[str, int]


@dataclass(frozen=True)
class Ledger:
    """Every Move of both sides, in their order.

    tensors: every moved tensor by its name in the probes.
    entries: of the launches of each side.
    kernels: their specs.
    feeds: tensor -> tensors that the warps of a separate launch store after they load it.
    place: where the fused kernel keeps a value between its parts.
    clusters: whether blocks of the fused kernel can read the shared memory of others.
    """

    moves: tuple[Move, ...]
    tensors: dict[str, Tensor]
    entries: tuple[tuple[str, ...], ...]
    kernels: tuple[KernelSpec, KernelSpec]
    feeds: dict[str, tuple[str, ...]]
    place: str = "on the chip"
    clusters: bool = False

    def bytes(self, side: int, tensor: str = "", kind: str = "", launch: int = -1) -> int:
        """The bytes of a side, of one tensor, kind or launch if it is given."""
        return sum(
            m.bytes
            for m in self.moves
            if m.side == side and tensor in ("", m.tensor) and kind in ("", m.kind) and launch in (-1, m.launch)
        )

    @cached_property
    def totals(self) -> list[int]:
        return [self.bytes(side) for side in range(2)]

    def ends(self, tensor: str) -> set[str]:
        """The tensors that the fused kernel makes of a kept one and stores."""
        stored = {m.tensor for m in self.moves if m.side == 1 and m.kind == "store"}
        found = set[str]()
        for fed in self.feeds.get(tensor, ()):
            found |= {fed} if fed in stored else self.ends(fed) if fed != tensor else set()
        return found

    def kept(self, tensor: str) -> str:
        """NEVER if only the separate launches move a tensor, ONCE if the fused kernel moves fewer of its bytes."""
        before, after = (self.bytes(side, tensor) for side in range(2))
        return NEVER if before and not after else ONCE if after < before else ""

    @cached_property
    def never(self) -> list[str]:
        """The tensors that the fused kernel never moves."""
        return [tensor for tensor in self.tensors if self.kept(tensor) == NEVER]

    @property
    def apart(self) -> bool:
        """Whether no block of the fused kernel reads a saved tensor from memory, or can read it from another block."""
        return not self.clusters and not any(self.bytes(1, tensor, "load") for tensor in self.saved)

    @cached_property
    def saved(self) -> dict[str, int]:
        """tensor -> the bytes that the fused kernel moves less, the largest first. Without the others."""
        found = {t: self.bytes(0, t) - self.bytes(1, t) for t in self.tensors}
        return dict(sorted(((t, n) for t, n in found.items() if n > 0), key=lambda pair: -pair[1]))


def ledger(runs: Sequence[Run]) -> Ledger:
    """The Ledger of a separate and a fused run of one problem, traced over all blocks."""
    moves = [move for side, run in enumerate(runs) for move in _moves(side, run)]
    named = {symbol: tensor for run in runs for symbol, tensor in axes.tensors(run.request).items()}
    known = {symbol: named[symbol] for symbol in dict.fromkeys(move.tensor for move in moves)}
    entries = tuple(tuple(launch.entry for launch in run.request.plan.launches) for run in runs)
    place = "on the chip" if any(site.space == "shared" for site in runs[1].sites) else "in registers"
    kernels = (runs[0].request.kernel, runs[1].request.kernel)
    clusters = any(launch.cluster for launch in runs[1].request.plan.launches)
    return Ledger(tuple(moves), known, entries, kernels, _feeds(runs[0]), place, clusters)


def _feeds(run: Run) -> dict[str, tuple[str, ...]]:
    """Ledger.feeds of the separate launches."""
    table = run.trace.frame("launch", "block", "warp").assign(site=run.sites.index(run.trace.table))
    seen = dict[tuple[int, int, int], tuple[set[str], set[str]]]()
    for launch, block, warp, number in table.drop_duplicates().itertuples(index=False):
        probe = run.sites[int(number)]
        if probe.space == "global":
            ends = seen.setdefault((int(launch), int(block), int(warp)), (set(), set()))
            ends[probe.event not in READS].add(str(probe.tensor))
    found = dict[str, set[str]]()
    for loaded, stored in seen.values():
        for tensor in loaded:
            found.setdefault(tensor, set()).update(stored)
    return {tensor: tuple(sorted(stored)) for tensor, stored in found.items()}


def _moves(side: int, run: Run) -> list[Move]:
    """Launch by launch: first what comes from memory, then what goes there, each in the order of the first access."""
    table = run.trace.frame("launch", "offset", "bytes").assign(site=run.sites.index(run.trace.table))
    parts = dict[tuple[int, str, str], list[tuple[pd.DataFrame, str]]]()
    for (launch, site), accesses in table[table.site >= 0].groupby(["launch", "site"], sort=False):
        probe = run.sites[int(site)]
        if probe.space == "global":
            kind = "load" if probe.event in READS else "store"
            parts.setdefault((int(launch), kind, str(probe.tensor)), []).append((accesses, probe.place))
    found = [_move(side, *key, part) for key, part in parts.items()]
    return sorted(found, key=lambda move: (move.launch, move.kind))


def _move(side: int, launch: int, kind: str, tensor: str, parts: Sequence[tuple[pd.DataFrame, str]]) -> Move:
    """The Move of some accesses. parts: the accesses of each line."""
    first = np.concatenate([part.offset.to_numpy(np.int64) for part, _ in parts])
    size = np.concatenate([part.bytes.to_numpy(np.int64) for part, _ in parts])
    sectors = np.unique(np.concatenate([first // SECTOR, (first + size - 1) // SECTOR])).size
    lines = dict[str, int]()
    for part, place in parts:
        lines[place] = lines.get(place, 0) + len(part)
    return Move(side, launch, tensor, kind, touched(first, size), int(size.sum()), sectors, int(size.min()), lines)


def touched(first: np.ndarray, size: np.ndarray) -> int:
    """The bytes of ranges, each byte once."""
    order = np.argsort(first, kind="stable")
    start, end = first[order], (first + size)[order]
    before = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(0, end - np.maximum(start, before)).sum())
