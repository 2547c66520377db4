"""Times, sizes, kernels and libraries in words."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from explainers.models.recorded_times import UNITS, shown_name
from explainers.stories.timing.timed_row import TimedRow, Value
from explainers.story.glossary import BINARY, amount
from kernels.measure.judging import ROUNDING_TIMES

_UNAVAILABLE = {  # part of a peer's reason -> a short reason
    "MissingJITCacheError": "not compiled there",
    "is not installed": "not installed there",
    " asked ": "not asked",
    " runs only ": "not asked",
    " needs a ": "not asked",
}
FLOOR_SAID = "torch cudnn is a floor: it reads contiguous K and V, no block table."


def title_of(part: pd.DataFrame) -> str:
    """Returns the one title of a sweep's problems, "" without rows."""
    return str(part.title.iloc[0]) if len(part) else ""


def sized(field: str, value: float) -> str:
    """Returns a value of the swept field in words: 8,192 tokens, head_dim 64."""
    return f"{value:,.0f} {UNITS[field]}" if field in UNITS else f"{field} {value:,.0f}"


def doubled(field: str) -> str:
    """Returns a sentence about a doubled size."""
    return f"The {f'number of {UNITS[field]}' if field in UNITS else field} doubles."


def as_fast(ratio: float, low: float | None = None, high: float | None = None, name: str = "") -> str:
    """Returns a speed-up in words: 2.0 times as fast, 3.1 times as long, or "within the spread" if it includes 1.

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


def times_said(factor: float) -> str:
    """Returns a growth per doubling as the charts show it."""
    return f"\u00d7{factor:.1f}"


def why(row: TimedRow) -> str:
    """Returns the reason for a missing time in a few words. The column `reason` has the whole text."""
    if row.status == "wrong":
        if "broken on purpose" in str(row.reason):
            return "built broken on purpose"
        near = pd.notna(row.allowed_error) and row.max_abs_error <= ROUNDING_TIMES * row.allowed_error
        return "rounding above our limit" if near else "a wrong result"
    if row.status == "unavailable":
        return next((said for part, said in _UNAVAILABLE.items() if part in str(row.reason)), "cannot compute this")
    return {"skipped": "not run", "failed": "the run failed"}.get(row.status, str(row.status))


def megabytes(value: float) -> str:
    """Returns bytes with their unit: 33.6 MiB, 1.5 GiB."""
    return amount(value, BINARY[:2])


def plain(value: Value) -> str:
    return str(value) if isinstance(value, (str, bool, np.bool_)) else f"{number(value):g}"


def number(value: Value) -> float:
    """Returns a size or a constant as a number. TypeError for a text or None."""
    if value is None or isinstance(value, str):
        raise TypeError(f"{value!r} is not a number.")
    return float(value)


NOT_TIMED = {  # a library -> the reason for a missing row
    "flash_attn_4": "it was not installed on the GPU's machine, since its libraries have 88 MB",
    "flash_attn_3": "PyPI has no wheel for it",
}


def not_timed(present: Iterable[str]) -> list[str]:
    """Returns a sentence with the reason for each version of FlashAttention without a row."""
    present = set(present)
    return [f"{shown_name(name)} has no row here: {why}." for name, why in NOT_TIMED.items() if name not in present]
