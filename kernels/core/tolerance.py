"""The limit of an output's error against float64: twice torch's error in the same type, plus roundings.

A rounding is one fp32 unit in the last place of the largest term (Problem.largest_terms: for attention the largest
|V|). A sum of n terms (Problem.terms: for attention the keys) may have 2/3 sqrt(n) roundings, and at least one. A sum
in sequence takes n roundings, each of up to half a unit of the partial sum. For equal terms, their standard deviation
is sqrt(n) / 6 units of the whole sum. The limit is four standard deviations. torch adds in blocks, so its own error is
often far smaller. So it is for strangers' kernels. Our own and the peers keep to one rounding.

The first part is the project's promise. The second part is for luck: on a small problem torch may have no error, and an
equally exact kernel may have one rounding. A problem without rounding has no largest term and allows no error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.core.dtypes import unit_in_last_place
from kernels.errors import ProblemError

TIMES = 2  # torch's error
DEVIATIONS = 4  # of the roundings of a sum one by one


@dataclass(frozen=True)
class OutputError:
    """The error of one output.

    largest: the largest |output - float64|, or NaN for an additional NaN in the output.
    yardstick: the largest |torch's answer - float64|."""

    output: str
    largest: float
    yardstick: float
    allowed: float

    @property
    def ok(self) -> bool:
        return self.largest <= self.allowed < math.inf  # a NaN is never <=

    @property
    def share(self) -> float:
        """The error over the limit, or inf for a NaN and for an error with the limit 0."""
        if math.isnan(self.largest) or not math.isfinite(self.allowed):
            return math.inf
        if not self.largest:
            return 0.0
        return self.largest / self.allowed if self.allowed else math.inf

    @property
    def said(self) -> str:
        return "NaN in the output" if math.isnan(self.largest) else f"error {self.largest:.3g}"


def max_abs_error(array: np.ndarray, truth: np.ndarray) -> float:
    """The largest |array - truth|, or NaN for an additional NaN in `array`. A poisoned output never passes."""
    if array.shape != truth.shape:
        raise ValueError(f"the output has shape {array.shape}, the truth {truth.shape}")
    found, true = array.astype(np.float64), truth.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - true)
    gap[(found == true) | (np.isnan(found) & np.isnan(true))] = 0.0  # equal infinities and NaNs
    gap[np.isnan(gap) & ~np.isnan(found)] = np.inf  # a NaN only in the truth
    return float(gap.max(initial=0.0))  # NaN if there is one


def allowed_error(yardstick: float, largest_term: float, terms: int = 1) -> float:
    """terms: of the longest sum of an element."""
    return TIMES * yardstick + max(1.0, DEVIATIONS * math.sqrt(terms) / 6) * unit_in_last_place(largest_term)


def output_errors(
    errors: Mapping[str, float], yardsticks: Mapping[str, float], largest_terms: Mapping[str, float], terms: int = 1
) -> tuple[OutputError, ...]:
    """An OutputError for each output, from its largest error, torch's error, the largest term, and the terms of the
    longest sum. Raises ProblemError if torch's error is not finite, as each error would then pass."""
    for name in errors:
        if not math.isfinite(yardsticks[name]):
            raise ProblemError(
                f"torch's own answer for {name} is {yardsticks[name]} away from float64, so that {name} cannot be "
                "judged. Choose a problem whose numbers fit the type, such as one with a smaller score_scale."
            )
    return tuple(
        OutputError(name, error, yardsticks[name], allowed_error(yardsticks[name], largest_terms.get(name, 0.0), terms))
        for name, error in errors.items()
    )


def worst(errors: tuple[OutputError, ...]) -> OutputError:
    """The output closest to its limit. Pages show it."""
    return max(errors, key=lambda e: e.share)
