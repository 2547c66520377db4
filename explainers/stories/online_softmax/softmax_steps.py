"""A step of a row's softmax in a sentence, and whether its numbers are wrong beyond rounding."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.models.softmax_rows import WRONG
from explainers.story.frames import Number
from explainers.story.glossary import logged, short

FP32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Manner:
    """How the kernel makes the softmax.

    ordinary: as online_softmax.is_ordinary says
    optimistic: as online_softmax.is_optimistic says
    broken: a what-if is on
    threshold: an optimistic kernel refuses a tile with a larger sum of a lane's weights
    share: it also refuses a sum above one `share`-th of the lane's sum so far
    """

    ordinary: bool
    optimistic: bool
    broken: bool
    threshold: int | None
    share: int | None


def text_of(value: Number) -> str | None:
    return None if value is None else logged(float(value))


def tell(
    group: str,
    part: pd.DataFrame,
    values: dict,
    state: dict,
    l_before: float | None,
    truth: pd.Series,
    manner: Manner,
) -> tuple[str, bool]:
    """A step's sentence, and whether its numbers are wrong beyond rounding.

    part: the records of the step. values: event -> their values.
    state: m, l and m_before.
    l_before: l before the step.
    truth: the tile's row of RowStory.tiles.
    """
    finite = bool(np.isfinite(part.value).all())
    if group == "scores":
        return _tell_scores(part)
    if group == "refused":
        total = short(values["refused"][0])
        return (
            f"The weights against the reference m add up to {total}. That is too large, so the tile gets its own m.",
            False,
        )
    if group == "max":
        return _tell_reference(values, state) if manner.optimistic else _tell_max(values, state, truth, manner)
    if group == "rescale":
        return _tell_rescale(values["rescale"][0], state)
    if group == "weights":
        rule = "e^(score - m) / l" if manner.ordinary else "e^(score - m)"
        return f"Each key's weight is {rule}. The largest is {short(part.value.max())}.", not finite
    if group == "sum":
        return _tell_sum(state["l"], l_before, truth, manner.ordinary)
    rule = "O is the sum of weight times V." if manner.ordinary else "The kernel adds weight times V to O."
    return f"{rule} Its dim 0 is now {short(part.value.iloc[0])}.", not finite


def details(group: str, values: dict, state: dict, manner: Manner) -> str:
    """The rule behind a step, for a hover, or an empty text."""
    if group == "refused":
        return (
            f"The kernel accepts a tile if each lane's sum is at most 1, or at most 1/{manner.share} of its sum so far "
            f"and {manner.threshold:,}. A lane of this warp has a larger sum."
        )
    m, before = state["m"], state["m_before"]
    if group == "rescale" and m is not None and before is not None:
        return f"{_power(before, m)} = {logged(float(np.exp(before - m)))}"
    if group == "max" and manner.optimistic and m == before:
        return "Weights above 1 do no harm while their sums are small. Only the probed build knows the largest score."
    return ""


def _power(before: float, m: float) -> str:
    return f"e^({short(before)} - {short(m)})".replace("- -", "+ ")


def _tell_scores(part: pd.DataFrame) -> tuple[str, bool]:
    """The sentence on a tile's scores, and whether all are NaN."""
    first, last = int(part.col.min()), int(part.col.max())
    meets = f"The row meets keys {first} to {last}." if first < last else f"The row meets key {first}."
    if part.value.isna().all():
        return f"{meets} All its scores are NaN.", True
    top = part.loc[part.value.idxmax()]
    return f"{meets} The largest score is {short(top.value)}, at key {int(top.col)}.", False


def _tell_sum(l: float, l_before: float | None, truth: pd.Series, ordinary: bool) -> tuple[str, bool]:
    """The sentence on l, and whether l is wrong."""
    wrong = not abs(l - truth.l_true) <= WRONG * truth.l_true
    too_large = f", but fp32 ends at {short(FP32_MAX, 2)}" if FP32_MAX < truth.l_true < np.inf else ""
    due = f" It should be {short(truth.l_true)}{too_large}." if wrong else ""
    if l_before is not None:
        return f"The running sum l goes from {short(l_before)} to {short(l)}.{due}", wrong
    return f"{'The row sum l is' if ordinary else 'The running sum l starts at'} {short(l)}.{due}", wrong


def _tell_reference(values: dict, state: dict) -> tuple[str, bool]:
    """The sentence on the m of an optimistic kernel, and whether it is lost. Any m gives the exact softmax, as long as
    nothing overflows."""
    m, m_before, top = state["m"], state["m_before"], values["tile_max"][0]
    if not np.isfinite(m):
        return f"The reference m is {short(m)}.", True
    if m_before is None:
        return f"The reference m starts at this tile's max, {short(m)}.", False
    if m != m_before:
        return f"The reference m moves from {short(m_before)} to the tile's max {short(m)}.", False
    if top <= m:
        return f"No score is above the reference m, {short(m)}. The largest is {short(top)}.", False
    return (
        f"The reference m stays {short(m)}, though the largest score is {short(top)}. The kernel takes no max.",
        False,
    )


def _tell_max(values: dict, state: dict, truth: pd.Series, manner: Manner) -> tuple[str, bool]:
    """The sentence on m, and whether m is wrong. A what-if build may have m = 0: it subtracts nothing, and l counts
    against that m."""
    m, m_before = state["m"], state["m_before"]
    if m is None:
        return f"The largest score of the tile is {short(values['tile_max'][0])}.", False
    if not abs(m - truth.m_true) <= WRONG * max(1.0, abs(truth.m_true)):
        if manner.broken and m == 0:
            return f"No max is subtracted: m stays 0. The row's max so far is {short(truth.m_true)}.", False
        name = "The row's max m" if manner.ordinary else "The running max m"
        return f"{name} is {short(m)}. It should be {short(truth.m_true)}.", True
    if m_before is None:
        return (
            f"The row's max m is {short(m)}." if manner.ordinary else f"The running max m starts at {short(m)}.",
            False,
        )
    if m > m_before:
        return f"The row's max rises from {short(m_before)} to {short(m)}.", False
    if "tile_max" in values and values["tile_max"][0] == -np.inf:
        return f"The row sees no key of this tile, so the running max m stays {short(m)}.", False
    largest = f"The tile's largest score is {short(values['tile_max'][0])}. So the" if "tile_max" in values else "The"
    return f"{largest} running max m stays {short(m)}.", False


def _tell_rescale(factor: float, state: dict) -> tuple[str, bool]:
    """The sentence on the rescale factor, and whether it is wrong."""
    m, m_before = state["m"], state["m_before"]
    if m_before is None:
        return "Nothing came before this tile, so the kernel has nothing to rescale.", False
    due = np.exp(m_before - m)
    if abs(due - factor) > WRONG:
        return (
            f"The kernel should multiply l and O by {short(due)}, but this build multiplies by {short(factor)}.",
            True,
        )
    if factor == 1:
        return "The max is the old one, so l and O stay as they are.", False
    return f"The kernel multiplies l and O by {short(factor)}. Now they count against the new max.", False
