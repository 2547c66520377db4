"""The story of occupancy: the blocks of an SM, and the timeline of a grid."""

from dataclasses import dataclass, replace

from explainers.models import schedules
from explainers.stories.occupancy import block_limits, block_questions, grid_timeline
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.build.occupancy import Machine, alternatives, block_constants, machine
from kernels.build.occupancy import occupancy as derive
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import counters
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
        return _of_timeline(subject) if isinstance(subject, Drawn) else _of_build(subject)

    def parts(self) -> dict[str, Part[Build | Drawn]]:
        return {"sizes": sizes}


def _of_timeline(drawn: Drawn) -> Stage:
    timeline = timeline_of(drawn.request)
    result = grid_timeline.timeline_stage(timeline, drawn.label)
    return replace(result, questions=block_questions.timeline(schedules.recorded(timeline), result.frames))


def _of_build(build: Build) -> Stage:
    found = derive(build.kernel, build.problem, build.settings, build.arch, multiprocessors=build.count)
    result = block_limits.stage_of(build.kernel, found, build.arch, build.on, build.count, build.name, checked())
    questions = block_questions.block_limits(found, build.on, build.name)
    return replace(result, questions=questions)


def sizes(subject: Build | Drawn, runner: Runner) -> list[Block]:
    """The occupancy of other block sizes, each compiled for this table."""
    if not isinstance(subject, Build):
        raise ProblemError("This picture has no such tab. Choose another tab, or a kernel that has it.")
    build = subject
    if not block_constants(build.kernel):
        return [stage.text(f"{build.kernel.name} has no constant that changes how large a block is.")]
    others = alternatives(build.kernel, build.problem, build.settings, build.arch, build.count)
    now = build.kernel.settings(build.settings)
    said = (
        "Each row is a build of its own, compiled for this table. If a kernel has several launches, a row shows the "
        "launch with the most blocks."
    )
    return [stage.table(block_limits.alternatives_table(others, now), said)]


def checked() -> str:
    """The check of the derived occupancy."""
    for table, where in tables.recorded(counters.OCCUPANCY).values():
        same = int((table.derived == table.driver).sum())
        source = f"on {where.device}, {where.date}"
        return f"Compared with the driver's own figure {source}: equal in {same} of {len(table)} launches."
    return " ".join(["No comparison with the driver's own figure is recorded.", *tables.left_out(counters.OCCUPANCY)])


STORY = Occupancy()
