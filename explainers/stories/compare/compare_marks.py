"""Why one kernel is faster than another, by their recorded pipelines.

It compares the load of the tensor cores and the phases of a key tile. Everything is for block 0 and derived from marks.
A mark shows the start of a phase, not the cause of a wait.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.pair_times import distance
from explainers.story import stage
from explainers.story.glossary import figure, phase_title
from kernels.core.problem import Problem
from kernels.measure import pipeline_bars
from kernels.measure.pipelines import Pipeline, RecordedPipeline

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
    """Returns the problem, the GPU and the date of the marks. The page has one ratio, so this has none."""
    a = marked.a
    other = ", not that of the times" if marked.elsewhere else ""
    said = stage.problem_said(a.request.problem)
    return f"The phases have a problem of their own{other}: {said}. Recorded on {a.device}, {a.date}."


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
    every = pd.concat(each, axis=1, keys=["a", "b"]).fillna(0.0)
    every = every.assign(gain=every.a - every.b)
    apart, named, found = every[every.gain.abs() >= LEAST * max(a, b)], list[object](), list[str]()
    for word, part in (("less", apart[apart.gain > 0]), ("more", apart[apart.gain < 0])):
        most = part.loc[part.gain.abs().sort_values(ascending=False).index[:MOST]]
        named += [*most.index]
        if len(most):
            listed = (f"{phase_title(str(e))} ({figure(r.a, 3)} and {figure(r.b, 3)} ns)" for e, r in most.iterrows())
            found.append(f"{word} in {', '.join(listed)}")
    rest = every.drop(index=named)  # so that the listed times add up to the whole
    if found and len(rest):
        a, b = float(rest.a.sum()), float(rest.b.sum())
        found.append(f"{'less' if a > b else 'more'} in all others ({figure(a, 3)} and {figure(b, 3)} ns)")
    return f"{said} B spends {'; '.join(found)}." if found else said


def caveat(marked: Marked) -> str:
    """Returns the limits of these figures."""
    cost = " and ".join(f"{pipeline.overhead:.1%}" for pipeline in marked.both)
    return (
        "Derived from the marks of block 0 of each. A phase's time has its waits in it, and phases of two warpgroups "
        f"overlap. So their sum differs a little from the period that Pipeline draws. The marks make a run {cost} "
        "longer."
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
