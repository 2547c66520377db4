"""The steps of one way of a pattern, from the trace of its run: working threads, and the state of each place.

A *reduction* logs `partial`: a thread adds the number at `other` to the one at `at`. A *tile walk* copies tiles into
shared memory and adds them there, between the marks `copy` and `sum`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd

from kernels.core.tensors import Role
from kernels.run.results import Run
from kernels.trace import steps
from kernels.trace.kinds import READS, WRITES
from kernels.trace.memory import model, traced

FREE, FULL, READ, WRITTEN, COMING, HELD = "012345"
"""The states of a place: free, with a number, read now, written now, on its way, in a register."""
CELL = 128  # bytes of a place of a tile: a word of each bank
MEET = "meet"  # the mark before a barrier


class Move(TypedDict):
    """One step of a way.

    act: add (numbers or a tile), request or bring (a tile). part, parts: of a tile that several loads bring.
    threads: a 1 for each thread that works, else 0. places: the state of each place. working: threads that work.
    wavefronts, accesses: of shared memory, in this step. An access is of a warp.
    ideal: the wavefronts if no two words shared a bank. longest: the most wavefronts of one warp.
    lines: FILE:LINE of its accesses and values.
    tile: its tile, or -1. later: whether its copies land later.
    pairs: of an addition, the places of the other number and of the sum, one pair after another.
    bytes: of shared memory, in this step.
    sum: the first of its additions in numbers, or "".
    """

    act: str
    part: int
    parts: int
    threads: str
    places: str
    working: int
    wavefronts: int
    accesses: int
    ideal: int
    longest: int
    lines: list[str]
    tile: int
    later: bool
    pairs: list[int]
    bytes: int
    sum: str


@dataclass(frozen=True)
class Walk:
    """The steps of a way, and its whole figures.

    barriers: passed by the block. requests, sectors, bytes: of global memory, of the input only. For a reduction, bytes
    are those of shared memory, from the first step on.
    alone: sums of a tile while no other tile is on its way.
    stages: tiles that shared memory holds, 0 for a reduction.
    total: the sum of a reduction, as logged in its last step. None if it goes to global memory.
    """

    moves: list[Move]
    wavefronts: int
    barriers: int
    requests: int
    sectors: int
    bytes: int
    alone: int = 0
    stages: int = 0
    total: float | None = None

    @property
    def longest(self) -> int:
        """The wavefronts of the busiest warp of each step, added up."""
        return sum(move["longest"] for move in self.moves)

    @property
    def shuffles(self) -> int:
        """The steps that only shuffle."""
        return sum(shuffles(move) for move in self.moves)

    @property
    def adds(self) -> int:
        """The adds of a reduction to global memory, in L2."""
        return 0 if self.stages else sum(move["working"] for move in self.moves if not move["pairs"])


def shuffles(move: Move) -> bool:
    """Whether the lanes only pass registers to one another in a step."""
    return bool(move["pairs"]) and move["working"] > 1 and HELD in move["places"] and READ not in move["places"]


def walk_of(run: Run) -> Walk:
    """The Walk of a run."""
    logged = _logged(run)
    return _reduction(run, logged) if (logged.event == "partial").any() else _tiles(run, logged)


def _logged(run: Run) -> pd.DataFrame:
    """The trace with the mark (phase) and its step or tile (number) of each record."""
    cut = steps.cut(run.trace, run.sites)
    keys = [key for key in ("step", "tile", "at", "other") if key in run.trace.keys]
    table = run.trace.frame("thread", "file", "line", "event", "space", "tensor", "offset", "bytes", "value", *keys)
    known = cut.table.iloc[np.maximum(cut.of_record, 0)]
    clocks = {f"{t.name}_gmem" for t in run.request.problem.tensors() if t.role is Role.SCRATCH}
    table["phase"] = np.where(cut.of_record >= 0, known.phase.to_numpy(), "")
    table["cut"] = cut.of_record
    key = "step" if "step" in keys else "tile"
    marks = table[(table.event == table.phase) & table[key].notna()]
    table["number"] = table.cut.map(marks.groupby("cut")[key].first()).fillna(-1).astype(int)
    table.loc[table.tensor.isin(clocks), ["space", "phase", "number"]] = [None, "", -1]  # not a part of the pattern
    return table


@dataclass(frozen=True)
class _Part:
    """The records of a step (own), its threads, the places behind it, and more fields of its Move."""

    own: pd.Series
    threads: Iterable[int]
    places: str
    act: str = "add"
    part: int = 1
    parts: int = 1
    tile: int = -1
    later: bool = False
    pairs: tuple[int, ...] = ()
    sum: str = ""


def _figures(run: Run, logged: pd.DataFrame) -> dict[str, int]:
    """The figures of a whole run: the input's requests and sectors, and all wavefronts from the first step on."""
    inputs = {tensor.name for tensor in run.request.problem.tensors() if tensor.role is Role.INPUT}
    costs = traced.requests(run.trace).costs
    names = costs.tensor.str.lower().str.removesuffix("_gmem").str.removesuffix("_smem")
    read = costs[(costs.space == "global") & names.isin(inputs)]
    boxes = int((logged.event == "tma").sum())
    bytes_of_boxes = int(logged[logged.event == "tma"].bytes.sum())
    meets = logged[(logged.event == MEET) & (logged.thread == 0)]
    of_inputs = logged.tensor.astype(str).str.lower().str.removesuffix("_gmem").isin(inputs)
    plain = (logged.space == "global") & logged.event.isin(READS) & (logged.event != "tma") & of_inputs
    return {
        "wavefronts": int(costs[costs.space == "shared"].wavefronts.sum()),
        "requests": len(read) + boxes,
        "sectors": int(read.sectors.sum()) + bytes_of_boxes // model.SECTOR,
        "barriers": len(meets),
        "bytes": int(logged[plain].bytes.sum()) + bytes_of_boxes,
    }


