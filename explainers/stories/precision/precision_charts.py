"""The charts of precision.py: errors row by row and tile by tile, their distribution, and sweeps."""

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import KERNELS
from explainers.stories.precision import replay
from explainers.stories.precision.replay import STAGES, Replay
from explainers.stories.precision.replays import Replays

POINTS = 60  # of a line


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


def _by_tile(errors: np.ndarray, edges: replay.Edges) -> np.ndarray:
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
    values = sorted(table[field].unique().tolist())
    return (
        alt.Chart(known)
        .mark_line(point=True)
        .encode(
            alt.X(f"{field}:Q").scale(type="log").axis(values=values, format="~g"),
            alt.Y("relative error:Q", title="RMS error of O over its RMS")
            .scale(type="log")
            .axis(format=".0e", values=_decades(known["relative error"])),
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


def _decades(values: pd.Series) -> list[float]:
    """The powers of ten from the least value to the largest."""
    if values.empty:
        return []
    low, high = (int(np.floor(np.log10(v))) for v in (values.min(), values.max()))
    return [10.0**n for n in range(low, high + 2)]
