"""Why one kernel is faster than another, by their recorded pipelines.

It compares the load of the tensor cores and the phases of a key tile. Everything is for block 0 and derived from marks.
A mark shows the start of a phase, not the cause of a wait.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.pair_times import distance
from explainers.story.glossary import figure, phase_title, short
from kernels.core.problem import Problem
from kernels.measure import pipeline_bars
from kernels.measure.pipeline_files import RecordedPipeline
from kernels.measure.pipelines import Pipeline

MOST = 2  # shorter phases in a sentence, and longer ones
LEAST = 0.02  # least difference of a phase, as a share of a key tile's time


@dataclass(frozen=True)
class Marked:
    """The recorded pipelines of A and B on one problem.

    elsewhere: whether the time of the verdict is of another problem.
    """

    a: Pipeline
    b: Pipeline
    elsewhere: bool

    @property
    def both(self) -> tuple[Pipeline, Pipeline]:
        return self.a, self.b


def nearest(
    first: Iterable[RecordedPipeline], second: Sequence[RecordedPipeline], problem: Problem
) -> tuple[RecordedPipeline, RecordedPipeline] | None:
    """Returns the recordings of two kernels on the common problem nearest to this one, or None."""
    pairs = [(a, b) for a in first for b in second if a.request.problem == b.request.problem]
    return min(pairs, key=lambda pair: distance(pair[0].request.problem, problem), default=None)


def where_sentence(marked: Marked) -> str:
    """Returns the runs of the marks, and the speed of both timed builds on this problem."""
    a, b = marked.both
    problem, ratio = a.request.problem, a.timed_ms / b.timed_ms
    faster, slower, times = ("B", "A", ratio) if ratio >= 1 else ("A", "B", 1 / ratio)
    mask = ", causal" if problem.causal else ""
    other = " The time above is of another problem." if marked.elsewhere else ""
    return (
        f"Both have recorded marks at {problem.size}{mask}, head_dim {problem.head_dim} ({a.device}, {a.date}). There "
        f"the timed builds take {short(a.timed_ms, 3)} ms and {short(b.timed_ms, 3)} ms: {faster} is "
        f"{short(times, 3)} times as fast as {slower}.{other}"
    )


def tensor_cores_sentence(marked: Marked) -> str:
    """Returns the load of the tensor cores in both, or ""."""
    a, b = (_needed(pipeline) for pipeline in marked.both)
    if a is None or b is None:
        return ""
    said = f"Tensor cores: the products need them for at least {a:.0%} of the time in A and {b:.0%} in B."
    a, b = (pipeline_bars.fed(pipeline, 0) for pipeline in marked.both)
    return said if a is None or b is None else f"{said} Some product is unfinished for {a:.0%} and {b:.0%}."


def phases_sentence(marked: Marked) -> str:
    """Returns the time of a key tile in both, and the phases with the largest difference. "" for unequal tiles."""
    tiles = {
        (pipeline.request.value_of("query_rows"), pipeline.request.value_of("key_rows")) for pipeline in marked.both
    }
    if len(tiles) > 1:
        return ""
    each = [_phases(pipeline) for pipeline in marked.both]
    if each[0].empty or each[1].empty:
        return ""
    a, b = (float(phases.sum()) for phases in each)
    said = f"A {_tile(marked.a)} takes {figure(a, 3)} ns of a {marked.a.noun} in A and {figure(b, 3)} ns in B."
    apart = pd.concat(each, axis=1, keys=["a", "b"]).fillna(0.0)
    apart = apart.assign(gain=apart.a - apart.b)
    apart = apart[apart.gain.abs() >= LEAST * max(a, b)]
    found = []
    for word, part in (("less", apart[apart.gain > 0]), ("more", apart[apart.gain < 0])):
        most = part.loc[part.gain.abs().sort_values(ascending=False).index[:MOST]]
        if len(most):
            listed = (f"{phase_title(str(e))} ({figure(r.a, 3)} and {figure(r.b, 3)} ns)" for e, r in most.iterrows())
            found.append(f"{word} in {', '.join(listed)}")
    return f"{said} B spends {'; '.join(found)}." if found else said


def caveat(marked: Marked) -> str:
    """Returns the limits of these figures."""
    cost = " and ".join(f"{pipeline.overhead:.1%}" for pipeline in marked.both)
    return (
        "Derived from the marks of block 0 of each. A phase's time has its waits in it, and phases of two warpgroups "
        f"overlap. The marks make a run {cost} longer."
    )


def _needed(pipeline: Pipeline) -> float | None:
    """Returns the share of block 0's time in which the products of all its blocks need the tensor cores."""
    share = pipeline_bars.multiplying(pipeline, 0)
    return None if share is None else share * pipeline_bars.resident(pipeline, 0)


def _tile(pipeline: Pipeline) -> str:
    return "query tile" if pipeline.walked == "query" else "key tile"


def _phases(pipeline: Pipeline) -> pd.Series:
    """Returns the nanoseconds of each phase in a key tile: the mean over the computing warps of block 0."""
    bars = pipeline_bars.bars(pipeline, 0)
    computing = bars[bars.event.isin(pipeline_bars.COMPUTING)].writer.unique()
    own = (
        bars[bars.writer.isin(computing) & (bars.event != bars.role) & bars.tile.notna()]
        if "tile" in bars
        else bars[:0]
    )
    tiles = int((own.event == "tile_begin").sum())
    spent = (own.end_ns - own.start_ns).groupby(own.event.astype(str)).sum()
    return spent / tiles if tiles else spent[:0]
