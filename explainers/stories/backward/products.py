"""The products of a tile that a kernel makes, counted by launch."""

from collections.abc import Sequence

from explainers.models.gradients import PRODUCTS
from explainers.stories.backward.frames import BackwardFrame

FORWARD = 2  # products of a tile: S and O
PURPOSE = "Training needs dQ, dK and dV: how the loss changes with Q, K and V."


def by_launch(frames: Sequence[BackwardFrame]) -> list[list[str]]:
    """The products of each launch that makes any."""
    found: dict[int, list[str]] = {}
    for frame in frames:
        if frame["whole"]:
            continue
        own = found.setdefault(frame["launch"], [])
        own += [p.made for p in PRODUCTS if p.made in frame["made"] and p.made not in own]
    return [made for made in found.values() if made]


def sentence(frames: Sequence[BackwardFrame], idea: str, adds: bool) -> str:
    """The purpose of the backward, its number of products of a tile, and the idea of the kernel.

    idea: of the kernel's front matter. The sentence takes its first sentence.
    adds: whether blocks add their parts of dQ.
    """
    number, least = sum(len(made) for made in by_launch(frames)), len(PRODUCTS)
    if not number:
        return ""
    if number > least:
        made = f"one loop of the backward {least}. This kernel makes {number}"
        made += "" if adds else ", but it needs no atomics"
        return f"{PURPOSE} The forward makes {FORWARD} products per tile, {made}."
    five = number == least and not moves_weights(frames)
    more = f"The backward takes {number / FORWARD:g} times the products of the forward." if five else ""
    first = idea.partition(". ")[0].rstrip(".")
    return " ".join(filter(None, [PURPOSE, more, f"Here, {first}."]))


def recomputes(frames: Sequence[BackwardFrame]) -> bool:
    """Whether the kernel computes P again from Q, K and LSE."""
    return not moves_weights(frames) and "LSE load" in frames[-1]["bytes"]


def moves_weights(frames: Sequence[BackwardFrame]) -> bool:
    """Whether the kernel reads or writes P in global memory."""
    return any(key.startswith("P ") for key in frames[-1]["bytes"])
