"""Online softmax: one row's running max and sum, step by step, next to ordinary softmax of the row."""

from app.choices import pages, places
from app.choices.choice import Choice
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.models.softmax_rows import Row
from explainers.stories.online_softmax import story
from explainers.story import picture
from kernels.catalog import Catalog


def page(catalog: Catalog) -> Page:
    walk = Choice("", late=True, stays=True, meaning=story.WALK)
    return pages.of_tiles(story.STORY, catalog, own={**places.TILE, "walk": walk})


def subject(page: Page, state: State, backend: str) -> Row:
    request = places.request(page, state, backend)
    if not picture.by_tiles(request):
        batch, head, _ = places.traced(page, state)
        return Row(request, state["row"], batch * places.room(request).heads + head, state["walk"])
    return Row(request, picture.query_rows(request)[1] + state["row"])


STORY = story_of(
    story.STORY,
    path="online_softmax",
    title="One pass",
    look="Watch the running max m. When a tile brings a larger score, the kernel corrects the sum l and the output O. "
    "So a row needs one pass over its keys, and no score is stored.",
    page=page,
    subject=subject,
    order=20,
)
