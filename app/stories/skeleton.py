"""Row sums: the page of the skeleton story. Copy it to app/stories/NAME.py, and explainers/stories/skeleton to NAME."""

from functools import lru_cache

from app.choices import items, pages
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.skeleton import story
from kernels.catalog import Catalog
from kernels.core.request import Request


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    """The kernels that the explainer accepts, and a choice of the traced item."""
    hooks = {"correct": items.correct, "describe": items.describe, "refusal": story.STORY.refusal}
    return pages.accepted_by(story.STORY, catalog, own=items.OWN, **hooks)


def subject(page: Page, state: State, backend: str) -> Request:
    """The request of the shown run. This function computes nothing."""
    return items.request(page, state, backend)


STORY = story_of(
    story.STORY,
    path="skeleton",  # the name of this module, and the last part of the address
    title="Row sums",
    look="Watch the sum l of a row grow from tile to tile. The last value divides the row of O.",
    order=1000,  # its place in the rail
    page=page,
    subject=subject,
    listed=False,  # remove this line in a copy
)
