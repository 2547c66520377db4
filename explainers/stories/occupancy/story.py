"""The story of occupancy: the blocks of an SM, and the timeline of a grid."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.models import grid, schedules
from explainers.stories.occupancy import limits, timeline
from explainers.stories.occupancy.limits import WORDS
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import short
from explainers.story.stage import Block, Stage, Tab
from kernels.build.occupancy import Machine, alternatives, block_constants, machine
from kernels.build.occupancy import Occupancy as OccupancyOf
from kernels.build.occupancy import occupancy as derive
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import counters
from kernels.measure.timelines import Timeline
from kernels.measure.timelines import timeline as timeline_of
from kernels.recordings import tables


@dataclass(frozen=True)
class Build:
    """A build, for its occupancy.

    multiprocessors, gpu: of this machine's GPU, if it has the architecture.
    """

    kernel: KernelSpec
    problem: Problem
    settings: tuple[tuple[str, int], ...]
    arch: str
    multiprocessors: int = 0
    gpu: str = ""

    @property
    def on(self) -> Machine:
        return machine(self.arch)

    @property
    def name(self) -> str:
        return self.gpu or f"{'an' if self.on.gpu[0] in 'AHLR' else 'a'} {self.on.gpu}"

    @property
    def count(self) -> int:
        return self.multiprocessors or self.on.multiprocessors


@dataclass(frozen=True)
class Drawn:
    """A timeline and its label."""

    request: Request
    label: str


class Occupancy(Story[Build | Drawn]):
    """The limits of a build, or the timeline of a run."""

    def stage(self, subject: Build | Drawn, runner: Runner) -> Stage:
        if isinstance(subject, Drawn):
            return timeline_stage(timeline_of(subject.request), subject.label)
        found = derive(subject.kernel, subject.problem, subject.settings, subject.arch, multiprocessors=subject.count)
        return limits_stage(subject, found)

    def parts(self) -> dict[str, Part[Build | Drawn]]:
        return {"sizes": sizes}


def limits_stage(build: Build, found: Sequence[OccupancyOf]) -> Stage:
    """The limits of a build. found: the occupancy of each launch."""
    data = limits.data_of(found, build.on, build.count, build.name)
    steps, launches = limits.steps_of(data), data["launches"]
    said = WORDS.say("derived", {"arch": build.arch, "checked": checked()})
    table = limits.launches_table(found).set_index("kernel").T.reset_index(names="")
    facts = [stage.table(table.astype(str), "The needs of a block, and the blocks that fit.")]
    return Stage(
        headline=stage.headline(build.kernel),
        frames=WORDS.frames(steps, data),
        views=[limits.picture(data, steps)],
        state=limits.strip(steps, build.on),
        tabs=[
            Tab("hand", "Move the limits", [stage.live("fits", limits.by_hand(found, build.arch.rstrip("af")))]),
            Tab(
                "facts", "Every figure", facts + [stage.text(WORDS.say("launch", {**data, **one})) for one in launches]
            ),
            Tab("sizes", "Other tile sizes"),
            Tab("builds", "Builds"),
            Tab(
                "labels",
                "How it is derived",
                [
                    stage.text(said, "derived"),
                    *(stage.text(WORDS.say("rounding", {**data, **one})) for one in launches),
                ],
            ),
        ],
        provenance=stage.Provenance("derived", said),
        summary=" ".join(WORDS.say("launch", {**data, **one}) for one in launches if not one["blocks"]),
        tone="bad",
        questions=WORDS.questions(data, len(steps) - 1),
    )


def timeline_stage(recorded: Timeline, label: str) -> Stage:
    """The timeline of a grid. label: the build and its problem."""
    schedule, data = schedules.recorded(recorded), timeline.data_of(recorded, label)
    shown = grid.explain(recorded.request, schedule, traced=False)
    facts = [(text, short(data["facts"][name])) for name, text in WORDS.table("facts").items()]
    return Stage(
        headline=stage.headline(recorded.request.kernel),
        frames=shown.frames,
        views=[stage.View("grid", "grid", "Whole grid", shown.meta, shown.columns)],
        state=shown.states,
        provenance=stage.Provenance(
            recorded.provenance, WORDS.say("source", data), place=stage.place(recorded.device, recorded.date)
        ),
        tabs=[Tab("facts", "Every figure", [stage.table(pd.DataFrame(facts, columns=["of all launches", ""]))])],
        summary=WORDS.say("timeline", data),
        questions=WORDS.questions(timeline.asked(schedule, shown.frames), len(shown.frames) - 1),
    )


def sizes(subject: Build | Drawn, runner: Runner) -> list[Block]:
    """The occupancy of other block sizes, each compiled for this table."""
    if not isinstance(subject, Build):
        raise ProblemError("This picture has no such tab. Choose another tab, or a kernel that has it.")
    if not block_constants(subject.kernel):
        return [stage.text(WORDS.say("no_sizes", {"name": subject.kernel.name}))]
    others = alternatives(subject.kernel, subject.problem, subject.settings, subject.arch, subject.count)
    table = limits.alternatives_table(others, subject.kernel.settings(subject.settings))
    return [stage.table(table, WORDS.say("sizes", {}))]


def checked() -> str:
    """The check of the derived occupancy."""
    for table, where in tables.recorded(counters.OCCUPANCY).values():
        same = int((table.derived == table.driver).sum())
        found = {"device": where.device, "date": where.date, "same": same, "compared": len(table)}
        return WORDS.say("checked", found)
    return " ".join([WORDS.say("unchecked", {}), *tables.left_out(counters.OCCUPANCY)])


STORY = Occupancy()
