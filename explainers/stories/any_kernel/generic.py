"""The story of any kernel that writes a trace: its steps, every tensor of the run and every value that it logs, known
or not.

A tensor is a matrix by its last two axes, a value a matrix by its last two keys; what is left of the axes or keys is
held at one slice, the one that the run touched first. Elements follow from the logged addresses: element = offset / the
tensor's bytes per element.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.stories.any_kernel.frames import (
    Logged,
    ShownTensor,
    ShownValue,
    TensorsFrame,
    TensorsMeta,
    TouchedTensor,
)
from explainers.story import axes, stage
from explainers.story.frames import Number, Rect
from explainers.story.glossary import UNORDERED, count, listed, phase_title
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import WRITES
from kernels.trace.probes import Site, Sites, sites_of
from kernels.trace.steps import Steps

MOST_SHOWN = 256  # rows, and columns, of a matrix that is drawn
MOST_RUNS = 256  # runs of cells of one tensor in one frame; where there are more, the frame says only the rectangle
MOST_LOGGED = 1 << 16  # records of one event that the browser is sent
WANTS: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generic:
    """frames, tensors, values: for the browser, as frames.py describes them. columns: their arrays, by the names that
    stand there."""

    frames: list[TensorsFrame]
    tensors: list[ShownTensor]
    values: list[ShownValue]
    columns: dict[str, np.ndarray] = field(repr=False)


class Window(NamedTuple):
    """The part of an array that is drawn: the outer indices that are held, its first row and column, its rows and
    columns, and those of the whole slice."""

    outer: tuple[int, ...]
    row0: int
    col0: int
    rows: int
    cols: int
    of_rows: int
    of_cols: int

    def cells(self, index: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of elements, given by their index along each axis: whether each is drawn, its row and its column, counted
        from the whole slice's."""
        outer, (row, col) = index[:-2], _last_two(index)
        shown = (row >= self.row0) & (row < self.row0 + self.rows) & (col >= self.col0) & (col < self.col0 + self.cols)
        for held, along in zip(self.outer, outer):
            shown &= along == held
        return shown, row, col


def accepts(spec: KernelSpec) -> bool:
    """Every kernel: one without probes shows its tensors."""
    return True


def explain(run: Run) -> Generic:
    """The Generic of any Run with a trace."""
    request, sites = run.request, sites_of(run.request)
    steps = _steps(run, sites)
    known = axes.tensors(request)
    keep = steps.of_record >= 0
    records = Records(run.trace.table.filter(keep), steps.of_record[keep], sites.index(run.trace.table)[keep], sites)
    touches = _touches(request, records, known)
    windows = {symbol: _window_of(tensor, touches.get(symbol)) for symbol, tensor in known.items()}
    shown = [_shown(symbol, tensor, windows[symbol], run) for symbol, tensor in known.items()]
    columns = {
        f"tensor_{n}": _values_of(tensor, windows[symbol], run) for n, (symbol, tensor) in enumerate(known.items())
    }
    values = []
    logged = records.values()
    for number, (event, keys) in enumerate(records.events().items()):
        made, arrays = _value(event, keys, logged[logged.event == event])
        values.append(made)
        columns |= {f"value_{number}{end}": array for end, array in arrays.items()}
    drawn = _touched_by_step(touches, windows, known, len(steps.table))
    lit = cutting.lit_lines(run.trace, steps, sites)
    return Generic(_frames(steps, records, _logged(logged, len(steps.table)), drawn, lit), shown, values, columns)


def view(story: Generic) -> tuple[TensorsMeta, dict[str, np.ndarray]]:
    """What the view `tensors` draws: its meta and its columns."""
    return {"tensors": story.tensors, "values": story.values, "frames": story.frames}, story.columns


def stage_of(run: Run, provenance: stage.Provenance) -> stage.Stage:
    """The whole stage of a run."""
    story = explain(run)
    nothing = "These blocks logged no step: the kernel marks none, or none was reached."
    if not len(sites_of(run.request)):
        nothing = "This kernel has no probes, so it logs no step and no value. Its tensors are as the run left them."
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[stage.View("tensors", "tensors", "Tensors and values", *view(story))],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=[
            stage.Tab("tensors", "Its tensors", _tensors(run)),
            stage.Tab("builds", "Builds"),
            stage.Tab("data", "Data and labels"),
        ],
        provenance=provenance,
        summary="" if story.frames else nothing,
    )


