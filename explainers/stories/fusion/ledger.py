"""The ledger of a fused kernel next to its separate launches: the bytes of each tensor in each launch.

Executed runs log every access of global memory. Each access has the bytes of its probe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from explainers.story import axes
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace.kinds import READS

SIDES = ("separate", "fused")
NEVER, ONCE = "never", "once"


@dataclass(frozen=True)
class Move:
    """A tensor between memory and chip, in one launch.

    side: 0 separate, 1 fused. launch: of this side, from 0.
    kind: load or store. bytes, accesses: over all blocks.
    lines: "FILE:LINE" of its code -> accesses.
    """

    side: int
    launch: int
    tensor: str
    kind: str
    bytes: int
    accesses: int
    lines: dict[str, int]


@dataclass(frozen=True)
class Ledger:
    """Every Move of both sides, in their order. tensors: every moved tensor by its name in the probes."""

    moves: tuple[Move, ...]
    tensors: dict[str, Tensor]
    entries: tuple[tuple[str, ...], ...]
    kernels: tuple[str, str]

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

    def kept(self, tensor: str) -> str:
        """NEVER if only the separate launches move a tensor, ONCE if the fused kernel moves fewer of its bytes."""
        before, after = (self.bytes(side, tensor) for side in range(2))
        return NEVER if before and not after else ONCE if after < before else ""

    @cached_property
    def never(self) -> list[str]:
        """The tensors that the fused kernel never moves."""
        return [tensor for tensor in self.tensors if self.kept(tensor) == NEVER]

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
    kernels = (runs[0].request.kernel.name, runs[1].request.kernel.name)
    return Ledger(tuple(moves), known, entries, kernels)


def _moves(side: int, run: Run) -> list[Move]:
    """Launch by launch: first what comes from memory, then what goes there, each in the order of the first access."""
    site = run.sites.index(run.trace.table)
    table = pd.DataFrame({"launch": run.trace.frame("launch").launch, "site": site})
    table = table[table.site >= 0]
    counted = table.groupby(["launch", "site"], sort=False).size().reset_index(name="accesses")
    rows = []
    for row in counted.itertuples():
        probe = run.sites[int(row.site)]
        if probe.space == "global":
            kind = "load" if probe.event in READS else "store"
            line, size = probe.place, int(row.accesses) * probe.bytes
            rows.append((int(row.launch), str(probe.tensor), kind, size, int(row.accesses), line))
    found: dict[tuple[int, str, str], Move] = {}
    for launch, tensor, kind, size, accesses, line in rows:
        before = found.get((launch, kind, tensor))
        lines = (before.lines if before else {}) | {line: accesses}
        more = (before.bytes, before.accesses) if before else (0, 0)
        sizes = size + more[0], accesses + more[1]
        found[launch, kind, tensor] = Move(side, launch, tensor, kind, *sizes, lines)
    return sorted(found.values(), key=lambda move: (move.launch, move.kind))


def whole(runs: Sequence[Run]) -> bool:
    """Whether both traces have every record of every block."""
    return not any(run.trace.lost for run in runs) and all(
        np.array_equal(run.trace.frame("launch").launch.unique(), range(len(run.request.plan.launches))) for run in runs
    )
