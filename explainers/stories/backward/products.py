"""The products of a tile that a kernel makes, counted by launch."""

from collections.abc import Sequence

from explainers.stories.backward import parts
from explainers.stories.backward.frames import BackwardFrame
from explainers.story.glossary import listed

FORWARD = 2  # products of a tile: S and O
ANY_ORDER, IN_TURN = "dQ adds up in any order: bits may vary.", "dQ adds up in turn: bits stay equal."
TIMES = {1: "once", 2: "twice", 3: "three times", 4: "four times"}


def by_launch(frames: Sequence[BackwardFrame]) -> list[list[str]]:
    """The products of each launch that makes any."""
    found: dict[int, list[str]] = {}
    for frame in frames:
        own = found.setdefault(frame["launch"], [])
        own += [p.made for p in parts.PRODUCTS if p.made in frame["made"] and p.made not in own]
    return [made for made in found.values() if made]


def sentence(frames: Sequence[BackwardFrame], adds: bool, any_order: bool = False) -> str:
    """The number of products of a tile, and the products made more than once.

    adds, any_order: whether blocks add to dQ, and in any order.
    """
    each = [part for made in by_launch(frames) for part in made]
    least = len(parts.PRODUCTS)
    if not each:
        return ""
    never = [] if moves_weights(frames) else ["never stores P"]
    if len(each) <= least:
        whole = [f"The kernel computes {len(each)} products per tile, the forward {FORWARD}."]
        whole += [f"It {one}." for one in never] + ([ANY_ORDER if any_order else IN_TURN] if adds else [])
        return " ".join(whole)
    again = [(part, each.count(part)) for part in dict.fromkeys(each) if each.count(part) > 1]
    if len({times for _, times in again}) == 1:
        said = f"{listed([part for part, _ in again])} {TIMES[again[0][1]]}"
    else:
        said = listed([f"{part} {TIMES[times]}" for part, times in again])
    also = [*never, *([] if adds else ["needs no atomics"])]
    end = f" It {', and it '.join(also)}." if also else ""
    return f"This kernel computes {said}: {len(each)} products instead of {least}.{end}"


def moves_weights(frames: Sequence[BackwardFrame]) -> bool:
    """Whether the kernel reads or writes P in global memory."""
    return any(key.startswith("P ") for key in frames[-1]["bytes"])
