"""A row's softmax, and the manner of its kernel."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.online_softmax.frames import RowFrame


@dataclass(frozen=True)
class RowStory:
    """The steps of one row, next to float64.

    frames: one per step, for the browser.
    tiles: tile, m, l, m_true, l_true.
    keys: score, p (as logged), tile, weight (its final weight, over l), score_true and weight_true (float64) of each
        key.
    o_values: float32 [outputs logged, head_dim].
    o_true: float64 [head_dim].
    ordinary_m, ordinary_l: max and sum of the whole row's softmax in float64.
    first_wrong: the first frame with an error larger than rounding, or None.
    error: the row's largest.
    summary: the result in words.
    tone: good, bad, or info for a what-if build without an effect here.
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
        """The step of the trace of each frame."""
        return [frame["moment"] for frame in self.frames]
