"""The walk of one query head over the units of its sequence, from the trace of a whole run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explainers.stories.block_table.range_frames import RangeFrames
from explainers.stories.block_table.range_plan import plan_sentence
from explainers.stories.block_table.range_trace import CacheErrors, RangeTrace
from explainers.stories.block_table.range_types import RangesFrame, RangesUnit
from explainers.stories.block_table.unit_frames import add_unit, output_error_sentence
from explainers.stories.block_table.work_lists import WorkList
from explainers.story.glossary import count, short
from kernels.run.results import Run

MOST_TERMS = 4  # most partial results in a sum


@dataclass(frozen=True)
class Walked:
    """The walk of one query head over its units.

    frames: one for each step.
    lists: the work list of each launch.
    units: the sequence's units, in the order of their partitions.
    scores: float32 [tokens] as logged, else NaN.
    errors: None for a cache in Q's type.
    o: [head_dim].
    merged: {"m", "l"} of the sequence.
    sequence, head, kv_head: the followed ones.
    """

    frames: list[RangesFrame]
    lists: list[WorkList]
    units: list[RangesUnit]
    scores: np.ndarray
    errors: CacheErrors | None
    o: np.ndarray
    merged: dict[str, float]
    sequence: int
    head: int
    kv_head: int


def walk(run: Run, names: Sequence[str], sequence: int, head: int) -> Walked:
    """Returns the Walked of one query head of one sequence, from a whole Run. names: the sequences."""
    trace, frames = RangeTrace(run, names, sequence, head), RangeFrames()
    frames.add("plan", "The work list", trace.records.iloc[:0], plan_sentence(trace), unit=-1)
    for work_list in trace.lists:
        for number in trace.own_units(work_list):
            add_unit(trace, frames, work_list, number)
    _merge(trace, frames)
    return Walked(
        frames=frames.frames,
        lists=trace.lists,
        units=frames.units,
        scores=trace.by_token("score"),
        errors=trace.errors,
        o=np.asarray(trace.output, np.float32),
        merged=trace.merged,
        sequence=sequence,
        head=head,
        kv_head=trace.kv_head,
    )


def _merge(trace: RangeTrace, frames: RangeFrames) -> None:
    """Adds the frame of the merge, if the sequence has several partial results."""
    weights, units = trace.own[trace.own.event == "weight"].sort_values("partition"), frames.units
    if weights.empty:
        return
    for unit in units:
        unit["weight"] = float(weights[weights.partition == unit["partition"]].value.iloc[0])
    frames.group += 1
    last = weights.iloc[0]
    launch = trace.run.request.plan.launches[int(last.launch)]
    number = int(last.block) // launch.blocks_per_item
    m, l = trace.merged["m"], trace.merged["l"]
    terms = " + ".join(f"{short(unit['l'])} x {short(unit['weight'])}" for unit in units[:MOST_TERMS])
    terms += " + ..." if len(units) > MOST_TERMS else ""
    has_prefix = any(trace.lists[unit["list"]].shared for unit in units)
    before = ", the prefix's from the launch before" if has_prefix else ""
    frames.add(
        "combine",
        f"Merge · {count(len(units), 'partition')}",
        trace.records[trace.records.step == int(last.step)],
        f"Range {number}'s block arrives last, so it merges the {len(units)} in the same launch{before}: "
        f"m = max m_i = {short(m)}, l = \u03a3 l_i e^(m_i - m) = {terms} = {short(l)}. "
        f"O = \u03a3 O_i e^(m_i - m) / l is written.{output_error_sentence(trace)}",
        unit=len(units) - 1,
        m=m,
        l=l,
        written=True,
        merged=True,
    )
