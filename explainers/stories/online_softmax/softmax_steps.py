"""A step of a row's softmax in a sentence, and whether its numbers are wrong beyond rounding."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.story.frames import Number
from explainers.story.glossary import logged, short

WRONG = 1e-3  # a relative difference from float64 larger than fp32 rounding
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
    tile: int,
    part: pd.DataFrame,
    values: dict,
    state: dict,
    l_before: float | None,
    truth: pd.Series,
    manner: Manner,
) -> tuple[str, bool]:
    """A step's sentence, and whether its numbers are wrong beyond rounding.

    state: m, l and m_before.
    truth: the tile's row of RowStory.tiles.
    """
    ordinary = manner.ordinary
    where = f"Tile {tile}: " if tile >= 0 and (not ordinary or group in ("scores", "output")) else ""
    finite = bool(np.isfinite(part.value).all())
    if group == "scores":
        said, wrong = _tell_scores(part)
        return where + said, wrong
    if group == "refused":
        said = f"against the reference m the row's weights add up to {values['refused'][0]:,.4g}."
        small = f"at most 1, or at most 1/{manner.share} of its sum so far and {manner.threshold:,}"
        rule = f"The kernel accepts a tile if each lane's sum is {small}. A lane of this warp has a larger sum"
        return f"{where}{said} {rule}, so the kernel refuses the tile and takes its own max.", False
    if group == "max":
        said, wrong = _tell_reference(values, state) if manner.optimistic else _tell_max(values, state, truth, manner)
        return where + said, wrong
    if group == "rescale":
        said, wrong = _tell_rescale(values["rescale"][0], state)
        return where + said, wrong
    if group == "weights":
        rule = "e^(score - m) / l" if ordinary else "e^(score - m)"
        return f"{where}each key's weight is {rule}; the largest is {short(part.value.max())}.", not finite
    if group == "sum":
        said, wrong = _tell_sum(state["l"], l_before, truth, ordinary)
        return where + said, wrong
    rule = "the sum of weight x V" if ordinary else "scaled, then weight x V is added"
    return f"{where}O's row is {rule}; its dim 0 is now {short(part.value.iloc[0])}.", not finite


def _tell_scores(part: pd.DataFrame) -> tuple[str, bool]:
    """The sentence on a tile's scores, and whether all of them are NaN."""
    keys = f"keys {int(part.col.min())} to {int(part.col.max())}" if len(part) > 1 else f"key {int(part.col.iloc[0])}"
    if part.value.isna().all():
        return f"the row's scores with {keys} are NaN.", True
    top = part.loc[part.value.idxmax()]
    return f"the row's scores with {keys}; the largest is {top.value:.4g}, at key {int(top.col)}.", False


def _tell_sum(l: float, l_before: float | None, truth: pd.Series, ordinary: bool) -> tuple[str, bool]:
    """The sentence on l, and whether l is wrong."""
    wrong = not abs(l - truth.l_true) <= WRONG * truth.l_true
    too_large = f", and fp32 ends at {FP32_MAX:.2g}" if FP32_MAX < truth.l_true < np.inf else ""
    due = f" It should be {text_of(truth.l_true)}{too_large}." if wrong else ""
    if l_before is not None:
        return f"the running sum l goes from {text_of(l_before)} to {text_of(l)}.{due}", wrong
    return f"{'the row sum l is' if ordinary else 'the running sum l starts at'} {text_of(l)}.{due}", wrong


def _tell_reference(values: dict, state: dict) -> tuple[str, bool]:
    """The sentence on the m of an optimistic kernel, and whether it is lost. Any m gives the exact softmax, as long as
    nothing overflows."""
    m, m_before, top = state["m"], state["m_before"], values["tile_max"][0]
    if not np.isfinite(m):
        return f"the reference m is {short(m)}.", True
    if m_before is None:
        return f"the reference m starts at this tile's max, {m:.4g}.", False
    if m != m_before:
        return f"the reference m moves from {m_before:.4g} to the tile's max {m:.4g}.", False
    if top <= m:
        return f"the reference m stays {m:.4g}; no score is above it, the largest is {top:.4g}.", False
    return (
        f"the reference m stays {m:.4g}, though the largest score is {top:.4g}. Weights above 1 do no harm while their "
        "sums are small, so the kernel takes no max. (Only the probed build knows the largest score.)",
        False,
    )


def _tell_max(values: dict, state: dict, truth: pd.Series, manner: Manner) -> tuple[str, bool]:
    """The sentence on m, and whether m is wrong. A what-if build may have m = 0: it subtracts nothing, and l counts
    against that m."""
    m, m_before = state["m"], state["m_before"]
    if m is None:
        return f"the largest score of the tile is {values['tile_max'][0]:.4g}.", False
    if not abs(m - truth.m_true) <= WRONG * max(1.0, abs(truth.m_true)):
        if manner.broken and m == 0:
            return f"no max is subtracted: m stays 0, where the row's max so far is {truth.m_true:.4g}.", False
        name = "the row's max m" if manner.ordinary else "the running max m"
        return f"{name} is {short(m)}. It should be {truth.m_true:.4g}.", True
    if m_before is None:
        return f"the row's max m is {m:.4g}." if manner.ordinary else f"the running max m starts at {m:.4g}.", False
    if m > m_before:
        return f"the row's max rises from {m_before:.4g} to {m:.4g}.", False
    if "tile_max" in values and values["tile_max"][0] == -np.inf:
        return f"the row sees no key of this tile, so the running max m stays {m:.4g}.", False
    largest = f"its largest score is {values['tile_max'][0]:.4g}, so " if "tile_max" in values else ""
    return f"{largest}the running max m stays {m:.4g}.", False


def _tell_rescale(factor: float, state: dict) -> tuple[str, bool]:
    m, m_before = state["m"], state["m_before"]
    if m_before is None:
        return f"nothing came before, so there is nothing to rescale (the factor is {factor:.4g}).", False
    due = np.exp(m_before - m)
    power = f"e^({m_before:.4g} - {m:.4g})".replace("- -", "+ ")
    if abs(due - factor) > WRONG:
        return f"l and O should be multiplied by {power} = {due:.4g}; this build multiplies by {factor:.4g}.", True
    return f"l and O so far are scaled by {power} = {factor:.4g}.", False