def states(story: Generic) -> list[stage.State]:
    """The strip: what each step reads, writes and logs."""

    def moved(kind: str) -> tuple[list[int], list[str]]:
        parts = [[t for t in f["touched"] if t["kind"] == kind] for f in story.frames]
        return [sum(t["bytes"] for t in p) for p in parts], [
            ", ".join(f"{t['tensor']} {t['bytes']:,}" for t in p) or "nothing" for p in parts
        ]

    (read, of), (written, to) = moved("load"), moved("store")
    logs = ["; ".join(f"{one['event']} {one['count']:,}×{_span(one)}" for one in f["logged"]) for f in story.frames]
    return [
        stage.State("reads", read, "B", colour="load"),
        stage.State("reads from", of),
        stage.State("writes", written, "B", colour="store"),
        stage.State("writes to", to),
        stage.State("logs", [said or "nothing" for said in logs]),
    ]


def _span(one: Logged) -> str:
    odd = not_finite(one)
    if one["low"] is None:
        return f" {odd}"
    return f" {one['low']:.4g} to {one['high']:.4g}{', ' + odd if odd else ''}"


def _tensors(run: Run) -> list[stage.Block]:
    rows = [
        {
            "tensor": t.name,
            "role": t.role.value,
            "shape": " × ".join(map(str, t.shape)),
            "axes": ", ".join(t.axes),
            "type": t.dtype,
            "bytes": t.nbytes,
            "not finite": _odd(run, t),
        }
        for t in run.request.plan.tensors
    ]
    said = (
        "As the run left them: a matrix by the last two axes. A value stands where its last two keys say, as logged "
        "up to "
        "the step. What a step touches follows from the logged addresses: element = byte offset / bytes of an element."
    )
    return [stage.table(pd.DataFrame(rows), said)]


def _odd(run: Run, tensor: Tensor) -> str:
    """How many of a tensor's numbers are NaN and infinite."""
    if tensor.name not in run.arrays:
        return "values not kept"
    numbers = widened(run.arrays[tensor.name])
    if numbers.dtype.kind != "f":
        return ""
    counts = ((int(np.isnan(numbers).sum()), "NaN"), (int(np.isinf(numbers).sum()), "infinite"))
    return " and ".join(f"{number:,} {name}" for number, name in counts if number) or "none"


def beside(
    run: Run, tensors: Collection[str], values: Collection[str], steps: Sequence[int] | None = None
) -> list[stage.View]:
    """A picture of the tensors and values that a story has no view of; none if there are none. tensors: symbols that it
    knows. values: events that it knows. steps: for each frame of the stage the step of the trace that it shows, where
    the frames are not those steps themselves."""
    sites = sites_of(run.request)
    odd_tensors = set(axes.tensors(run.request)) - set(tensors)
    odd_values = {site.event for site in sites if site.kind == "value"} - set(values)
    if not odd_tensors and not odd_values:
        return []
    story = _only(explain(run), odd_tensors, odd_values)
    if not story.tensors and not story.values:
        return []
    if steps is not None:
        ends = [name for name in story.columns if name.endswith("_step")]
        shown = {name: np.searchsorted(steps, story.columns[name]).astype(np.float32) for name in ends}
        story = Generic([story.frames[n] for n in steps], story.tensors, story.values, story.columns | shown)
    names = [*(t["name"] for t in story.tensors), *(v["event"] for v in story.values)]
    return [stage.View("tensors", "beside", f"Also: {', '.join(names)}", *view(story))]


def _only(story: Generic, symbols: Collection[str], events: Collection[str]) -> Generic:
    """The story with these tensors and values alone, its columns numbered anew."""
    tensors = [n for n, t in enumerate(story.tensors) if t["symbol"] in symbols]
    values = [n for n, v in enumerate(story.values) if v["event"] in events]
    columns = {f"tensor_{at}": story.columns[f"tensor_{n}"] for at, n in enumerate(tensors)}
    for at, n in enumerate(values):
        columns |= {f"value_{at}{end}": story.columns[f"value_{n}{end}"] for end in ("", "_step", "_cell")}
    names = {story.tensors[n]["name"] for n in tensors}
    frames: Any = [
        {
            **f,
            "touched": [t for t in f["touched"] if t["tensor"] in names],
            "logged": [v for v in f["logged"] if v["event"] in events],
        }
        for f in story.frames
    ]
    return Generic(frames, [story.tensors[n] for n in tensors], [story.values[n] for n in values], columns)


