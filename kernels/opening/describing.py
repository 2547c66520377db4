"""The key `initial` of a tensor for the content of a memory: exact if it fits, else numbers of the same kind."""

import math
from typing import Any

import numpy as np

from kernels.core.dtypes import element_type
from kernels.families.free.contents import packed
from kernels.opening.ran import Memory

FEW = 16  # values written as numbers
MOST_PERIOD = 4096  # elements after which a content may start again
MOST_CHARACTERS = 1800  # of a packed content: a line of a draft has 2,000
NORMAL = 0.22  # of the range: uniform numbers deviate by 0.29, many normal ones by less
Said = tuple[Any, str]
"""The value of the key, and its words."""


def initial_of(memory: Memory) -> Said:
    """The initial value of a memory, and words about it."""
    values, kind = memory.values, element_type(memory.dtype)
    if memory.fresh:
        return "poison", "not written by main()"
    if not len(values):
        default = {"normal": [0.0, 1.0]} if kind.is_float else {"random": [0, 9]}
        return default, "main()'s values are too many to keep. Others are drawn"
    if not values.view(np.uint8).any():
        return "zero", "zeros"
    wide = values.astype(np.float64 if kind.is_float else object) if memory.dtype == "uint64" else values
    numbers = wide.astype(np.float64) if kind.is_float else wide.astype(np.int64)
    period = _period(values)
    if (found := _regular(numbers[:period], period, len(values))) is not None:
        return found
    if period < len(values) or memory.bytes == values.nbytes:
        text = packed(values[:period])
        if len(text) <= MOST_CHARACTERS:
            return {"packed": text}, "main()'s own values"
    return _alike(numbers, kind.is_float)


def _period(values: np.ndarray) -> int:
    """The number of elements after which the values start again, or their number."""
    same = values.view(f"u{values.itemsize}")
    first = np.flatnonzero(same[1 : MOST_PERIOD + 1] == same[0]) + 1
    for period in first.tolist():
        if 2 * period <= len(same) and np.array_equal(same[period:], same[:-period]):
            return period
    return len(values)


def _regular(numbers: np.ndarray, period: int, count: int) -> Said | None:
    """A few values, or a ramp. numbers: of one period."""
    if period <= FEW:
        shown = [_number(one) for one in numbers]
        return {"values": shown}, f"all {shown[0]}" if period == 1 else "main()'s own values, again and again"
    step = numbers[1] - numbers[0]
    with np.errstate(invalid="ignore"):
        ramp = numbers[0] + step * np.arange(period)
    if not np.isfinite(ramp).all() or not np.allclose(numbers, ramp, rtol=1e-6, atol=1e-6 * abs(step)):
        return None
    again = [] if period == count else [period]
    said = f"{_number(numbers[0])}, {_number(numbers[1])}, ..." + (f", again after {period:,}" if again else "")
    return {"ramp": [_number(numbers[0]), _number(step), *again]}, said


def _alike(numbers: np.ndarray, is_float: bool) -> Said:
    finite = numbers[np.isfinite(numbers)]
    low, high = (_number(finite.min()), _number(finite.max())) if len(finite) else (0, 0)
    if is_float:
        deviation = float(finite.std()) if len(finite) else 0.0
        if deviation < NORMAL * (high - low) and abs(float(np.median(finite) - finite.mean())) < deviation / 4:
            mean = float(f"{finite.mean():.4g}")
            return {
                "normal": [mean, float(f"{deviation:.4g}")]
            }, f"drawn: normal, mean {mean:g}, as main()'s values are"
        return {"random": [low, high]}, f"drawn: from {low:g} to {high:g}, as main()'s values are"
    if np.array_equal(np.sort(numbers), np.arange(low, low + len(numbers))):
        return {"permutation": [low]}, "drawn: each number once, as main()'s values are"
    if (np.diff(numbers) >= 0).all():
        return {"sorted": [low, high]}, f"drawn: rising from {low} to {high}, as main()'s values are"
    return {"random": [low, high]}, f"drawn: from {low} to {high}, as main()'s values are"


def _number(value: Any) -> int | float:
    """A number as short as its float32."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    short = float(value)
    if math.isfinite(short) and np.float32(short) == short:
        short = float(str(np.float32(short)))
    return short
