"""The drawn part of a tensor or value, and the cells of a step in it."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.stories.any_kernel.frames import (
    ShownTensor,
    ShownValue,
    TouchedTensor,
)
from explainers.story.frames import Number, Rect
from kernels.core.dtypes import widened
from kernels.core.tensors import Tensor
from kernels.run.results import Run

MOST_SHOWN = 256  # rows, and columns, of a drawn matrix
MOST_RUNS = 256  # runs of cells of one tensor in a frame. With more, the frame has the rectangle only.
MOST_LOGGED = 1 << 16  # records of one event in the browser


class Window(NamedTuple):
    """The drawn part of an array: its outer indices, first row and column, rows and columns, and the rows and columns
    of the whole slice."""

    outer: tuple[int, ...]
    row0: int
    col0: int
    rows: int
    cols: int
    of_rows: int
    of_cols: int

    def cells(self, index: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For elements with an index along each axis: whether the picture draws each, and its row and column in the
        whole slice."""
        outer, (row, col) = index[:-2], _last_two(index)
        shown = (row >= self.row0) & (row < self.row0 + self.rows) & (col >= self.col0) & (col < self.col0 + self.cols)
        for held, along in zip(self.outer, outer):
            shown &= along == held
        return shown, row, col


def window_of(tensor: Tensor, touched: pd.DataFrame | None) -> Window:
    """The window with the first element of the run, or else with the tensor's first element."""
    shape = (1,) * (2 - len(tensor.shape)) + tensor.shape
    first = int(touched.element.iloc[0]) if touched is not None and len(touched) else 0
    at = [int(n) for n in np.unravel_index(first, shape)]
    return _window(tuple(at[:-2]), at[-2:], shape[-2:])


def _window(outer: tuple[int, ...], at: list[int], size: tuple[int, ...]) -> Window:
    """The window of a slice of `size`: the whole slice, or MOST_SHOWN rows and columns around `at`."""
    start = [max(0, min(n - n % MOST_SHOWN, whole - MOST_SHOWN)) for n, whole in zip(at, size)]
    return Window(outer, start[0], start[1], min(size[0], MOST_SHOWN), min(size[1], MOST_SHOWN), size[0], size[1])


def shown_tensor(symbol: str, tensor: Tensor, window: Window, run: Run) -> ShownTensor:
    named = ("",) * (2 - len(tensor.axes)) + tensor.axes
    held = [f"{axis} {at}" for axis, at, size in zip(named, window.outer, tensor.shape) if size > 1]
    return {
        "name": tensor.name,
        "symbol": symbol,
        "rows": window.rows,
        "cols": window.cols,
        "row0": window.row0,
        "col0": window.col0,
        "of_rows": window.of_rows,
        "of_cols": window.of_cols,
        "row_axis": named[-2],
        "col_axis": named[-1],
        "slice": ", ".join(held),
        "dtype": tensor.dtype,
        "role": tensor.role.value,
        "shape": list(tensor.shape),
        "axes": list(tensor.axes),
        "whole": tensor.name in run.arrays,
    }


def values_of(tensor: Tensor, window: Window, run: Run) -> np.ndarray:
    """The drawn part of a tensor after the run, float32 [rows * cols]. Empty without kept values."""
    if tensor.name not in run.arrays:
        return np.zeros(0, np.float32)
    matrix = run.arrays[tensor.name].reshape((1,) * (2 - len(tensor.shape)) + tensor.shape)[window.outer]
    part = matrix[window.row0 : window.row0 + window.rows, window.col0 : window.col0 + window.cols]
    return widened(np.ascontiguousarray(part)).astype(np.float32).ravel()


def touched_by_step(
    touches: dict[str, pd.DataFrame], windows: dict[str, Window], known: dict[str, Tensor], number: int
) -> list[list[TouchedTensor]]:
    """The elements of each step, tensor by tensor."""
    found: list[list[TouchedTensor]] = [[] for _ in range(number)]
    for symbol, tensor in known.items():
        if symbol not in touches:
            continue
        table = touches[symbol]
        shape = (1,) * (2 - len(tensor.shape)) + tensor.shape
        shown, row, col = windows[symbol].cells(np.unravel_index(table.element.to_numpy(), shape))
        step, kind, moved = (table[name].to_numpy() for name in ("step", "kind", "bytes"))
        begins = np.flatnonzero(np.r_[True, (step[1:] != step[:-1]) | (kind[1:] != kind[:-1])])
        for first, last in zip(begins, [*begins[1:], len(step)]):
            part = slice(first, last)
            rect, cells = _outline(row[part][shown[part]], col[part][shown[part]])
            one: TouchedTensor = {
                "tensor": tensor.name,
                "kind": str(kind[first]),
                "bytes": int(moved[first]),
                "rect": rect,
                "cells": cells,
                "elsewhere": int((~shown[part]).sum()),
            }
            found[step[first]].append(one)
    return found


def _outline(row: np.ndarray, col: np.ndarray) -> tuple[Rect | None, list[list[int]] | None]:
    """The rectangle around some cells, and their runs along rows if they do not fill it. The cells are sorted by row,
    each one once."""
    if not len(row):
        return None, None
    rect = [int(n) for n in (row.min(), row.max(), col.min(), col.max())]
    if len(row) == (rect[1] - rect[0] + 1) * (rect[3] - rect[2] + 1):
        return rect, None
    starts = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(col, prepend=-2) != 1))
    if len(starts) > MOST_RUNS:
        return rect, None
    ends = np.append(starts[1:], len(row)) - 1
    return rect, np.stack([row[starts], col[starts], col[ends]], axis=1).astype(int).tolist()


def shown_value(event: str, keys: tuple[str, ...], records: pd.DataFrame) -> tuple[ShownValue, dict[str, np.ndarray]]:
    """An event as ShownValue, and its columns by the ends of their names."""
    index = tuple(records[key].fillna(0).to_numpy(np.int64) for key in keys)
    index = (np.zeros(len(records), np.int64),) * (2 - len(keys)) + index
    first, last = [int(along.min()) for along in index[-2:]], [int(along.max()) + 1 for along in index[-2:]]
    outer = tuple(int(along[0]) for along in index[:-2])
    size = [min(high - low, MOST_SHOWN) for low, high in zip(first, last)]
    window = Window(outer, *first, *size, *last)
    shown, row, col = window.cells(index)
    kept = np.flatnonzero(shown)[-MOST_LOGGED:]
    cell = (row - window.row0) * window.cols + col - window.col0
    named = ("",) * (2 - len(keys)) + keys
    low, high = _range(records.value.to_numpy())
    made: ShownValue = {
        "event": event,
        "keys": list(keys),
        "rows": window.rows,
        "cols": window.cols,
        "row0": window.row0,
        "col0": window.col0,
        "row_key": named[-2],
        "col_key": named[-1],
        "slice": ", ".join(f"{key} {at}" for key, at in zip(named, outer)),
        "count": len(records),
        "left_out": len(records) - len(kept),
        "low": low,
        "high": high,
    }
    return made, {
        "": records.value.to_numpy(np.float32)[kept],
        "_step": records.step.to_numpy()[kept].astype(np.float32),
        "_cell": cell[kept].astype(np.float32),
    }


def _range(values: np.ndarray) -> tuple[Number, Number]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (None, None)


def _last_two(index: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    return index[-2], index[-1]
