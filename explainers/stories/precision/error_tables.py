"""The replays of one problem in every type: their tables, their charts, and their numbers in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import KERNELS
from explainers.stories.precision import rounding
from explainers.stories.precision.rounding import STAGES, Replay, rms
from explainers.story import picture
from explainers.story.glossary import figure
from explainers.story.words import Words

SHOWN_ROWS = 8  # rows of a table
POINTS = 60  # of a line
WORDS = Words.of(str(__package__))
TITLES = WORDS.table("titles")


@dataclass(frozen=True)
class Replays:
    """The replay of the chosen kernel's run, and of others on the same numbers: a type each."""

    chosen: Replay
    others: tuple[Replay, ...]

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


# ---- tables ----


def types_table(story: Replays) -> pd.DataFrame:
    """Every type: O's error against float64, next to the error of only storing the exact O in that type."""
    rows = []
    for made in story.all:
        stored = least(made)
        error = float(made.so_far[-1])
        rows.append(
            {
                "computes in": made.label,
                "kernel": made.request.kernel.name,
                "RMS error of O": short(error),
                "of O's size": figure(error / rms(made.exact), 2),
                "largest error": short(float(np.abs(made.o[-1]).max())),
                "exact O stored in its type": short(stored),
                "times that": figure(error / stored, 3) if stored else "",
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


def least(made: Replay) -> float:
    """The RMS error of the exact O, stored in the type of O."""
    return rms(rounding.rounded_to(made.exact, picture.tensor_at(made.request, "O").dtype) - made.exact)


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
                "a score": short(most(made.score[-1, at], made.score[0, at])),
                "a key's share": short(most(made.weight[-1, at], made.weight[0, at])),
                "l, of itself": short(most(made.sum[-1, at], made.sum[0, at])),
                "O": short(most(made.o[-1, at], made.o[0, at])),
                "O was furthest off after tile": str(int(np.nanargmax(tile))) if known.any() else "",
            }
        )
    return pd.DataFrame(rows)


def most(errors: np.ndarray, there: np.ndarray) -> float:
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


# ---- charts ----


def tiles(made: Replay) -> alt.TopLevelMixin:
    """The largest error in each row after each key tile: of scores and shares in the tile, of the sum and O so far."""
    frames = []
    for name, errors in (
        ("a score", _by_tile(made.score[-1], made.edges)),
        ("a key's share", _by_tile(made.weight[-1], made.edges)),
        ("l, of itself", np.abs(made.sum[-1])),
        ("O so far", made.tile[-1]),
    ):
        row, tile = np.indices(errors.shape)
        known = np.isfinite(errors) & (errors > 0)
        frames.append(
            pd.DataFrame(
                {
                    "of": name,
                    "row": (made.rows[0] + row)[known],
                    "key tile": tile[known],
                    "largest error": errors[known],
                }
            )
        )
    base = alt.Chart(pd.concat(frames))
    return (
        base.mark_rect()
        .encode(
            alt.X("key tile:O").axis(labelOverlap=True),
            alt.Y("row:O").axis(labelOverlap=True),
            alt.Color("largest error:Q").scale(type="log", scheme="cividis").legend(format=".0e"),
            tooltip=["of:N", "row:O", "key tile:O", alt.Tooltip("largest error:Q", format=".3g")],
        )
        .properties(width=190, height=190)
        .facet(alt.Facet("of:N").title(None).sort(["a score", "a key's share", "l, of itself", "O so far"]), columns=4)
        .resolve_scale(color="independent")
    )


def _by_tile(errors: np.ndarray, edges: rounding.Edges) -> np.ndarray:
    """The largest |error| of each tile, [rows, tiles], NaN for a tile without keys of the row."""
    parts = [np.abs(errors[:, first:end]) for first, end in edges]
    return np.stack([np.where(np.isnan(p).all(1), np.nan, np.nan_to_num(p, nan=0.0).max(1)) for p in parts], 1)


def spread(story: Replays) -> alt.TopLevelMixin:
    """The distribution of O's error after the shown step: the share of elements up to each error, a line for each
    type."""
    frames = []
    for made in story.all:
        for number in range(1, len(STAGES)):
            error = np.sort(np.abs(made.o[number][np.isfinite(made.o[number])]))
            picked = np.unique(np.linspace(0, len(error) - 1, POINTS).astype(int)) if len(error) else np.arange(0)
            kept = picked[error[picked] > 0]
            frames.append(
                pd.DataFrame(
                    {
                        "computes in": made.label,
                        "stage": number + 1,
                        "error": error[kept],
                        "share": (kept + 1) / max(1, made.o[number].size),
                    }
                )
            )
    step = alt.param(name="step", value=len(STAGES))
    labels = [made.label for made in story.all]
    base = alt.Chart(pd.concat(frames)).transform_filter("datum.stage === step")
    lines = base.mark_line().encode(
        alt.X("error:Q", title="|error| of an element of O").scale(type="log").axis(format=".0e", tickCount=8),
        alt.Y("share:Q", title="elements off by at most that").axis(format="%").scale(domain=[0, 1]),
        *_of_type(labels),
        tooltip=["computes in:N", alt.Tooltip("error:Q", format=".3g"), alt.Tooltip("share:Q", format=".1%")],
    )
    return alt.layer(lines).add_params(step).properties(height=240)


def sweep(field: str, table: pd.DataFrame) -> alt.TopLevelMixin:
    """O's error over a field of the problem, a line for each type. table: precision.sweep_table."""
    known = table[np.isfinite(table["relative error"]) & (table["relative error"] > 0)]
    powers = np.floor(np.log10(known["relative error"])).astype(int)
    decades = [10.0**n for n in range(powers.min(), powers.max() + 2)] if len(powers) else []
    values = sorted(table[field].unique().tolist())
    return (
        alt.Chart(known)
        .mark_line(point=True)
        .encode(
            alt.X(f"{field}:Q").scale(type="log").axis(values=values, format="~g"),
            alt.Y("relative error:Q", title="RMS error of O over its RMS")
            .scale(type="log")
            .axis(format=".0e", values=decades),
            *_of_type(list(dict.fromkeys(table["computes in"]))),
            tooltip=[
                f"{field}:Q",
                "computes in:N",
                alt.Tooltip("RMS error of O:Q", format=".3g"),
                alt.Tooltip("relative error:Q", format=".3g"),
                "most of it:N",
            ],
        )
        .properties(height=240)
    )


def _of_type(labels: list[str]) -> tuple[alt.Color, alt.StrokeDash]:
    """A colour and a dash for each type."""
    scale = alt.Scale(domain=labels, range=list(KERNELS[: len(labels)]))
    return alt.Color("computes in:N", scale=scale), alt.StrokeDash("computes in:N", scale=alt.Scale(domain=labels))
