"""A row's softmax, and the manner of its kernel."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.online_softmax.frames import RowFrame
from explainers.story import probed
from kernels.core.spec import KernelSpec


@dataclass(frozen=True)
class RowStory:
    """The steps of one row, and what float64 says of it.

    frames: one per step, for the browser. tiles: tile, m, l, m_true, l_true. keys: the row's keys, one row each: score,
    p (as logged), tile, weight (what it counts for in the end, over l), score_true and weight_true (in float64).
    o_values [outputs logged, head_dim]; o_true [head_dim] float64. ordinary_m, ordinary_l: max and sum of the whole
    row's softmax in float64. first_wrong: the first frame off beyond rounding, if any. error: the row's largest.
    summary: what the row shows, in words; tone: good, bad, or info for a what-if build that shows nothing here.
    """

    frames: list[RowFrame]
    tiles: pd.DataFrame
    keys: pd.DataFrame
    o_values: np.ndarray
    o_true: np.ndarray
    ordinary_m: float
    ordinary_l: float
    first_wrong: int | None
    error: float
    summary: str
    tone: str

    @property
    def steps(self) -> list[int]:
        """The step of the trace that each frame belongs to."""
        return [frame["moment"] for frame in self.frames]


def is_ordinary(kernel: KernelSpec) -> bool:
    """Whether the kernel has one m and l for the whole row, and no running ones: its m probe has no key `tile`."""
    return "tile" not in probed.values(kernel)["m"]


def is_optimistic(kernel: KernelSpec) -> bool:
    """Whether the kernel takes weights against an m that need not be the max, and refuses tiles whose sums come out
    too large: it logs what it refused."""
    return "refused" in probed.values(kernel)


def m_name(ordinary: bool, optimistic: bool) -> str:
    """What the kernel's m is called."""
    return "reference m" if optimistic else "max m" if ordinary else "running max m"
