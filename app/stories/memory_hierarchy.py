"""The memory hierarchy: latency and bandwidth against the working set, measured on the GPU at hand or recorded."""

from dataclasses import dataclass

from app.choices import State
from app.choices import levels as choices
from app.choices.pages import HIERARCHY
from app.measured import levels, measuring
from app.measured.times import NOW, stamp
from app.parts.story import Story
from explainers.stories.memory_hierarchy import hierarchy, memory_levels
from explainers.story import probed, stage
from explainers.story.stage import Block, Stage
from kernels.errors import BackendUnavailable
from kernels.measure import hierarchy as timed
from kernels.recordings import tables
from kernels.run import workers


@dataclass(frozen=True)
class Asked:
    """source: whose figures, the first there are if none is named; at: what is recorded; now: what was measured here;
    gpu: this machine's own, if it has one."""

    source: str
    at: tuple[tuple[str, int], ...]
    now: measuring.Now
    gpu: str


def what(state: State, backend: str) -> Asked:
    gpu = workers.survey().devices.get("gpu")
    return Asked(state["source"], stamp(timed.HIERARCHY), measuring.levels(), gpu.name if gpu else "")


def make(asked: Asked) -> Stage:
    spec, here = probed.first(hierarchy), _here(asked)
    measured = levels.measured(asked.source, asked.now)
    if measured is None or memory_levels.nothing(measured.table):
        tabs = [stage.Tab("now", "Measure on this GPU", here)] if here else []
        return Stage(stage.headline(spec), [], [], [stage.code(probed.sample(spec), [])], tabs=tabs, summary=_why())
    from_here = bool(asked.now.rows) and asked.source in ("", NOW)
    label, there = ("measured" if from_here else "recorded"), levels.recorded()
    shown = (
        memory_levels.beside(there, measured.table)
        if from_here and there
        else memory_levels.labelled(measured.table, label)
    )
    return stage.warned(hierarchy.stage_of(measured, shown, label, spec, here), tables.left_out(timed.HIERARCHY))


def _why() -> str:
    try:
        timed.recorded()
    except BackendUnavailable as error:
        return str(error)
    return "Nothing was measured yet."


def _here(asked: Asked) -> list[Block]:
    if not asked.gpu:
        return []
    about = f"Every point of the two charts on {asked.gpu}, one after the other; what is done is shown at once."
    return [
        stage.live("measure", {"what": "hierarchy", "gpu": asked.gpu, "about": about, "measured": len(asked.now.rows)})
    ]


STORY = Story(
    path="memory_hierarchy",
    title="Memory",
    look="Step through the working sets and watch the cycles of a load jump each time a level no longer holds them. "
    "The plateaus between the jumps are the levels of the memory.",
    asked=HIERARCHY,
    what=what,
    make=make,
    narrowed=choices.narrowed,
    made_on="cpu",
)
