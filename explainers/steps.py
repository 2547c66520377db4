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

    code = (launch.astype(np.int64) << 48) | (block.astype(np.int64) << 20) | ordinal
    inside = ordinal > 0
    codes, of_inside = np.unique(code[inside], return_inverse=True)
    of_record = np.full(len(line), -1, np.int64)
    of_record[inside] = of_inside
    first_mark = np.full(len(codes), -1, np.int64)
    marks = np.flatnonzero(is_mark)
    first_mark[of_record[marks[::-1]]] = marks[::-1]
    tile = trace.table["tile"].fill_null(-1).to_numpy()[first_mark] if "tile" in trace.keys else np.full(len(codes), -1)
    mark_line = line[first_mark]
    return Steps(pd.DataFrame({"launch": launch[first_mark], "block": block[first_mark], "phase": [sites[n].event for n in mark_line],
                               "line": mark_line, "tile": tile}), of_record)


def lit_lines(trace, steps, sites):
    """For each step, {code line: how many times it ran}, from the trace's line numbers; the mark itself left out."""
    line = trace.table["line"].to_numpy()
    inside = steps.of_record >= 0
    pairs, counts = np.unique(np.stack([steps.of_record[inside], line[inside]]), axis=1, return_counts=True)
    lit = [{} for _ in range(len(steps.table))]
    for step, number, count in zip(*pairs, counts):
        if sites[number].kind != "mark":
            lit[step][sites[number].code_line] = int(count)
    return lit
