"""Cuts a trace into steps: from one PROBE_MARK of a kernel to the next, in each block and role that was traced."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernels.trace.probes import Sites
from kernels.trace.trace import Trace

BRACKETS = ("tile_begin", "tile_end")  # marks that bound a tile and begin no step
COLUMNS = ("launch", "block", "role", "phase", "file", "line", "tile")


@dataclass(frozen=True)
class Steps:
    """table: one row per step, in order: launch, block, role (empty in a kernel without roles and before the first
    one), phase (the mark's event), file and line (the mark's), tile (its key of that name, or -1).
    of_record: for each row of the trace's table, the number of its step, or -1 for what lies outside all steps."""

    table: pd.DataFrame
    of_record: np.ndarray


def cut(trace: Trace, sites: Sites) -> Steps:
    """The Steps of a trace. sites: of the kernel that made it (probes.sites_of).

    Threads of a block that play the same role pass the same marks in the same order, so a step is (launch, block, role,
    how many marks came before in that role). The roles of a block take turns: the first step of each in the order in
    which they stand in the source, then the second of each. What a block does before the first PROBE_ROLE comes first;
    a later PROBE_ROLE in the same thread begins a new stage, which comes after all steps of the stage before.
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
    columns = {
        "launch": launch[first_mark],
        "block": block[first_mark],
        "role": [names[n] for n in role[first_mark]],
        "phase": [s.event for s in said],
        "file": [s.file for s in said],
        "line": [s.line for s in said],
        "tile": tile,
    }
    return Steps(pd.DataFrame(columns), of_record)


def lit_lines(trace: Trace, steps: Steps, sites: Sites) -> list[dict[str, int]]:
    """For each step, {"03_flash.cu:57": how many times that line of code ran}, from the records' probes; marks and
    roles left out."""
    inside, size = steps.of_record >= 0, len(sites)
    codes = steps.of_record[inside] * size + sites.index(trace.table)[inside]
    counts = np.bincount(codes, minlength=size * len(steps.table)).reshape(-1, size)
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
