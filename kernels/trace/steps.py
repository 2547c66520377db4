"""Cuts a trace into steps: from one PROBE_MARK of a kernel to the next, in each traced block and role."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from kernels.trace.automatic import BARRIER
from kernels.trace.kinds import WRITES
from kernels.trace.probes import Sites
from kernels.trace.trace import Trace

BRACKETS = ("tile_begin", "tile_end")  # marks at the bounds of a tile, which start no step
COLUMNS = ("launch", "block", "role", "phase", "file", "line", "tile")


class StepRow(Protocol):
    """A row of Steps.table."""

    launch: int
    block: int
    role: str
    phase: str
    file: str
    line: int
    tile: int


@dataclass(frozen=True)
class Steps:
    """The steps of a trace.

    table: a row for each step, in order. Columns: launch, block, role ("" without a role so far), phase (the mark's
        event), file and line (of the mark), tile (the mark's key tile, or -1).
    of_record: the step's number for each row of the trace's table, or -1 outside all steps.
    unordered: the numbers of the steps without an order from accesses. In each block and stage they start at the first
        step after which the rule lets no role go on."""

    table: pd.DataFrame
    of_record: np.ndarray
    unordered: frozenset[int] = frozenset()


def cut(trace: Trace, sites: Sites) -> Steps:
    """The Steps of a trace. sites: of its kernel (probes.sites_of).

    The threads of a role in a block pass the same marks in the same order. A step is therefore (launch, block, role,
    number of earlier marks in the role). The roles of a block take turns in the order of the source. But a step comes
    after the write of each tile that it reads from shared memory, and after the last read of each tile that it
    overwrites. The steps before the first PROBE_ROLE come first. A later PROBE_ROLE in a thread starts a new stage,
    after all steps of the stage before. So does a barrier of a plain kernel: its threads may pass a marked loop
    unequally often."""
    launch, block, thread = (trace.table[name].to_numpy() for name in ("launch", "block", "thread"))
    place = sites.index(trace.table)
    if not len(place):
        return Steps(pd.DataFrame(columns=COLUMNS), np.zeros(0, np.int64))
    is_mark = np.array([s.kind == "mark" and s.event not in BRACKETS for s in sites])[place]
    names = list(dict.fromkeys(["", *(s.event for s in sites if s.kind == "role")]))
    role_number = np.array([names.index(s.event) if s.kind == "role" else 0 for s in sites])[place]
    is_role = role_number > 0
    new_block = _changes(launch, block)
    new_thread = new_block | _changes(thread)
    is_fence = np.array([s.kind == "mark" and s.event == BARRIER for s in sites])[place]
    new_stage = new_thread | is_role | is_fence

    stage = _count_since(is_role | is_fence, new_thread)
    number = _count_since(is_mark, new_stage)  # 1 from the stage's first mark on
    role = role_number[np.maximum.accumulate(np.where(new_stage, np.arange(len(place)), 0))]
    code = np.cumsum(new_block)  # one number for each combination
    for digit in (stage, number, role):
        code = code * (digit.max() + 1) + digit
    wanted = number > 0
    present = np.bincount(code, wanted) > 0
    step_count, of_record = int(present.sum()), np.where(wanted, (np.cumsum(present) - 1)[code], -1)

    first_mark = np.full(step_count, -1, np.int64)
    marks = np.flatnonzero(is_mark)
    first_mark[of_record[marks[::-1]]] = marks[::-1]
    tile = trace.table["tile"].fill_null(-1).to_numpy()[first_mark] if "tile" in trace.keys else -1
    about = pd.DataFrame(
        {"block": np.cumsum(new_block)[first_mark], "stage": stage[first_mark], "role": role[first_mark], "tile": tile}
    )
    order, unordered = _in_turn(trace, sites, place, of_record, about)
    first_mark = first_mark[order]
    of_record[of_record >= 0] = np.argsort(order)[of_record[of_record >= 0]]
    marked = [sites[int(n)] for n in place[first_mark]]
    columns = {
        "launch": launch[first_mark],
        "block": block[first_mark],
        "role": [names[n] for n in role[first_mark]],
        "phase": [s.event for s in marked],
        "file": [s.file for s in marked],
        "line": [s.line for s in marked],
        "tile": tile if isinstance(tile, int) else tile[order],
    }
    return Steps(pd.DataFrame(columns), of_record, unordered)


def _in_turn(
    trace: Trace, sites: Sites, place: np.ndarray, of_record: np.ndarray, about: pd.DataFrame
) -> tuple[np.ndarray, frozenset[int]]:
    """The numbers of the steps in a possible order of the roles, and the places of its unordered steps.

    about: block (unique over launches), stage, role and tile of each step.

    The rule uses accesses of shared memory with a tile. A read of a tile waits for its write by another role. A write
    waits for all reads of the replaced tile by other roles. A warpgroup's product is asynchronous: it reads until the
    role's next step of the tile."""
    order, unordered = np.arange(len(about)), set[int]()
    if not (about.role > 0).any() or "tile" not in trace.keys:
        return order, frozenset()
    space = np.array([s.space == "shared" for s in sites])[place]
    with_tile = np.flatnonzero((of_record >= 0) & space & trace.table["tile"].is_valid().to_numpy())
    table = pd.DataFrame(
        {
            "step": of_record[with_tile],
            "tensor": np.array([s.tensor or "" for s in sites])[place[with_tile]],
            "writes": np.array([s.event in WRITES for s in sites])[place[with_tile]],
            "goes_on": np.array([s.event == "product" for s in sites])[place[with_tile]],
            "tile": trace.table["tile"].to_numpy()[with_tile],
            "first": trace.table["offset"].to_numpy()[with_tile],
            "last": (trace.table["offset"].to_numpy() + trace.table["bytes"].to_numpy())[with_tile],
        }
    )
    touches: dict[int, list[_Touch]] = {}
    for (step, tensor, writes, goes_on, tile), part in table.groupby(["step", "tensor", "writes", "goes_on", "tile"]):
        touch = _Touch(tensor, writes, int(tile), int(part["first"].min()), int(part["last"].max()))
        mine = (about[["block", "stage", "role"]] == about.loc[step, ["block", "stage", "role"]]).all(axis=1)
        later = about.index[mine & (about.tile == tile) & (about.index > step)] if goes_on else []
        for at in [step, *later[:1]]:
            touches.setdefault(int(at), []).append(touch)
    for _, part in about.groupby(["block", "stage"]):
        queues = [[int(n) for n in of_role.index] for _, of_role in part.groupby("role")]
        numbers = part.index.to_numpy()
        if len(queues) > 1:
            order[numbers], allowed = _merged(queues, touches)
            unordered |= {int(n) for n in numbers[allowed:]}
    return order, frozenset(unordered)


class _Touch(NamedTuple):
    """A step's reads or writes of a tile of a tensor in shared memory: bytes from first up to last."""

    tensor: str
    writes: bool
    tile: int
    first: int
    last: int

    def meets(self, other: "_Touch") -> bool:
        return self.tensor == other.tensor and self.first < other.last and other.first < self.last


def _merged(queues: list[list[int]], touches: dict[int, list[_Touch]]) -> tuple[list[int], int]:
    """The steps of several roles in one order, and the number of steps with an order from the rule. The roles take
    turns, as far as their accesses allow. If the accesses allow none of the waiting steps, the first one comes next.
    From this step on, the order follows from no access."""
    latest: list[_Touch] = []  # the latest write of each part
    merged: list[int] = []
    ordered: int | None = None

    def may(role: int) -> bool:
        left = [t for other, queue in enumerate(queues) if other != role for n in queue for t in touches.get(n, [])]
        for touch in touches.get(queues[role][0], []):
            tiles = {write.tile for write in latest if write.meets(touch)}
            meeting = [other for other in left if other.meets(touch)]
            if touch.writes and any(not other.writes and other.tile in tiles for other in meeting):
                return False
            later = any(other.writes and other.tile == touch.tile for other in meeting)
            if not touch.writes and touch.tile not in tiles and later:
                return False
        return True

    turn = 0
    while any(queues):
        waiting = [role % len(queues) for role in range(turn, turn + len(queues)) if queues[role % len(queues)]]
        allowed = [role for role in waiting if may(role)]
        if not allowed and ordered is None:
            ordered = len(merged)
        role = (allowed or waiting)[0]
        step, turn = queues[role].pop(0), role + 1
        merged.append(step)
        for new in (t for t in touches.get(step, []) if t.writes):
            latest = [*(write for write in latest if not write.meets(new)), new]
    return merged, len(merged) if ordered is None else ordered


def lit_lines(trace: Trace, steps: Steps, sites: Sites) -> list[dict[str, int]]:
    """For each step, {"03_flash.cu:57": the runs of this line of code}, from its values and accesses."""
    inside, size = steps.of_record >= 0, len(sites)
    codes = steps.of_record[inside] * size + sites.index(trace.table)[inside]
    counts = np.bincount(codes, minlength=size * len(steps.table)).reshape(len(steps.table), size)
    lit: list[dict[str, int]] = []
    for count in counts:
        step: dict[str, int] = {}
        for number in np.flatnonzero(count):
            site = sites[int(number)]
            if site.kind in ("value", "access"):  # a line may have two, such as both sides of a cp.async
                step[site.place] = max(step.get(site.place, 0), int(count[number]))
        lit.append(step)
    return lit


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Whether each row differs from the row before in a column: bool [n]. The first row does."""
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changed


def _count_since(counted: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The counted rows since the last start, with both ends: int64 [n]."""
    so_far = np.cumsum(counted)
    return so_far - (so_far - counted)[np.maximum.accumulate(np.where(starts, np.arange(len(counted)), 0))]
