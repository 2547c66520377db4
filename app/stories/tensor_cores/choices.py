"""The products of tensor cores to look at: of a warp or a warpgroup, from a tile on."""

from app.choices import block_places, places
from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from explainers.stories.tensor_cores import fragments, tensor_products
from kernels.core.request import Request
from kernels.errors import ProblemError

OWN = places.WHOLE_TILE | {
    "unit": Choice(0, low=0, high=31, meaning="the warp or warpgroup of the block"),
    "key_tile": Choice(0, low=0, high=10**6, meaning="the first tile of the picture"),
}


def _walks_queries(page: Page, state: State) -> bool:
    return tensor_products.walks_queries(page.request_of(state))


def request(page: Page, state: State, backend: str) -> Request:
    """The Request of the traced block: a query tile, or a tile of keys. ProblemError."""
    return (block_places if _walks_queries(page, state) else places).request(page, state, backend)


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces places that the problem does not have, in place."""
    corrections: list[Correction] = []
    try:
        corrections = (block_places if _walks_queries(page, state) else places).correct(page, state)
        for name, high in limits(page, state).items():
            if state[name] > high:
                corrections.append(Correction(name, f"{name} is {state[name]}. Here it can be 0 to {high}."))
                state[name] = 0
    except ProblemError:
        pass  # the page reports the error of the problem
    return corrections


def describe(page: Page, state: State) -> Descriptions:
    """The names and the limits of the choices."""
    whole = page.request_of(state)
    walks = _walks_queries(page, state)
    found = (block_places if walks else places).describe(page, state)
    unit = tensor_products.units(whole)[0]
    for name, high in limits(page, state).items():
        label = unit if name == "unit" else f"first {'query' if walks else 'key'} tile"
        disabled = "" if high else "there is only one"
        found[name] = {"label": label, "high": high, "disabled": disabled, "group": "place"}
    return found


def limits(page: Page, state: State) -> dict[str, int]:
    """name -> the largest that each choice can be. ProblemError."""
    traced = request(page, state, "cpu")
    return {"unit": tensor_products.units(traced)[1] - 1, "key_tile": fragments.key_tiles(traced) - 1}