def _moves(run: Run, logged: pd.DataFrame, parts: Sequence[_Part]) -> list[Move]:
    """A Move for each part."""
    number = np.full(len(logged), -1)
    for n, part in enumerate(parts):
        number[(part.own & (logged.space == "shared")).to_numpy()] = n
    costs = traced.requests(run.trace, "shared", number).costs
    sums = costs.assign(accesses=1).groupby(["apart", "warp"])[["wavefronts", "ideal", "accesses"]].sum()
    of_part = sums.index.get_level_values("apart")
    block = int(np.prod(run.request.plan.launches[0].block))
    moves = list[Move]()
    for n, part in enumerate(parts):
        waves, working = sums[of_part == n], set(map(int, part.threads))
        done = logged[part.own & (logged.event != logged.phase) & (logged.event != MEET)]
        lines = done[["file", "line"]].drop_duplicates().values
        moves.append(
            {
                "act": part.act,
                "part": part.part,
                "parts": part.parts,
                "threads": "".join("1" if thread in working else "0" for thread in range(block)),
                "places": part.places,
                "working": len(working),
                "wavefronts": int(waves.wavefronts.sum()),
                "longest": int(waves.wavefronts.max()) if len(waves) else 0,
                "ideal": int(waves.ideal.sum()),
                "accesses": int(waves.accesses.sum()),
                "lines": [run.sites.find(file, line).place for file, line in lines],
                "tile": part.tile,
                "later": part.later,
                "pairs": [*part.pairs],
                "bytes": int(logged[part.own & (logged.space == "shared")].bytes.sum()),
                "sum": part.sum,
            }
        )
    return moves


# ---- reductions ----


