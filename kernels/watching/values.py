"""The first value and the first access in which two runs of one problem differ."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernels.core.dtypes import element_type, widened
from kernels.run.results import Run
from kernels.run.wrong.stores import line_of_store
from kernels.trace.automatic import PHASE

ROUNDINGS = 16  # units in the last place of the largest number. A smaller difference is rounding
THREAD = ["launch", "block", "thread"]


@dataclass(frozen=True)
class Difference:
    """A place, and its value in both runs. Equal values, such as "none", mean that no place differs."""

    place: str
    before: str
    after: str


def same_shape(before: Run, after: Run) -> bool:
    """Whether the launches have the same grids and blocks, so that each thread has its partner."""
    plans = (run.request.plan for run in (before, after))
    one, other = ([(launch.grid, launch.block) for launch in plan.launches] for plan in plans)
    return one == other


def first_value(
    before: Run, after: Run, arrays_before: Mapping[str, np.ndarray], arrays_after: Mapping[str, np.ndarray]
) -> Difference:
    """The first logged value with a difference beyond rounding, else the first element of a tensor.

    arrays_before, arrays_after: outputs and scratch memory after each run."""
    digits = [element_type(t.dtype).digits for t in after.request.problem.outputs if element_type(t.dtype).is_float]
    rounding = ROUNDINGS * 2.0 ** -min(digits, default=24)
    if same_shape(before, after) and (found := _logged(before, after, rounding)):
        return found
    shared = [name for name in arrays_after if name in arrays_before]
    shared = [name for name in shared if arrays_before[name].shape == arrays_after[name].shape]
    largest = 0.0
    for name in shared:
        one, other = (widened(arrays[name]) for arrays in (arrays_before, arrays_after))
        gaps = _gaps(one, other)
        wrong = np.argwhere(gaps > rounding * _scale(one, other))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            offset = int(np.ravel_multi_index(at, one.shape)) * arrays_after[name].itemsize if at else 0
            values = _two(float(one[at]), float(other[at]))
            lines = (line_of_store(run, name, offset) for run in (before, after))
            said = [value + (f" (line {line})" if line else "") for value, line in zip(values, lines)]
            return Difference(f"{name}[{', '.join(map(str, at))}]", *said)
        largest = max(largest, float(gaps.max(initial=0.0)))
    if not shared:
        return Difference("no output of both has one shape", "unknown", "unknown")
    names = ", ".join(shared)
    place = f"{names}: roundings of at most {largest:.2g}" if largest else f"{names}: all equal"
    return Difference(place, "none", "none")


def _gaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """|one - other|, 0 for two equal numbers or NaNs, and inf for one NaN or infinity."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(gaps), np.inf, gaps)


def _scale(one: np.ndarray, other: np.ndarray) -> float:
    both = np.abs(np.concatenate([one.ravel(), other.ravel()]).astype(np.float64))
    return float(both.max(initial=0.0, where=np.isfinite(both)))


def _two(one: float, other: float) -> list[str]:
    """Both values with as many digits as show their difference, 6 to 17."""
    digits = next((n for n in range(6, 17) if f"{one:.{n}g}" != f"{other:.{n}g}"), 17)
    return [f"{value:.{digits}g}" for value in (one, other)]


def _logged(before: Run, after: Run, rounding: float) -> Difference | None:
    """The first difference of two logged values. The n-th value of an event with these keys meets the n-th."""
    keys = [key for key in after.trace.keys if key in before.trace.keys and key != PHASE]
    on = [*THREAD, "event", *keys]
    frames = []
    for run in (before, after):
        table = run.trace.table
        frame = table.filter(table["value"].is_valid()).select([*on, "seq", "line", "value"]).to_pandas()
        frame["event"] = frame.event.astype(str)
        frames.append(frame.assign(nth=frame.groupby(on, dropna=False).cumcount()))
    both = frames[0].merge(frames[1], on=[*on, "nth"], suffixes=("_before", "_after"))
    if both.empty:
        return None
    gaps = _gaps(both.value_before.to_numpy(), both.value_after.to_numpy())
    scales = {
        event: _scale(rows.value_before.to_numpy(), rows.value_after.to_numpy())
        for event, rows in both.groupby("event")
    }
    differ = both[gaps > rounding * both.event.map(scales).to_numpy(float)]
    if differ.empty:
        return None
    row = differ.sort_values(["launch", "seq_after", "block", "thread"]).iloc[0]
    at = [f"{key} {int(row[key])}" for key in keys if pd.notna(row[key])]
    place = f"{row.event} of {', '.join([*at, f'block {row.block}', f'thread {row.thread}'])}"
    lines = (row.line_before, row.line_after)
    said = [f"{v} (line {line})" for v, line in zip(_two(row.value_before, row.value_after), lines)]
    return Difference(place, *said)


def first_access(before: Run, after: Run) -> Difference | None:
    """The first access of a thread that differs in its kind, its tensor or its address. None without a common access.

    A tensor with a name of only one version matches each other one."""
    frames = [_accesses(run) for run in (before, after)]
    if not same_shape(before, after) or any(frame.empty for frame in frames):
        return None
    common = set(frames[0].tensor) & set(frames[1].tensor)
    both = frames[0].merge(frames[1], on=[*THREAD, "nth"], how="outer", suffixes=("_before", "_after"))
    differ = both.offset_before.ne(both.offset_after) | both.bytes_before.ne(both.bytes_after)
    for name in ("event", "space"):
        differ |= both[f"{name}_before"].ne(both[f"{name}_after"])
    known = both.tensor_before.isin(common) & both.tensor_after.isin(common)
    differ |= known & both.tensor_before.ne(both.tensor_after)
    if not differ.any():
        return Difference("all equal", "none", "none")
    row = both[differ].sort_values(["launch", "nth", "block", "thread"]).iloc[0]
    place = f"access {int(row.nth) + 1} of block {int(row.block)}, thread {int(row.thread)}"
    return Difference(place, *(_said(row, end) for end in ("before", "after")))


def _accesses(run: Run) -> pd.DataFrame:
    table = run.trace.table
    frame = table.filter(table["space"].is_valid()).to_pandas()
    frame = frame[[*THREAD, "event", "space", "tensor", "offset", "bytes", "line"]]
    frame = frame.astype({name: str for name in ("event", "space", "tensor")})
    return frame.assign(nth=frame.groupby(THREAD).cumcount())


def _said(row: pd.Series, end: str) -> str:
    if pd.isna(row[f"offset_{end}"]):
        return "no further access"
    event, tensor, space = (row[f"{name}_{end}"] for name in ("event", "tensor", "space"))
    offset, line = (int(row[f"{name}_{end}"]) for name in ("offset", "line"))
    return f"{event} {tensor} at byte {offset:,}, {space} (line {line})"
