"""Why one kernel is faster than another, by their recorded pipelines.

It compares the load of the tensor cores and the phases of a key tile. Everything is for block 0 and derived from marks.
A mark shows the start of a phase, not the cause of a wait.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.pair_times import WORDS, distance
from explainers.story import stage
from explainers.story.glossary import phase_title
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
    """The recordings of two kernels on the common problem nearest to this one, or None."""
    pairs = [(a, b) for a in first for b in second if a.request.problem == b.request.problem]
    return min(pairs, key=lambda pair: distance(pair[0].request.problem, problem), default=None)


def where_sentence(marked: Marked) -> str:
    """The problem, the GPU and the date of the marks. The page has one ratio, so this has none."""
    a, problem = marked.a, stage.problem_said(marked.a.request.problem)
    names = {"elsewhere": marked.elsewhere, "problem": problem, "device": a.device, "date": a.date}
    return WORDS.say("marks_of", names)


def tensor_cores_sentence(marked: Marked) -> str:
    """The load of the tensor cores in both: the share of block 0's time in which the products of all its blocks need
    them. "" if it is not known."""
    shares = [pipeline_bars.multiplying(pipeline, 0) for pipeline in marked.both]
    if None in shares:
        return ""
    needed = [share * pipeline_bars.resident(one, 0) for share, one in zip(shares, marked.both) if share is not None]
    fed = [pipeline_bars.fed(pipeline, 0) for pipeline in marked.both]
    return WORDS.say("fed", {"needed": needed, "fed": () if None in fed else fed})


def phases_sentence(marked: Marked) -> str:
    """The time of a key tile in both, and the phases with the largest difference. "" for unequal tiles."""
    tiles = {
        (pipeline.request.value_of("query_rows"), pipeline.request.value_of("key_rows")) for pipeline in marked.both
    }
    each = [_phases(pipeline) for pipeline in marked.both] if len(tiles) == 1 else []
    if not each or each[0].empty or each[1].empty:
        return ""
    a, b = (float(phases.sum()) for phases in each)
    every = pd.concat(each, axis=1, keys=["a", "b"]).fillna(0.0)
    every = every.assign(gain=every.a - every.b)
    apart, named, found = every[every.gain.abs() >= LEAST * max(a, b)], list[object](), list[tuple[str, object]]()
    for word, part in (("less", apart[apart.gain > 0]), ("more", apart[apart.gain < 0])):
        most = part.loc[part.gain.abs().sort_values(ascending=False).index[:MOST]]
        named += [*most.index]
        if len(most):
            found.append((word, [(phase_title(str(event)), row.a, row.b) for event, row in most.iterrows()]))
    rest = every.drop(index=named)  # so that the listed times add up to the whole
    if found and len(rest):
        others = float(rest.a.sum()), float(rest.b.sum())
        found.append(("less" if others[0] > others[1] else "more", [("all others", *others)]))
    tile = "query tile" if marked.a.walked == "query" else "key tile"
    return WORDS.say("phases", {"tile": tile, "noun": marked.a.noun, "a": a, "b": b, "found": found})


def caveat(marked: Marked) -> str:
    """The limits of these figures."""
    return WORDS.say("caveat", {"cost": " and ".join(f"{pipeline.overhead:.1%}" for pipeline in marked.both)})


def _phases(pipeline: Pipeline) -> pd.Series:
    """The nanoseconds of each phase in a key tile: the mean over the computing warps of block 0."""
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