def _steps(run: Run, sites: Sites) -> Steps:
    """The steps of the trace; of a kernel without marks, one for each block."""
    steps = cutting.cut(run.trace, sites)
    if len(steps.table) or not run.trace.table.num_rows:
        return steps
    frame = run.trace.frame("launch", "block", "file", "line")
    blocks = frame.groupby(["launch", "block"], sort=False)
    table = blocks.first().reset_index().assign(role="", phase="run", tile=-1)
    return Steps(table[["launch", "block", "role", "phase", "file", "line", "tile"]], blocks.ngroup().to_numpy())


@dataclass(frozen=True)
class Records:
    """The trace's records that lie in a step. table: of the trace; step, site: of each, its number and its site's place
    in `sites`."""

    table: pa.Table
    step: np.ndarray
    site: np.ndarray
    sites: Sites

    def of(self, wanted: list[int]) -> np.ndarray:
        """The places of the records of these sites."""
        among = np.zeros(len(self.sites), bool)
        among[wanted] = True
        return np.flatnonzero(among[self.site])

    def values(self) -> pd.DataFrame:
        """The logged values in the order in which they were made: step, event, keys, value."""
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
        """event -> keys of every value that was logged, in the order of the source. An event of several probes has the
        first one's keys."""
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


# ---- tensors ----


