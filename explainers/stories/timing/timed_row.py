"""The types of a table of times."""

from typing import Protocol

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
