"""The story of the memory hierarchy: latency and bandwidth against the working set."""

from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from explainers.stories.memory_hierarchy import hierarchy, memory_levels
from explainers.story import probed, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable
from kernels.measure import hierarchy as timed
from kernels.measure.hierarchy import Measured
from kernels.recordings import tables


class New(Protocol):
    """The points that this machine has measured so far."""

    @property
    def device(self) -> str:
        """The GPU."""

    @property
    def driver(self) -> str:
        """Its driver."""

    @property
    def date(self) -> str:
        """ISO."""

    def records(self) -> list[dict[str, object]]:
        """The rows."""


@dataclass(frozen=True)
class Figures:
    """The shown figures.

    source: the GPU of the recording; empty for the latest one.
    at: the state of the recordings.
    now: the points of this machine, or None to show a recording.
    measured: the number of points that this machine has measured.
    gpu: the name of this machine's GPU, or "".
    """

    source: str
    at: tuple[tuple[str, int], ...]
    now: New | None
    measured: int
    gpu: str


class Levels(Story[Figures]):
    """The levels of the memory, by a chase and a stream."""

    WANTS = hierarchy.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return "" if hierarchy.accepts(spec) else f"{spec.name} does not walk a working set between two clocks."

    def stage(self, subject: Figures, runner: Runner) -> Stage:
        spec, here = probed.first(self), _here(subject)
        measured = _shown(subject)
        if measured is None or memory_levels.nothing(measured.table):
            tabs = [stage.Tab("now", "Measure on this GPU", here)] if here else []
            return Stage(stage.headline(spec), [], [], [stage.code(probed.sample(spec), [])], tabs=tabs, summary=_why())
        label, latest = ("measured" if subject.now else "recorded"), _latest()
        rows = memory_levels.labelled(measured.table, label)
        if subject.now and latest:
            rows = memory_levels.beside(latest, measured.table)
        return stage.warned(hierarchy.stage_of(measured, rows, label, spec, here), tables.left_out(timed.HIERARCHY))


def _shown(figures: Figures) -> Measured | None:
    """The table of the figures, or None."""
    now, latest = figures.now, _latest()
    if now is None:
        return timed.recorded(figures.source) if figures.source else latest
    table = pd.DataFrame(now.records())
    wanted = list(latest.table.columns) if latest else [*table.columns]
    return Measured(table.reindex(columns=wanted), now.device, now.driver, now.date, "")


def _latest() -> Measured | None:
    try:
        return timed.recorded()
    except BackendUnavailable:
        return None


def _why() -> str:
    try:
        timed.recorded()
    except BackendUnavailable as error:
        return str(error)
    return "Nothing was measured yet."


def _here(figures: Figures) -> list[Block]:
    if not figures.gpu:
        return []
    about = f"Measures every point of both charts on {figures.gpu}, one after the other. Each point shows at once."
    meta = {"what": "hierarchy", "gpu": figures.gpu, "about": about, "measured": figures.measured}
    return [stage.live("measure", meta)]


STORY = Levels()