def _touches(request: Request, records: Records, known: dict[str, Tensor]) -> dict[str, pd.DataFrame]:
    """symbol -> step, kind (load or store), element, bytes: each element of global memory that a step touches, once, in
    the order of steps and kinds, and the bytes of all accesses of that step and kind."""
    found = {}
    for symbol, tensor in known.items():
        mine = [n for n, site in enumerate(records.sites) if site.space == "global" and site.tensor == symbol]
        at = records.of(mine)
        if not len(at):
            continue
        writes = np.array([site.event in WRITES for site in records.sites])[records.site[at]]
        size = np.array([site.bytes for site in records.sites])[records.site[at]]
        code = 2 * records.step[at] + writes
        first = records.table["offset"].take(pa.array(at)).to_numpy() // tensor.itemsize
        if any(records.sites[number].event == "tma" for number in mine):
            if not request.plan.has_map(tensor):
                continue  # bulk copies: which elements lie in their pieces is not said
            boxes = [axes.box(request, tensor, int(n)) for n in first]
            width, element = np.array([len(box) for box in boxes]), np.concatenate(boxes)
            size = width * tensor.itemsize  # what lies beyond the tensor is not read
        else:
            width = np.maximum(1, size // tensor.itemsize)
            element = np.repeat(first, width)
            element += np.arange(len(element)) - np.repeat(np.cumsum(width) - width, width)
        each = np.unique(np.repeat(code, width) * np.int64(tensor.size) + element)
        code_of, element = np.divmod(each, tensor.size)
        moved = np.bincount(code, size)
        kind = np.array(["load", "store"])[code_of % 2]
        columns = {"step": code_of // 2, "kind": kind, "element": element, "bytes": moved[code_of].astype(np.int64)}
        found[symbol] = pd.DataFrame(columns)
    return found


def _window_of(tensor: Tensor, touched: pd.DataFrame | None) -> Window:
    """The slice, and the part of it, that holds the element which the run touched first, or else the tensor's first."""
    shape = (1,) * (2 - len(tensor.shape)) + tensor.shape
    first = int(touched.element.iloc[0]) if touched is not None and len(touched) else 0
    at = [int(n) for n in np.unravel_index(first, shape)]
    return _window(tuple(at[:-2]), at[-2:], shape[-2:])


def _window(outer: tuple[int, ...], at: list[int], size: tuple[int, ...]) -> Window:
    """The part of a slice of `size` that is drawn: all of it, or MOST_SHOWN rows and columns with `at` among them."""
    start = [max(0, min(n - n % MOST_SHOWN, whole - MOST_SHOWN)) for n, whole in zip(at, size)]
    return Window(outer, start[0], start[1], min(size[0], MOST_SHOWN), min(size[1], MOST_SHOWN), size[0], size[1])


def _shown(symbol: str, tensor: Tensor, window: Window, run: Run) -> ShownTensor:
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


def _values_of(tensor: Tensor, window: Window, run: Run) -> np.ndarray:
    """The drawn part of a tensor after the run, float32 [rows * cols]; empty where the run keeps no values of it."""
    if tensor.name not in run.arrays:
        return np.zeros(0, np.float32)
    matrix = run.arrays[tensor.name].reshape((1,) * (2 - len(tensor.shape)) + tensor.shape)[window.outer]
    part = matrix[window.row0 : window.row0 + window.rows, window.col0 : window.col0 + window.cols]
    return widened(np.ascontiguousarray(part)).astype(np.float32).ravel()


def _touched_by_step(
    touches: dict[str, pd.DataFrame], windows: dict[str, Window], known: dict[str, Tensor], number: int
) -> list[list[TouchedTensor]]:
    """For each step what it touched, tensor by tensor."""
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
    """The rectangle of some cells, each there once and in the order of rows, and the runs of them along rows if they do
    not fill it."""
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


# ---- values ----


def _value(event: str, keys: tuple[str, ...], records: pd.DataFrame) -> tuple[ShownValue, dict[str, np.ndarray]]:
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


# ---- frames ----


def _frames(
    steps: Steps,
    records: Records,
    logged: list[list[Logged]],
    drawn: list[list[TouchedTensor]],
    lit: list[dict[str, int]],
) -> list[TensorsFrame]:
    accesses = records.accesses(len(steps.table))
    made: list[TensorsFrame] = []
    for number, step in enumerate(steps.table.itertuples()):
        tile, phase = (f"Tile {step.tile}" if step.tile >= 0 else ""), phase_title(step.phase)
        made.append(
            {
                "tile": int(step.tile),
                "title": " · ".join(part for part in (tile, step.role, phase) if part),
                "phase": step.phase,
                "launch": int(step.launch),
                "block": int(step.block),
                "role": step.role,
                "touched": drawn[number],
                "logged": logged[number],
                "lines": lit[number],
                "sentence": _sentence(step, accesses[number], logged[number])
                + (f" {UNORDERED}" if number in steps.unordered else ""),
            }
        )
    return made


def _logged(values: pd.DataFrame, steps: int) -> list[list[Logged]]:
    """For each step what it logged."""
    found: list[list[Logged]] = [[] for _ in range(steps)]
    told = values.assign(
        finite=values.value.where(np.isfinite(values.value)), nan=np.isnan(values.value), inf=np.isinf(values.value)
    )
    grouped = told.groupby(["step", "event"], sort=False).agg(
        count=("value", "size"), low=("finite", "min"), high=("finite", "max"), nan=("nan", "sum"), inf=("inf", "sum")
    )
    for (step, event), count_, low, high, nan, inf in grouped.itertuples():
        known = not np.isnan(low)
        one: Logged = {
            "event": event,
            "count": int(count_),
            "low": float(low) if known else None,
            "high": float(high) if known else None,
            "nan": int(nan),
            "inf": int(inf),
        }
        found[step].append(one)
    return found


def _sentence(step: Any, accesses: list[tuple[Site, int]], logged: list[Logged]) -> str:
    """Block, phase, and with their numbers: what is read and written of which tensor, and what is logged."""
    sums: dict[tuple[str, bool], dict[str, int]] = {}
    for site, times in accesses:
        of = sums.setdefault((site.space or "", site.event in WRITES), {})
        of[site.tensor or ""] = of.get(site.tensor or "", 0) + times * site.bytes
    parts = []
    for key, verb, way in (
        (("global", False), "reads", "from global memory"),
        (("shared", True), "stores", "in shared memory"),
        (("shared", False), "reads", "from shared memory"),
        (("global", True), "writes", "to global memory"),
    ):
        if key in sums:
            parts.append(f"{verb} {listed([f'{name} ({size:,} bytes)' for name, size in sums[key].items()])} {way}")
    if logged:
        parts.append(f"logs {listed([_said(one) for one in logged])}")
    phase = phase_title(step.phase)
    places = [
        f"Block {step.block}",
        step.role,
        f"tile {step.tile}" if step.tile >= 0 else "",
        phase[0].lower() + phase[1:],
    ]
    return f"{', '.join(place for place in places if place)}: {listed(parts) if parts else 'touches and logs nothing'}."


def _said(one: Logged) -> str:
    times, odd = count(one["count"], "time"), not_finite(one)
    if one["low"] is None:
        return f"{one['event']} {times}, never finite: {odd}"
    span = f"{one['low']:.4g}" + ("" if one["low"] == one["high"] else f" to {one['high']:.4g}")
    return f"{one['event']} {times} ({span}{', ' + odd if odd else ''})"


def not_finite(one: Logged) -> str:
    """How many are NaN and infinite, in words; nothing if all are finite."""
    counts = ((one["nan"], "NaN"), (one["inf"], "infinite"))
    return " and ".join(f"{number:,} {name}" for number, name in counts if number)
