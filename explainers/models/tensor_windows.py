"""The drawn part of a tensor or value, and the cells of a step in it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.models.frames import ShownTensor, ShownValue, TouchedTensor
from explainers.story import axes
from explainers.story.frames import Number, Rect
from kernels.core.distinct import distinct
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace.kinds import WRITES
from kernels.trace.probes import Site, Sites


@dataclass(frozen=True)
class Records:
    """The records of the trace within a step.

    step, site: for each record, its step and the place of its site in `sites`.
    """

    table: pa.Table  # the records
    step: np.ndarray
    site: np.ndarray
    sites: Sites

    def of(self, wanted: list[int]) -> np.ndarray:
        """The places of the records of these sites."""
        among = np.zeros(len(self.sites), bool)
        among[wanted] = True
        return np.flatnonzero(among[self.site])

    def values(self) -> pd.DataFrame:
        """The logged values in their order: step, event, keys, value."""
        at = self.of([n for n, site in enumerate(self.sites) if site.kind == "value"])
        names = [
            name
            for name in self.table.column_names
            if name not in ("file", "line", "space", "tensor", "offset", "bytes")
        ]
        frame = self.table.select(names).take(pa.array(at)).to_pandas()
        events = np.array([site.event for site in self.sites], object)[self.site[at]]
        frame = frame.assign(step=self.step[at], event=events)
        return frame.sort_values(["step", "launch", "block", "thread", "seq"], kind="stable", ignore_index=True)

    def events(self) -> dict[str, tuple[str, ...]]:
        """event -> keys of every logged value, in the order of the source. An event of several probes has the keys of
        the first probe."""
        logged = set(np.unique(self.site).tolist())
        found: dict[str, tuple[str, ...]] = {}
        for number, site in enumerate(self.sites):
            if site.kind == "value" and number in logged:
                found.setdefault(site.event, site.keys)
        return found

    def accesses(self, steps: int) -> list[list[tuple[Site, int]]]:
        """For each step the sites of its accesses, in the order of the source, and how often each was passed."""
        size = max(1, len(self.sites))
        counts = np.bincount(self.step * size + self.site, minlength=size * steps).reshape(steps, size)
        kept = [[(self.sites[n], int(row[n])) for n in np.flatnonzero(row).tolist()] for row in counts]
        return [[(site, times) for site, times in row if site.kind == "access"] for row in kept]


def touches_of(request: Request, records: Records, known: dict[str, Tensor]) -> dict[str, pd.DataFrame]:
    """symbol -> step, kind (load or store), element, bytes. Each element of global memory is there once for each step
    and kind, with the bytes of all its accesses."""
    found = {}
    for symbol, tensor in known.items():
        own = [n for n, site in enumerate(records.sites) if site.space == "global" and site.tensor == symbol]
        boxed = [n for n in own if records.sites[n].event == "tma"]
        parts = [_touched(request, records, tensor, [n for n in own if n not in boxed], False)]
        if request.plan.has_map(tensor):  # else bulk copies: the trace does not say their elements
            parts.append(_touched(request, records, tensor, boxed, True))
        code, width, element, size = (np.concatenate(each) for each in zip(*parts))
        if not len(code):
            continue
        each = distinct(np.repeat(code, width) * np.int64(tensor.size) + element)
        code_of, element = np.divmod(each, tensor.size)
        moved = np.bincount(code, size)
        kind = np.array(["load", "store"])[code_of % 2]
        columns = {"step": code_of // 2, "kind": kind, "element": element, "bytes": moved[code_of].astype(np.int64)}
        found[symbol] = pd.DataFrame(columns)
    return found


def _touched(
    request: Request, records: Records, tensor: Tensor, own: list[int], boxed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each record of the sites `own`: twice its step, plus 1 for a store, the number of its elements, these elements
    in turn, and its bytes.

    boxed: whether a record is a box of a tensor map. A box has no elements beyond the end of the tensor.
    """
    at = records.of(own)
    writes = np.array([site.event in WRITES for site in records.sites], bool)[records.site[at]]
    code = 2 * records.step[at] + writes
    first = records.table["offset"].take(pa.array(at, pa.int64())).to_numpy() // tensor.itemsize
    if boxed:
        boxes = [axes.box(request, tensor, int(n)) for n in first]
        width = np.array([len(box) for box in boxes], np.int64)
        return code, width, np.concatenate([np.zeros(0, np.int64), *boxes]), width * tensor.itemsize
    size = np.array([site.bytes for site in records.sites], np.int64)[records.site[at]]
    width = np.maximum(1, size // tensor.itemsize)
    element = np.repeat(first, width)
    element += np.arange(len(element)) - np.repeat(np.cumsum(width) - width, width)
    return code, width, element, size


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
