"""Which products of tensor cores are looked at: those of a warp, or of a warpgroup, from a key tile on."""

from app.choices import places
from app.choices.asked import Asked, State
from app.choices.choice import Choice
from explainers.stories.tensor_cores import fragments, tensor_products
from kernels.errors import ProblemError

OWN = places.WHOLE_TILE | {
    "unit": Choice(0, low=0, high=31, meaning="whose products: those of this warp, or warpgroup, of the block"),
    "key_tile": Choice(0, low=0, high=10**6, meaning="the key tile whose products come first"),
}


def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what the problem leaves out of range at its beginning, in place; (name, sentence) of each."""
    moved = places.settle(asked, state)
    try:
        for name, high in limits(asked, state).items():
            if state[name] > high:
                moved.append((name, f"{name} is {state[name]}; here it can be 0 to {high}."))
                state[name] = 0
    except ProblemError:
        pass  # the page says what is wrong with the problem
    return moved


def limits(asked: Asked, state: State) -> dict[str, int]:
    """name -> the largest that each choice can be. ProblemError."""
    request = places.request(asked, state, "cpu")
    return {"unit": tensor_products.units(request)[1] - 1, "key_tile": fragments.key_tiles(request) - 1}
