"""Why one kernel is faster than another, by their recorded pipelines: how busy the tensor cores are, and the phases of
a key tile in which their warpgroups differ.

Everything is of block 0 and derived from marks. A mark says when a phase begins, not why an instruction waits.
"""

from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.compare_times import distance
from explainers.stories.pipeline.pipeline import named
from explainers.story.glossary import figure
from kernels.measure import pipelines
from kernels.measure.pipelines import Pipeline

MOST = 2  # phases that a sentence names as shorter, and as longer
LEAST = 0.02  # of a key tile's time, by which a phase differs at least


@dataclass(frozen=True)
class Marked:
    """Two pipelines on one problem, A's and B's; elsewhere: whether the verdict's time is of another problem."""

    a: Pipeline
    b: Pipeline
    elsewhere: bool

    @property
    def both(self) -> tuple[Pipeline, Pipeline]:
        return self.a, self.b


def nearest(first: list, second: list, problem: object) -> tuple | None:
    """The recordings (pipeline_files.RecordedPipeline) of two kernels on the problem that both have and that is nearest
    to this one; None where they have none in common."""
    pairs = [(a, b) for a in first for b in second if a.request.problem == b.request.problem]
    return min(pairs, key=lambda pair: distance(pair[0].request.problem, problem), default=None)


def where_sentence(marked: Marked) -> str:
    """Of which runs the marks are, and how fast the timed builds of both are on this problem."""
    a, b = marked.both
    problem, ratio = a.request.problem, a.timed_ms / b.timed_ms
    faster, slower, times = ("B", "A", ratio) if ratio >= 1 else ("A", "B", 1 / ratio)
    mask = ", causal" if problem.causal else ""
    other = " The time above is of another problem." if marked.elsewhere else ""
    return (
        f"Both have recorded marks at {problem.size}{mask}, head_dim {problem.head_dim} ({a.device}, {a.date}). There "
        f"the timed builds take {a.timed_ms:.3g} ms and {b.timed_ms:.3g} ms: {faster} is {times:.3g} times as fast as "
        f"{slower}.{other}"
    )


def tensor_cores_sentence(marked: Marked) -> str:
    """How busy the products keep the tensor cores of both; "" where it is not known."""
    a, b = (_needed(made) for made in marked.both)
    if a is None or b is None:
        return ""
    said = f"Tensor cores: the products need them for at least {a:.0%} of the time in A and {b:.0%} in B."
    a, b = (pipelines.fed(made, 0) for made in marked.both)
    return said if a is None or b is None else f"{said} Some product is unfinished for {a:.0%} and {b:.0%}."


def phases_sentence(marked: Marked) -> str:
    """A key tile's time in both, and the phases that differ most; "" where tiles have different sizes."""
    if any(len({made.request.constants.get(name) for made in marked.both}) > 1 for name in ("BLOCK_Q", "BLOCK_KV")):
        return ""
    each = [_phases(made) for made in marked.both]
    if each[0].empty or each[1].empty:
        return ""
    a, b = (float(phases.sum()) for phases in each)
    said = f"A key tile takes {figure(a, 3)} ns of a {marked.a.noun} in A and {figure(b, 3)} ns in B."
    apart = pd.concat(each, axis=1, keys=["a", "b"]).fillna(0.0)
    apart = apart.assign(gain=apart.a - apart.b)
    apart = apart[apart.gain.abs() >= LEAST * max(a, b)]
    found = []
    for word, part in (("less", apart[apart.gain > 0]), ("more", apart[apart.gain < 0])):
        most = part.loc[part.gain.abs().sort_values(ascending=False).index[:MOST]]
        if len(most):
            listed = (f"{named(str(e))} ({figure(r.a, 3)} and {figure(r.b, 3)} ns)" for e, r in most.iterrows())
            found.append(f"{word} in {', '.join(listed)}")
    return f"{said} B spends {'; '.join(found)}." if found else said


def caveat(marked: Marked) -> str:
    """What a reader must know of these figures."""
    cost = " and ".join(f"{made.overhead:.1%}" for made in marked.both)
    return (
        "Derived from the marks of block 0 of each. A phase's time has its waits in it, and phases of two warpgroups "
        f"overlap. The marks make a run {cost} longer."
    )


def _needed(made: Pipeline) -> float | None:
    """The share of block 0's time for which the products of all blocks there need the tensor cores."""
    share = pipelines.multiplying(made, 0)
    return None if share is None else share * pipelines.resident(made, 0)


def _phases(made: Pipeline) -> pd.Series:
    """Nanoseconds of each phase in a key tile, the mean over the writers of block 0 that compute."""
    bars = pipelines.bars(made, 0)
    computing = bars[bars.event.isin(["softmax", "scores"])].writer.unique()
    mine = (
        bars[bars.writer.isin(computing) & (bars.event != bars.role) & bars.tile.notna()]
        if "tile" in bars
        else bars[:0]
    )
    tiles = int((mine.event == "tile_begin").sum())
    spent = (mine.end_ns - mine.start_ns).groupby(mine.event.astype(str)).sum()
    return spent / tiles if tiles else spent[:0]
