"""The memory hierarchy: latency and bandwidth against the working set, measured on the GPU at hand or recorded."""

from dataclasses import dataclass
from functools import lru_cache

from app.choices.page import Page, State
from app.measured import levels, measuring
from app.measured.times import NOW, stamp
from app.parts.story import Story
from app.stories.memory_hierarchy import choices
from explainers.stories.memory_hierarchy import hierarchy, memory_levels
from explainers.story import probed, stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog, current
from kernels.errors import BackendUnavailable
from kernels.measure import hierarchy as timed
from kernels.recordings import tables
from kernels.run import workers


@dataclass(frozen=True)
class Figures:
    """The shown figures.

    source: their name; empty for the first source.
    at: the state of the recordings.
    now: the results of this GPU.
    gpu: the name of this machine's GPU, or "".
    """

    source: str
    at: tuple[tuple[str, int], ...]
    now: measuring.Now
    gpu: str


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(catalog, own=choices.OWN, correct=choices.correct, describe=choices.describe)


def subject(page: Page, state: State, backend: str) -> Figures:
    gpu = workers.survey().devices.get("gpu")
    return Figures(state["source"], stamp(timed.HIERARCHY), measuring.levels(), gpu.name if gpu else "")


def make(figures: Figures) -> Stage:
    spec, here = probed.first(hierarchy, current().kernels), _here(figures)
    measured = levels.measured(figures.source, figures.now)
    if measured is None or memory_levels.nothing(measured.table):
        tabs = [stage.Tab("now", "Measure on this GPU", here)] if here else []
        return Stage(stage.headline(spec), [], [], [stage.code(probed.sample(spec), [])], tabs=tabs, summary=_why())
    from_here = bool(figures.now.rows) and figures.source in ("", NOW)
    label, latest = ("measured" if from_here else "recorded"), levels.recorded()
    shown = (
        memory_levels.beside(latest, measured.table)
        if from_here and latest
        else memory_levels.labelled(measured.table, label)
    )
    return stage.warned(hierarchy.stage_of(measured, shown, label, spec, here), tables.left_out(timed.HIERARCHY))


def _why() -> str:
    try:
        timed.recorded()
    except BackendUnavailable as error:
        return str(error)
    return "Nothing was measured yet."


def _here(figures: Figures) -> list[Block]:
    if not figures.gpu:
        return []
    about = f"Every point of the two charts on {figures.gpu}, one after the other; what is done is shown at once."
    return [
        stage.live(
            "measure", {"what": "hierarchy", "gpu": figures.gpu, "about": about, "measured": len(figures.now.rows)}
        )
    ]


STORY = Story(
    path="memory_hierarchy",
    title="Memory",
    look="Step through the working sets and watch the cycles of a load jump each time a level no longer holds them. "
    "The plateaus between the jumps are the levels of the memory.",
    page=page,
    subject=subject,
    order=110,
    make=make,
    made_on="cpu",
)
