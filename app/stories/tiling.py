"""Tiling: the part of Q, K^T, S, V and O that a block works on, its tiles in memory, and their gain."""

from app.choices import estimates, pages, places
from app.parts import running
from app.parts.explained import story_of
from explainers.stories.tiling import story as tiles
from kernels.catalog import current
from kernels.core.request import Request


def others(request: Request) -> list[Request]:
    """The request for every kernel of the page that solves its problem."""
    return STORY.page(current()).others_on(request)


STORY = story_of(
    tiles.STORY,
    path="tiling",
    title="Tiles",
    look="Watch the block fetch rows of K and V, and count how often it fetches the same row. "
    "A row in shared memory comes from global memory only once.",
    order=10,
    pictures=("matrices",),
    page=lambda catalog: pages.of_tiles(tiles.STORY, catalog),
    subject=places.request,
    launches={"bytes": lambda request: estimates.traffic(others(request))},
    parts={"bytes": lambda request: tiles.bytes_tab(request, others(request), running)},
)
