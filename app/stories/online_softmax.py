"""Online softmax: one row's running max and sum, step by step, next to ordinary softmax of the row."""

from functools import lru_cache

from app.choices import pages, places
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.online_softmax import story
from explainers.stories.online_softmax.story import Row
from explainers.story import picture
from kernels.catalog import Catalog


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return pages.of_tiles(story.STORY, catalog)


def subject(page: Page, state: State, backend: str) -> Row:
    request = places.request(page, state, backend)
    return Row(request, picture.query_rows(request)[1] + state["row"])


STORY = story_of(
    story.STORY,
    path="online_softmax",
    title="Online softmax",
    look="Watch the running max m, and what becomes of l and O when a tile brings a larger score: all that they hold "
    "so far counts against the old max. That is why a row needs one pass over its keys and is never stored.",
    page=page,
    subject=subject,
    order=20,
)
