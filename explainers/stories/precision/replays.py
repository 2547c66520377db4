"""The replays of one problem in every type, and its numbers in words."""

import math
from dataclasses import dataclass
from functools import cached_property

from explainers.stories.precision.frames import RoundingFrame
from explainers.stories.precision.replay import Replay
from explainers.story.glossary import figure

TITLES = {
    "exact": "Float64",
    "inputs": "Inputs rounded",
    "scores": "Scores",
    "exponential": "Exponential",
    "weights": "Weights rounded",
    "sum": "Sum l",
    "output": "Products with V",
    "write": "O rounded",
}
ASKED = {
    **TITLES,
    "inputs": "Rounding Q, K and V",
    "scores": "Computing the scores",
    "weights": "Rounding the weights",
    "write": "Rounding O at the end",
}
"""The steps as answers of a question."""


@dataclass(frozen=True)
class Replays:
    """The replay of the chosen kernel's run, and of others on the same numbers: a type each."""

    chosen: Replay
    others: tuple[Replay, ...]
    frames: list[RoundingFrame]

    @cached_property
    def all(self) -> list[Replay]:
        """The most exact first."""
        return sorted((self.chosen, *self.others), key=lambda made: made.so_far[-1])


def short(value: float) -> str:
    """An error: two digits, small ones as the picture says them, 5.1e-4."""
    if math.isnan(value):
        return "NaN"
    said = f"{value:.1e}" if 0 < abs(value) < 1e-3 else figure(value, 2)
    return said.replace("e-0", "e-")


def percent(share: float) -> str:
    if not math.isfinite(share):
        return "none"
    return "less than 0.1%" if 0 < abs(share) < 0.0005 else f"{share:.1%}"


def part_of(error: float, size: float) -> str:
    """A share: in percent, or of how many one part is."""
    share = error / size
    return figure(share, 2) if share < 1e-4 else f"{share:.2%}"


def right_bits(error: float, size: float) -> str:
    if not math.isfinite(error):
        return "none"
    return "all of float64" if not error else f"{math.log2(size / error):.1f}"
