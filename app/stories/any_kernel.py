"""Any kernel: every step, every tensor and every value of any kernel with a trace."""

from functools import lru_cache

from app.choices import estimates, items, pages
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.any_kernel import story
from kernels.catalog import Catalog
from kernels.core.request import Request


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    own = {"own": items.OWN, "correct": items.correct, "describe": items.describe}
    return pages.accepted_by(story.STORY, catalog, sizes=pages.SMALL_TILES, **own)


def subject(page: Page, state: State, backend: str) -> Request:
    return items.request(page, state, backend)


STORY = story_of(
    story.STORY,
    path="any_kernel",
    title="Any kernel",
    look="Every tensor and every value that a kernel logs is here, also of a kernel that no other page knows. "
    "Step through it and see its reads, its writes and its logged values.",
    page=page,
    subject=subject,
    order=160,
    launches={"bytes": lambda request: estimates.traffic([request])},
)
