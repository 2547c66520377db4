"""Cuts a trace into steps: from one PROBE_MARK of a kernel to the next, in each block and role that was traced."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from kernels.trace.kinds import WRITES
from kernels.trace.probes import Sites
from kernels.trace.trace import Trace

BRACKETS = ("tile_begin", "tile_end")  # marks that bound a tile and begin no step
COLUMNS = ("launch", "block", "role", "phase", "file", "line", "tile")


@dataclass(frozen=True)
class Steps:
    """table: one row per step, in order: launch, block, role (empty in a kernel without roles and before the first
    one), phase (the mark's event), file and line (the mark's), tile (its key of that name, or -1).
    of_record: for each row of the trace's table, the number of its step, or -1 for what lies outside all steps.
    unordered: the numbers of the steps that no access orders. In each block and stage they start at the first step at
    which the rule allows no role to go on."""

    table: pd.DataFrame
    of_record: np.ndarray
    unordered: frozenset[int] = frozenset()


def cut(trace: Trace, sites: Sites) -> Steps:
    """The Steps of a trace. sites: of the kernel that made it (probes.sites_of).

    Threads of a block that play the same role pass the same marks in the same order, so a step is (launch, block, role,
    how many marks came before in that role). The roles of a block take turns: the first step of each in the order in
    which they stand in the source, then the second of each; but no step comes before the one that brings the tile which
    it reads from shared memory, or before the last that reads what it writes over. What a block does before the first
    PROBE_ROLE comes first; a later PROBE_ROLE in the same thread begins a new stage, which comes after all steps of the
    stage before.
    """
    launch, block, thread = (trace.table[name].to_numpy() for name in ("launch", "block", "thread"))
    place = sites.index(trace.table)
    if not len(place):
        return Steps(pd.DataFrame(columns=COLUMNS), np.zeros(0, np.int64))
    is_mark = np.array([s.kind == "mark" and s.event not in BRACKETS for s in sites])[place]
    names = list(dict.fromkeys(["", *(s.event for s in sites if s.kind == "role")]))
    is_role = np.array([s.kind == "role" for s in sites])[place]
    new_block = _changes(launch, block)
    new_thread = new_block | _changes(thread)
    new_stage = new_thread | is_role

    stage = _count_since(is_role, new_thread)
    number = _count_since(is_mark, new_stage)  # 1 from the stage's first mark on
    begins = np.maximum.accumulate(np.where(new_stage, np.arange(len(place)), 0))
    role = np.array([names.index(s.event) if s.kind == "role" else 0 for s in sites])[place[begins]]
    code = np.cumsum(new_block)
    for digit in (stage, number, role):
        code = code * (digit.max() + 1) + digit
    there, of_record = _numbered(code, number > 0)

    first_mark = np.full(there, -1, np.int64)
    marks = np.flatnonzero(is_mark)
    first_mark[of_record[marks[::-1]]] = marks[::-1]
    tile = trace.table["tile"].fill_null(-1).to_numpy()[first_mark] if "tile" in trace.keys else -1
    said = [sites[int(n)] for n in place[first_mark]]
    about = pd.DataFrame(
        {"block": np.cumsum(new_block)[first_mark], "stage": stage[first_mark], "role": role[first_mark], "tile": tile}
    )
    order, unordered = _in_turn(trace, sites, place, of_record, about)
    first_mark = first_mark[order]
    of_record[of_record >= 0] = np.argsort(order)[of_record[of_record >= 0]]
    said = [said[n] for n in order]
    columns = {
        "launch": launch[first_mark],
        "block": block[first_mark],
        "role": [names[n] for n in role[first_mark]],
        "phase": [s.event for s in said],
        "file": [s.file for s in said],
        "line": [s.line for s in said],
        "tile": tile if isinstance(tile, int) else tile[order],
    }
    return Steps(pd.DataFrame(columns), of_record, unordered)


def _in_turn(
    trace: Trace, sites: Sites, place: np.ndarray, of_record: np.ndarray, about: pd.DataFrame
) -> tuple[np.ndarray, frozenset[int]]:
    """The numbers of the steps in the order in which the roles of a block can have made them, and the places in this
    order of the steps that the rule does not order. about: block (each of each launch has its own number), stage, role
    and tile of each step, whose numbers let the roles take turns.

    Rule: accesses of shared memory that say their tile. A step that reads a tile waits for the step of another role
    that writes it there; a step that writes waits for all steps of other roles that still read the tile it replaces.
    The product of a warpgroup, which is only set off, reads until the role's next step of that tile, if it has one.
    """
    order, unordered = np.arange(len(about)), set[int]()
    if not (about.role > 0).any() or "tile" not in trace.keys:
        return order, frozenset()
    space = np.array([s.space == "shared" for s in sites])[place]
    told = np.flatnonzero((of_record >= 0) & space & trace.table["tile"].is_valid().to_numpy())
    table = pd.DataFrame(
        {
            "step": of_record[told],
            "tensor": np.array([s.tensor or "" for s in sites])[place[told]],
            "writes": np.array([s.event in WRITES for s in sites])[place[told]],
            "goes_on": np.array([s.event == "product" for s in sites])[place[told]],
            "tile": trace.table["tile"].to_numpy()[told],
            "first": trace.table["offset"].to_numpy()[told],
            "last": (trace.table["offset"].to_numpy() + trace.table["bytes"].to_numpy())[told],
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
    """What a step reads or writes of a tensor in shared memory for a tile: bytes from first to last, last excluded."""

    tensor: str
    writes: bool
    tile: int
    first: int
    last: int

    def meets(self, other: "_Touch") -> bool:
        return self.tensor == other.tensor and self.first < other.last and other.first < self.last


def _merged(queues: list[list[int]], touches: dict[int, list[_Touch]]) -> tuple[list[int], int]:
    """The steps of several roles as one order, and how many steps the rule orders.

    The roles take turns, as far as their accesses allow. If the accesses allow none of the waiting steps, the first one
    comes next. From this step on, the order follows from no access.
    """
    there: list[_Touch] = []  # the latest write of each part
    made: list[int] = []
    ordered: int | None = None

    def may(role: int) -> bool:
        left = [t for other, queue in enumerate(queues) if other != role for n in queue for t in touches.get(n, [])]
        for mine in touches.get(queues[role][0], []):
            now = {t.tile for t in there if t.meets(mine)}
            if mine.writes and any(not t.writes and t.meets(mine) and t.tile in now for t in left):
                return False
            brought = any(t.writes and t.meets(mine) and t.tile == mine.tile for t in left)
            if not mine.writes and mine.tile not in now and brought:
                return False
        return True

    turn = 0
    while any(queues):
        waiting = [role % len(queues) for role in range(turn, turn + len(queues)) if queues[role % len(queues)]]
        allowed = [role for role in waiting if may(role)]
        if not allowed and ordered is None:
            ordered = len(made)
        role = (allowed or waiting)[0]
        step, turn = queues[role].pop(0), role + 1
        made.append(step)
        for new in (t for t in touches.get(step, []) if t.writes):
            there = [*(t for t in there if not t.meets(new)), new]
    return made, len(made) if ordered is None else ordered


def lit_lines(trace: Trace, steps: Steps, sites: Sites) -> list[dict[str, int]]:
    """For each step, {"03_flash.cu:57": how many times that line of code ran}, from the records' probes; marks and
    roles left out."""
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
    """Where a row differs from the one before in any of the columns, and the first row: bool [n]."""
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changed


def _count_since(counted: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """How many rows were counted since the last row that begins anew, both included: int64 [n]."""
    so_far = np.cumsum(counted)
    return so_far - (so_far - counted)[np.maximum.accumulate(np.where(begins, np.arange(len(counted)), 0))]


def _numbered(code: np.ndarray, wanted: np.ndarray) -> tuple[int, np.ndarray]:
    """How many different codes the wanted rows have, and the rank of each row's code among them; -1 for the others."""
    there = np.bincount(code, wanted) > 0
    return int(there.sum()), np.where(wanted, (np.cumsum(there) - 1)[code], -1)
