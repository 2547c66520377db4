"""The tables and sentences of the errors of all types."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.stories.precision import replay
from explainers.stories.precision.replay import STAGES, Replay, rms
from explainers.stories.precision.replays import TITLES, Replays, part_of, short
from explainers.story import axes, picture
from explainers.story.glossary import figure
from kernels.core.dtypes import element_type

NOISE = 3.0  # times the error of storing the exact O: the noise of its type
SHOWN_ROWS = 8  # rows of a table


def types_table(story: Replays) -> pd.DataFrame:
    """Every type: O's error against float64, next to the error of only storing the exact O in that type."""
    rows = []
    for made in story.all:
        least = _least(made)
        error = float(made.so_far[-1])
        rows.append(
            {
                "computes in": made.label,
                "kernel": made.request.kernel.name,
                "RMS error of O": short(error),
                "of O's size": figure(error / rms(made.exact), 2),
                "largest error": short(float(np.abs(made.o[-1]).max())),
                "exact O stored in its type": short(least),
                "times that": figure(error / least, 3) if least else "",
                "chosen": made is story.chosen,
            }
        )
    return pd.DataFrame(rows)


def parts_table(story: Replays) -> pd.DataFrame:
    """Every type: by how much each stage moves O (RMS)."""
    return pd.DataFrame(
        [
            {"computes in": made.label, **dict(zip(list(TITLES.values())[1:], map(short, made.sizes[1:])))}
            for made in story.all
        ]
    )


def meaning(made: Replay) -> str:
    """The meaning of the numbers for a model, in a sentence."""
    error, size = float(made.so_far[-1]), rms(made.exact)
    if not math.isfinite(error):
        return f"{made.label}: one NaN or infinity here makes every later number of a model NaN."
    kind = element_type(picture.tensor_at(made.request, "O").dtype)
    least = _least(made)
    if kind.bytes > 2:
        step = rms(replay.rounded_to(made.exact, "bfloat16") - made.exact)
        if error < step:
            return (
                f"{made.label}: a model that rounds O to bfloat16 next adds {figure(round(step / error))} times this "
                "error there."
            )
        return f"{made.label}: the error is larger than that of rounding O to bfloat16. A model would notice it."
    share = part_of(error, size)
    said = f"{made.label}: the error is {figure(error / least, 2)} times what storing the exact O costs, {share} of O."
    if error <= NOISE * least:
        return f"{said} A model that keeps its numbers in {kind.name} has noise of that size wherever it stores one."
    return f"{said} That is more than the noise that a model has from keeping its numbers in {kind.name}."


def _least(made: Replay) -> float:
    """The RMS error of the exact O, stored in the type of O."""
    return rms(replay.rounded_to(made.exact, picture.tensor_at(made.request, "O").dtype) - made.exact)


def worst_rows_table(made: Replay) -> pd.DataFrame:
    """The rows with the largest errors of O: their errors of scores, weights, sum and O, and the key tile with the
    largest error of O."""
    rows = []
    for row in made.worst_rows()[:SHOWN_ROWS]:
        at = row - made.rows[0]
        tile = made.tile[-1, at]
        known = np.isfinite(tile)
        rows.append(
            {
                "row": str(row),
                "a score": short(_most(made.score[-1, at], made.score[0, at])),
                "a key's share": short(_most(made.weight[-1, at], made.weight[0, at])),
                "l, of itself": short(_most(made.sum[-1, at], made.sum[0, at])),
                "O": short(_most(made.o[-1, at], made.o[0, at])),
                "O was furthest off after tile": str(int(np.nanargmax(tile))) if known.any() else "",
            }
        )
    return pd.DataFrame(rows)


def _most(errors: np.ndarray, there: np.ndarray) -> float:
    """The largest |error|, NaN if one is NaN.

    there: the errors of stage 0, NaN for values without one.
    """
    return float(np.abs(errors[~np.isnan(there)]).max(initial=0.0))


def sweep_table(field: str, swept: Sequence[Replay]) -> pd.DataFrame:
    """A row for each replay of a sweep over a field of the problem: the value, the type, O's error as RMS and as a
    share of its RMS, and the step with the largest change of O."""
    return pd.DataFrame(
        [
            {
                field: made.request.problem.values()[field],
                "computes in": made.label,
                "RMS error of O": float(made.so_far[-1]),
                "relative error": float(made.so_far[-1] / rms(made.exact)),
                "most of it": TITLES[STAGES[int(np.argmax(made.sizes))]] if np.isfinite(made.sizes).all() else "NaN",
            }
            for made in swept
        ]
    )


def lead_sentence(made: Replay) -> tuple[str, int]:
    """The sentence on the worst row, and the row, counted in its head."""
    row = int(made.worst_rows()[0])
    at = row - made.rows[0]
    error, inputs = _most(made.o[-1, at], made.o[0, at]), STAGES.index("inputs")
    heads = axes.heads(picture.tensor_at(made.request, "O"))
    of = f", of head {picture.query_rows(made.request)[0]}" if heads > 1 else ""
    said = f"The worst row of this tile is {row}{of}: O is off by up to {short(error)} in it."
    if made.sizes[inputs]:
        rest = _most(made.o[-1, at] - made.o[inputs, at], made.o[0, at])
        said += f" With the rounded inputs as the truth, this is {short(rest)}."
    return said, row
