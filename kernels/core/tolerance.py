"""When an output is right. Of every output tensor: the largest error against float64 may be at most twice torch's own
error in the same type, plus one fp32 unit in the last place of the largest term (Problem.largest_terms: for attention
the largest |V|).

The first part is the project's promise. The second is for luck: on a small problem torch may lose nothing where a
kernel that is just as exact loses one rounding of its largest term, and at a long sequence torch's CPU sums in
another order. A problem without rounding has no largest term, so that nothing at all is allowed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.core.dtypes import unit_in_last_place
from kernels.errors import ProblemError

TIMES = 2  # torch's error


@dataclass(frozen=True)
class OutputError:
    """How far one output is from float64.

    largest: the largest |output - float64|; NaN if the output holds a NaN that float64 does not.
    yardstick: the largest |torch's answer - float64|.
    allowed: the largest error that passes.
    """

    output: str
    largest: float
    yardstick: float
    allowed: float

    @property
    def ok(self) -> bool:
        return self.largest <= self.allowed < math.inf  # a NaN is never <=

    @property
    def share(self) -> float:
        """The error over the allowed error; inf for a NaN, and for an error if none is allowed."""
        if math.isnan(self.largest) or not math.isfinite(self.allowed):
            return math.inf
        if not self.largest:
            return 0.0
        return self.largest / self.allowed if self.allowed else math.inf

    @property
    def said(self) -> str:
        """The error in words: a number, or that the output holds a NaN."""
        return "NaN in the output" if math.isnan(self.largest) else f"error {self.largest:.3g}"


def max_abs_error(array: np.ndarray, truth: np.ndarray) -> float:
    """The largest |array - truth|; NaN if `array` holds a NaN that the truth does not, so that a poisoned output never
    passes."""
    if array.shape != truth.shape:
        raise ValueError(f"the output has shape {array.shape}, the truth {truth.shape}")
    found, true = array.astype(np.float64), truth.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - true)
    gap[(found == true) | (np.isnan(found) & np.isnan(true))] = 0.0  # equal infinities, and a NaN that belongs there
    gap[np.isnan(gap) & ~np.isnan(found)] = np.inf  # the truth is a NaN, and the output is a number
    return float(gap.max(initial=0.0))  # NaN if there is one


def allowed_error(yardstick: float, largest_term: float) -> float:
    """What the largest error of an output may be."""
    return TIMES * yardstick + unit_in_last_place(largest_term)


def output_errors(
    errors: Mapping[str, float], yardsticks: Mapping[str, float], largest_terms: Mapping[str, float]
) -> tuple[OutputError, ...]:
    """One OutputError per output, from its largest error, torch's, and the largest term. ProblemError if torch's error
    is not finite, as no error could then fail."""
    for name in errors:
        if not math.isfinite(yardsticks[name]):
            raise ProblemError(
                f"torch's own answer for {name} is {yardsticks[name]} away from float64, so that {name} cannot be "
                "judged. Choose a problem whose numbers fit the type, such as one with a smaller score_scale."
            )
    return tuple(
        OutputError(name, error, yardsticks[name], allowed_error(yardsticks[name], largest_terms.get(name, 0.0)))
        for name, error in errors.items()
    )


def worst(errors: tuple[OutputError, ...]) -> OutputError:
    """The one that uses most of what it is allowed: the number that a page shows."""
    return max(errors, key=lambda e: e.share)
