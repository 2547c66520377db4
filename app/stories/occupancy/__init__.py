"""Occupancy: the number of blocks on an SM, from the real cubin, and the timeline of a grid with a lane for each SM."""

from dataclasses import dataclass, replace
from functools import lru_cache

from app.choices import pages
from app.choices.choice import Choice
from app.choices.page import BACKEND, Descriptions, Page, State
from app.parts import tabs
from app.parts.story import Story, tab_of
from app.stories.occupancy import choices as timelines
from explainers.stories.occupancy import block_limits, block_questions, grid_timeline, schedules
from explainers.stories.tiling import tiling
from explainers.story import probed, stage
from explainers.story.stage import Block, Stage
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import Machine, alternatives, block_constants, machine
from kernels.build.occupancy import occupancy as derive
from kernels.catalog import Catalog
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import counters
from kernels.measure.timelines import timeline as timeline_of
from kernels.recordings import tables
from kernels.run import workers

VIEWS = {"occupancy": "What limits the blocks", "timeline": "The timeline"}
UNSEEN = ("seed", "score_scale")  # fields without an effect on the occupancy


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


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    own = {
        "view": Choice("occupancy", tuple(VIEWS), stays=True),
        "arch": Choice(DEFAULT_ARCH, pages.ARCHES, stays=True),
        "backend": BACKEND,
        "recorded": Choice(0, low=0, high=1000, meaning="which of the timelines that are recorded of this kernel"),
    }
    return Page(
        catalog,
        catalog.kernels,
        (probed.first(tiling, catalog.kernels).name,),
        own=own,
        defaults=pages.LARGE,
        recorded=False,
        runs=False,
        correct=timelines.correct,
        adapt=adapt,
        describe=describe,
    )


def subject(page: Page, state: State, backend: str) -> Build | Drawn:
    spec, problem, settings = page.kernel_of(state), page.problem_of(state), page.settings_of(state)
    request = Request(spec, problem, tuple(settings.items()), backend="gpu" if backend == "gpu" else "recorded")
    if state["view"] == "timeline":
        if backend == "gpu":
            return Drawn(request, f"{spec.name}, {problem.size}")
        entries = timelines.recorded_of(spec.name)
        if not entries:
            have = ", ".join(dict.fromkeys(entry.kernel for entry in timelines.recorded())) or "no kernel"
            raise ProblemError(
                f"No timeline of the present code of {spec.name} is recorded; there are some of {have}. Choose one of "
                "these, or make them on a GPU with python -m kernels measure timelines."
            )
        entry = entries[min(state["recorded"], len(entries) - 1)]
        return Drawn(entry.request, entry.label)
    request.plan  # noqa: B018  # ProblemError where problem and constants do not go together
    gpu = workers.survey().devices.get("gpu")
    same = gpu is not None and gpu.target == state["arch"]
    here = (gpu.multiprocessors, gpu.name) if gpu is not None and same else (0, "")
    return Build(spec, problem, request.settings, state["arch"], *here)


def make(subject: Build | Drawn) -> Stage:
    if isinstance(subject, Drawn):
        timeline = timeline_of(subject.request)
        result = grid_timeline.timeline_stage(timeline, subject.label)
        return replace(result, questions=block_questions.timeline(schedules.recorded(timeline), result.frames))
    found = derive(subject.kernel, subject.problem, subject.settings, subject.arch, multiprocessors=subject.count)
    result = block_limits.stage_of(
        subject.kernel, found, subject.arch, subject.on, subject.count, subject.name, checked()
    )
    return replace(
        result, questions=block_questions.block_limits(found, subject.on.warps, subject.name, len(result.frames) - 1)
    )


def sizes(build: Build) -> list[Block]:
    """The occupancy of other block sizes, each compiled for this table."""
    if not block_constants(build.kernel):
        return [stage.text(f"{build.kernel.name} has no constant that changes how large a block is.")]
    others = alternatives(build.kernel, build.problem, build.settings, build.arch, build.count)
    now = build.kernel.settings(build.settings)
    said = (
        "Each is a build of its own, compiled for this table. Of a kernel with several launches, the one with the most "
        "blocks."
    )
    return [stage.table(block_limits.alternatives_table(others, now), said)]


def builds(build: Build) -> list[Block]:
    return tabs.builds_of(build.kernel, build.problem, build.settings, build.arch)


def checked() -> str:
    """The check of the derived occupancy."""
    for table, where in counters.recorded_occupancies():
        same = int((table.derived == table.driver).sum())
        source = f"on {where.device}, {where.date}"
        return f"Compared with the driver's own figure {source}: equal in {same} of {len(table)} launches."
    return " ".join(["No comparison with the driver's own figure is recorded.", *tables.left_out(counters.OCCUPANCY)])


def describe(page: Page, state: State) -> Descriptions:
    entries, limits = timelines.recorded_of(state["kernel"]), state["view"] == "occupancy"
    measured = not limits and timelines.measured(state)
    found: Descriptions = {
        "view": {"label": "Look at", "options": VIEWS},
        "arch": {
            "label": "Architecture",
            "hidden": not limits,
            "options": {a: f"{a} ({machine(a).gpu})" for a in page.own["arch"].allowed or ()},
        },
        "backend": {"hidden": limits},
        "recorded": {
            "label": "Recorded",
            "kind": "select",
            "options": dict(enumerate(timelines.labels(entries))),
            "value": str(min(state["recorded"], max(0, len(entries) - 1))),
            "hidden": limits or measured or not entries,
        },
    }
    chosen = limits or measured  # else the recording says problem and build
    found |= {name: {"hidden": not chosen or name in UNSEEN} for name in page.fields(state)}
    found |= {name: {"hidden": not chosen} for name in page.constants(state)}
    return found | {"preset": {"hidden": True}}  # in other stories. The grid here must fill a GPU


def adapt(page: Page, state: State, name: str) -> None:
    """Starts another kernel at its first recording, and takes the problem and the constants of another recording."""
    if name == "kernel":
        state["recorded"] = 0
    if name in ("kernel", "view", "recorded", "backend"):
        timelines.correct(page, state)


STORY = Story(
    path="occupancy",
    title="Occupancy",
    look="Count how many blocks fit on one multiprocessor, resource by resource: the one that allows the fewest "
    "decides. Then see in the timeline what becomes of a grid when its blocks are too few, or unequally long.",
    page=page,
    subject=subject,
    order=120,
    make=make,
    parts={"sizes": tab_of(Build, sizes), "builds": tab_of(Build, builds)},
)
