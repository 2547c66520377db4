"""Tiling: the part of Q, K^T, S, V and O that a block works on, its tiles in memory, and their gain."""

from functools import lru_cache

from app.choices import estimates, pages, places
from app.choices.page import Page, State
from app.parts import running
from app.parts.explained import story_of
from explainers.stories.tiling import story as tiles
from explainers.story.stage import Block
from kernels.catalog import Catalog, current
from kernels.core.request import Request


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return pages.of_tiles(tiles.STORY, catalog)


def subject(page: Page, state: State, backend: str) -> Request:
    return places.request(page, state, backend)


def others(request: Request) -> list[Request]:
    """The request for every kernel of the page that solves its problem."""
    return page(current()).others_on(request)


def bytes_tab(request: Request) -> list[Block]:
    return tiles.bytes_tab(request, others(request), running)


STORY = story_of(
    tiles.STORY,
    path="tiling",
    title="Why tiles",
    look="Watch the block fetch rows of K and V, and count how often it fetches the same row. "
    "A row in shared memory comes from global memory only once.",
    order=10,
    page=page,
    subject=subject,
    launches={"bytes": lambda request: estimates.traffic(others(request))},
    parts={"bytes": bytes_tab},
)
