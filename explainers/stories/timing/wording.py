"""The rows of a table of times, and times, sizes and libraries in words."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pandas as pd

from explainers.models.recorded_times import UNITS, shown_name
from explainers.story.words import Words
from kernels.measure.judging import ROUNDING_TIMES

WORDS = Words.of(str(__package__))
Value = str | float | bool | None  # a size, a constant, a title or a state of the L2
Fixed = dict[str, Value]  # name -> value of everything that a sweep keeps


class TimedRow(Protocol):
    """A row of a sweep. A number is NaN if it is unknown.

    title: the kind of problem.
    label: the line of the row.
    status, reason: "ok", or the reason for a missing time.
    median_us, p10_us, p90_us: the time of one run and its spread.
    speedup, speedup_low, speedup_high: against the baseline.
    tflops, gb_per_s, roof_percent, roof: rates, and the share of a roof.
    peak_bytes: allocated for one run.
    max_abs_error, allowed_error: against float64.
    """

    title: str
    label: str
    status: str
    reason: str
    median_us: float
    p10_us: float
    p90_us: float
    speedup: float
    speedup_low: float
    speedup_high: float
    tflops: float
    gb_per_s: float
    roof_percent: float
    roof: str
    peak_bytes: float
    max_abs_error: float
    allowed_error: float


def title_of(part: pd.DataFrame) -> str:
    """The one title of a sweep's problems, "" without rows."""
    return str(part.title.iloc[0]) if len(part) else ""


def sized(field: str, value: float) -> str:
    """A value of the swept field in words: 8,192 tokens, head_dim 64."""
    return f"{value:,.0f} {UNITS[field]}" if field in UNITS else f"{field} {value:,.0f}"


def doubled(field: str) -> str:
    """A sentence about a doubled size."""
    return f"The {f'number of {UNITS[field]}' if field in UNITS else field} doubles."


def as_fast(ratio: float, low: float | None = None, high: float | None = None, name: str = "") -> str:
    """A speed-up in words: 2.0 times as fast, 3.1 times as long, or "within the spread" if it includes 1.

    low, high: the spread of the ratio.
    name: the baseline, as in 3.1 times as long as NAME.
    """
    times = max(ratio, 1 / ratio)
    as_name = f" as {name}" if name else ""
    if times < 1.005:
        return f"as fast{as_name}"
    said = f"{times:.2f}" if times < 1.1 else f"{times:.1f}" if times < 99.95 else f"{times:,.0f}"
    compared = ("as fast" if ratio > 1 else "as long") + as_name
    within = ", within the spread" if low is not None and high is not None and low <= 1 <= high else ""
    return f"{said} times {compared}{within}"


def beside(row: TimedRow, name: str) -> str:
    """`as_fast` with its baseline: 3.1 times as long as torch efficient, as fast as itself at PAD_K 0."""
    return as_fast(row.speedup, row.speedup_low, row.speedup_high, name)


def times_said(factor: float) -> str:
    """A growth per doubling as the charts show it."""
    return f"\u00d7{factor:.1f}"


def why(row: TimedRow) -> str:
    """The reason for a missing time in a few words. The column `reason` has the whole text."""
    if row.status == "wrong":
        if "broken on purpose" in str(row.reason):
            return "built broken on purpose"
        near = pd.notna(row.allowed_error) and row.max_abs_error <= ROUNDING_TIMES * row.allowed_error
        return "rounding above our limit" if near else "a wrong result"
    if row.status == "unavailable":
        return next(
            (said for part, said in WORDS.table("unavailable").items() if part in str(row.reason)),
            "cannot compute this",
        )
    return {"skipped": "not run", "failed": "the run failed"}.get(row.status, str(row.status))


def plain(value: Value) -> str:
    return str(value) if isinstance(value, (str, bool, np.bool_)) else f"{number(value):g}"


def number(value: Value) -> float:
    """A size or a constant as a number. TypeError for a text or None."""
    if value is None or isinstance(value, str):
        raise TypeError(f"{value!r} is not a number.")
    return float(value)


def not_timed(present: Iterable[str]) -> list[str]:
    """A sentence with the reason for each version of FlashAttention without a row."""
    present = set(present)
    reasons = WORDS.table("not_timed").items()
    return [f"{shown_name(name)} has no row here: {why}." for name, why in reasons if name not in present]
