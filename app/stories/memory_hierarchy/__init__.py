"""The memory hierarchy: latency and bandwidth against the working set, measured on the GPU at hand or recorded."""

from functools import lru_cache

from app.choices.page import Page, State
from app.measured import measuring
from app.parts.explained import story_of
from app.stories.memory_hierarchy import choices
from explainers.stories.memory_hierarchy import story
from explainers.stories.memory_hierarchy.story import Figures
from explainers.stories.timing.times import NOW, stamp
from kernels.catalog import Catalog
from kernels.measure import hierarchy
from kernels.run import workers


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(catalog, own=choices.OWN, correct=choices.correct, describe=choices.describe)


def subject(page: Page, state: State, backend: str) -> Figures:
    gpu, now, source = workers.survey().devices.get("gpu"), measuring.levels(), state["source"]
    here = now if now.rows and source in ("", NOW) else None
    recorded = "" if source == NOW else source
    return Figures(recorded, stamp(hierarchy.HIERARCHY), here, len(now.rows), gpu.name if gpu else "")


STORY = story_of(
    story.STORY,
    path="memory_hierarchy",
    title="Memory",
    look="Step through the working sets. The cycles of a load jump each time a level is too small for the data. "
    "Each plateau between two jumps is one level of the memory.",
    page=page,
    subject=subject,
    order=110,
    request_tabs=False,
    made_on="cpu",
)
