"""Cuts a trace into steps: from one PROBE_MARK of a kernel to the next, in each block that was traced."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

_BRACKETS = ("tile_begin", "tile_end")  # marks that bound a tile and begin no step


@dataclass(frozen=True)
class Steps:
    """table: one row per step, in order: launch, block, phase (the mark's event), line (the mark's), tile (its key, or -1).
    of_record: for each row of the trace's table, the number of its step, or -1 for what lies outside all steps."""

    table: pd.DataFrame
    of_record: np.ndarray


def cut(trace, sites):
    """The Steps of a trace. `sites` is KernelSpec.sites of the kernel that made it.

    Threads of a block pass the same marks in the same order, so a step is (launch, block, how many marks came before).
    """
    names = ("launch", "block", "thread", "line")
    launch, block, thread, line = (trace.table[name].to_numpy() for name in names)
    if not len(line):
        return Steps(pd.DataFrame(columns=["launch", "block", "phase", "line", "tile"]), np.zeros(0, np.int64))
    starts_step = np.zeros(max(sites) + 1, bool)
    for number, site in sites.items():
        starts_step[number] = site.kind == "mark" and site.event not in _BRACKETS
    is_mark = starts_step[line]
    new_thread = np.ones(len(line), bool)
    new_thread[1:] = (launch[1:] != launch[:-1]) | (block[1:] != block[:-1]) | (thread[1:] != thread[:-1])
    marks_before = np.cumsum(is_mark)
    at_thread_start = np.maximum.accumulate(np.where(new_thread, np.arange(len(line)), 0))
    ordinal = marks_before - (marks_before - is_mark)[at_thread_start]  # 1 from the thread's first mark on

    new_block = np.zeros(len(line), np.int64)
    new_block[1:] = (launch[1:] != launch[:-1]) | (block[1:] != block[:-1])
    code = np.cumsum(new_block) * (ordinal.max() + 1) + ordinal  # records come block by block, so codes grow with launch and block
    there = np.bincount(code, ordinal > 0) > 0
    of_record = np.where(ordinal > 0, (np.cumsum(there) - 1)[code], -1)
    first_mark = np.full(there.sum(), -1, np.int64)
    marks = np.flatnonzero(is_mark)
    first_mark[of_record[marks[::-1]]] = marks[::-1]
    tile = trace.table["tile"].fill_null(-1).to_numpy()[first_mark] if "tile" in trace.keys else np.full(len(first_mark), -1)
    mark_line = line[first_mark]
    return Steps(pd.DataFrame({"launch": launch[first_mark], "block": block[first_mark], "phase": [sites[n].event for n in mark_line],
                               "line": mark_line, "tile": tile}), of_record)


def lit_lines(trace, steps, sites):
    """For each step, {code line: how many times it ran}, from the trace's line numbers; the mark itself left out."""
    line = trace.table["line"].to_numpy()
    inside, size = steps.of_record >= 0, max(sites) + 1
    counts = np.bincount(steps.of_record[inside] * size + line[inside], minlength=size * len(steps.table)).reshape(-1, size)
    return [{sites[number].code_line: int(count[number]) for number in np.flatnonzero(count) if sites[number].kind != "mark"} for count in counts]
