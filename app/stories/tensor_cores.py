"""Tensor cores: one product at a time, with the lane and register of every number."""

from app.choices import block_places, pages, places
from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from app.parts.explained import story_of
from explainers.stories.tensor_cores import fragments, story, tensor_products
from explainers.stories.tensor_cores.story import Unit
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.errors import ProblemError

OWN = places.WHOLE_TILE | {
    "unit": Choice(0, low=0, high=31, meaning="the warp or warpgroup of the block"),
    "key_tile": Choice(0, low=0, high=10**6, meaning="the first tile of the picture"),
}


def page(catalog: Catalog) -> Page:
    return pages.of_tiles(story.STORY, catalog, own=OWN, correct=correct, describe=describe)


def subject(page: Page, state: State, backend: str) -> Unit:
    return Unit(request(page, state, backend), state["unit"], state["key_tile"])


# ---- the choices ----


def _walks_queries(page: Page, state: State) -> bool:
    return tensor_products.walks_queries(page.request_of(state))


def request(page: Page, state: State, backend: str) -> Request:
    """The Request of the traced block: a query tile, or a tile of keys. ProblemError."""
    return (block_places if _walks_queries(page, state) else places).request(page, state, backend)


def correct(page: Page, state: State) -> list[Correction]:
    try:
        corrections = (block_places if _walks_queries(page, state) else places).correct(page, state)
        return corrections + places.correct(page, state, limits)
    except ProblemError:
        return []  # the page reports the error of the problem


def describe(page: Page, state: State) -> Descriptions:
    whole = page.request_of(state)
    walks = _walks_queries(page, state)
    found = (block_places if walks else places).describe(page, state)
    unit = tensor_products.units(whole)[0]
    labels = {"unit": unit, "key_tile": f"first {'query' if walks else 'key'} tile"}
    own = places.describe(page, state, limits, labels)
    return found | {name: entry | {"group": "place"} for name, entry in own.items()}


def limits(page: Page, state: State) -> dict[str, int]:
    traced = request(page, state, "cpu")
    return {"unit": tensor_products.units(traced)[1] - 1, "key_tile": fragments.key_tiles(traced) - 1}


STORY = story_of(
    story.STORY,
    path="tensor_cores",
    title="Fragments",
    look="The number in a cell is the lane that holds it. Look for the lanes of one row. "
    "Click a cell of C to see its 16 products. Click a cell of A or B to see its way to the lane.",
    page=page,
    subject=subject,
    order=60,
)
