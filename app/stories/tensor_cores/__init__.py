"""Tensor cores: one product at a time, with the lane and register of every number."""

from functools import lru_cache

from app.choices import pages, places
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
    return Unit(places.request(page, state, backend), state["unit"], state["key_tile"])


STORY = story_of(
    story.STORY,
    path="tensor_cores",
    title="Tensor cores",
    look="Each lane brings a few numbers of A and B and gets a few of C: look for which lane has which. A click on an "
    "element of C shows the sixteen products that one instruction adds to it, a click on one of A or B its way there.",
    page=page,
    subject=subject,
    order=60,
)