def _reduction(run: Run, logged: pd.DataFrame) -> Walk:
    """A step for each addition. Its places are the numbers."""
    size = int(np.prod(run.request.plan.launches[0].block))
    state, parts = [FULL] * size, list[_Part]()
    numbers = np.concatenate([np.ravel(array) for array in run.request.problem.inputs().values()]).astype(float)
    first = logged[(logged.number == 1) & (logged.space == "shared")]
    in_words = bool(first.event.isin(WRITES).any())  # it writes words, so its other numbers are done with
    # The clock starts behind the first barrier. A read behind the last barrier comes after its end.
    last = logged.cut.max()
    timed = (logged.number > 0) | ((logged.number == 0) & (logged.phase == MEET))
    timed &= ~((logged.cut == last) & (logged.phase == MEET) & (logged.space == "shared"))
    for number in sorted(set(logged[logged.event == "partial"].number)):
        own = timed & ((logged.number == number) | (number == 1) & (logged.number == 0))
        adds = logged[own & (logged.event == "partial") & ~(logged.other >= size)]  # other lanes have no numbers
        writes = own & logged.event.isin(WRITES) & (logged.bytes == model.WORD)
        to_global = set(logged[writes].space) == {"global"}
        own &= to_global | (logged.space != "global")  # the result is stored after the clock
        in_memory = bool((logged[writes].space == "shared").sum() >= len(adds))  # else each sum stays in a register
        reads = logged[own & (logged.space == "shared") & logged.event.isin(READS)]
        wide = max(1, int(reads.bytes.max()) // model.WORD) if len(reads) else 1
        other = {int(at) + n for at in adds.other for n in range(wide)}
        at = set() if to_global else set(adds["at"].astype(int))
        new, old_one = WRITTEN if in_memory else HELD, READ if len(reads) else HELD
        now = [new if n in at else old_one if n in other else old for n, old in enumerate(state)]
        pairs = () if to_global else tuple(np.stack([adds.other, adds["at"]], 1).astype(int).ravel().tolist())
        parts.append(_Part(own, adds.thread, "".join(now), pairs=pairs, sum=_sum_said(numbers, adds, pairs)))
        for place in other - at:
            state[place] = FREE if in_words or to_global or wide > 1 else FULL
    moves = _moves(run, logged, parts)
    found = _figures(run, logged)
    for name in ("wavefronts", "bytes"):
        found[name] = sum(move[name] for move in moves)
    found["barriers"] = int(((logged.number > 0) & (logged.event == MEET) & (logged.thread == 0)).sum())
    done = logged[(logged.event == "partial") & (logged.thread == 0)]
    total = float(done.value.iloc[-1]) if moves[-1]["pairs"] and len(done) else None
    return Walk(moves, **found, total=total)


def _sum_said(numbers: np.ndarray, adds: pd.DataFrame, pairs: Sequence[int]) -> str:
    """The first addition of a step with its numbers, or "" if these are not two of the shown numbers.

    numbers: of all places. The step changes them.
    """
    before = numbers.copy()
    numbers[adds["at"].to_numpy(int)] = adds.value.to_numpy(float)
    other, at = pairs[:2] or (0, 0)
    if at == other or before[other] + before[at] != numbers[at]:
        return ""
    terms = f"{before[at]:g} + {before[other]:g}".replace("+ -", "- ")
    return f"number {at} + number {other}: {terms} = {numbers[at]:g}".replace("-", "\u2212")


# ---- tiles ----


def _tiles(run: Run, logged: pd.DataFrame) -> Walk:
    """A step for each copy and each sum of a tile. Its places are pieces of CELL bytes of shared memory."""
    shared = logged[logged.space == "shared"]
    size = int((shared.offset + shared.bytes).max()) // CELL
    per_tile = int(shared[(shared.tile == 0) & shared.event.isin(WRITES)].bytes.sum()) // CELL
    later = bool(shared.event.isin(set(WRITES) - {"store"}).any())  # copies that land later
    state, parts = [FREE] * size, list[_Part]()
    order = logged[(logged.thread == 0) & (logged.event == logged.phase) & logged.phase.isin(("copy", "sum"))]
    for mark in order.itertuples():
        own = (logged.phase == mark.phase) & (logged.number == mark.number)
        together = _parts(logged, own, mark.phase, later)
        for n, part in enumerate(together, 1):
            cells = _cells(logged[part & (logged.space == "shared")])
            new = READ if mark.phase == "sum" else COMING if later else WRITTEN
            parts.append(
                _Part(
                    part,
                    logged[part & logged.space.notna()].thread.unique(),
                    "".join(new if cell in cells else old for cell, old in enumerate(state)),
                    act="add" if mark.phase == "sum" else "request" if len(together) == 1 else "bring",
                    part=n,
                    parts=len(together),
                    tile=int(mark.number),
                    later=new == COMING,
                )
            )
            after = {READ: FREE, COMING: COMING, WRITTEN: FULL}[new]
            state = [after if cell in cells else old for cell, old in enumerate(state)]
    moves = _moves(run, logged, parts)
    sums = [move["places"] for move in moves if READ in move["places"]]
    alone = sum(COMING not in places for places in sums)
    return Walk(moves, **_figures(run, logged), alone=alone, stages=size // per_tile)


def _parts(logged: pd.DataFrame, own: pd.Series, phase: str, later: bool) -> list[pd.Series]:
    """The parts of a step: the n-th load of each thread, if the copy of one tile is the pattern. Else the step."""
    loads = own & (logged.space == "global") & logged.event.isin(READS)
    most = int(loads.groupby(logged.thread).sum().max())
    if phase != "copy" or most < 2 or later:
        return [own]
    here = own & logged.space.notna()
    order = logged[here].groupby(["thread", "space"]).cumcount().reindex(logged.index)
    return [here & (order == n) for n in range(most)]


def _cells(records: pd.DataFrame) -> set[int]:
    """The places of accesses of shared memory."""
    pairs = set(zip(records.offset.astype(int), records.bytes.astype(int)))
    return {cell for first, size in pairs for cell in range(first // CELL, (first + size - 1) // CELL + 1)}
