"""Tensor cores: one product at a time, with the lane and register of every number."""

from functools import lru_cache

from app.choices import pages
from app.choices.page import Page, State
from app.parts.explained import story_of
from app.stories.tensor_cores import choices
from explainers.stories.tensor_cores import story
from explainers.stories.tensor_cores.story import Unit
from kernels.catalog import Catalog


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    own = {"own": choices.OWN, "correct": choices.correct, "describe": choices.describe}
    return pages.of_tiles(story.STORY, catalog, **own)


def subject(page: Page, state: State, backend: str) -> Unit:
    return Unit(choices.request(page, state, backend), state["unit"], state["key_tile"])


STORY = story_of(
    story.STORY,
    path="tensor_cores",
    title="Tensor cores",
    look="The number in a cell is the lane that holds it. Look for the lanes of one row. "
    "Click a cell of C to see its 16 products. Click a cell of A or B to see its way to the lane.",
    page=page,
    subject=subject,
    order=60,
)
