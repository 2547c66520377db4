"""The products of a tile that a kernel makes, counted by launch."""

from collections.abc import Sequence

from explainers.stories.backward.frames import BackwardFrame
from explainers.stories.backward.parts import PRODUCTS

FORWARD = 2  # products of a tile: S and O
PURPOSE = "Training needs dQ, dK and dV: how the loss changes with Q, K and V."
ANY_ORDER = "Atomics add up dQ in any order, so its last bits may vary."
IN_TURN = "Atomics add up dQ in turn, so all bits stay equal."
NO_ATOMICS = "Without atomics, all bits stay equal."


def by_launch(frames: Sequence[BackwardFrame]) -> list[list[str]]:
    """The products of each launch that makes any."""
    found: dict[int, list[str]] = {}
    for frame in frames:
        if frame["whole"]:
            continue
        own = found.setdefault(frame["launch"], [])
        own += [p.made for p in PRODUCTS if p.made in frame["made"] and p.made not in own]
    return [made for made in found.values() if made]


def sentence(frames: Sequence[BackwardFrame], adds: bool, any_order: bool = False) -> str:
    """The purpose of the backward, its number of products of a tile, and the order of its sums.

    adds, any_order: whether blocks add to dQ, and in any order.
    """
    number, least = sum(len(made) for made in by_launch(frames)), len(PRODUCTS)
    if not number:
        return ""
    again = "" if moves_weights(frames) else ", because it computes P again instead of storing it"
    if number > least:
        made = f"{number} products per tile. One loop needs only {least}, but adds dQ by atomics"
    else:
        made = f"{number} products per tile, the forward {FORWARD}{again}"
    order = ANY_ORDER if any_order else IN_TURN if adds else NO_ATOMICS
    return f"{PURPOSE} This kernel makes {made}. {order}"


def moves_weights(frames: Sequence[BackwardFrame]) -> bool:
    """Whether the kernel reads or writes P in global memory."""
    return any(key.startswith("P ") for key in frames[-1]["bytes"])
