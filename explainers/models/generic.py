"""Every step, tensor and logged value of any kernel with a trace.

A tensor is a matrix by its last two axes, a value a matrix by its last two keys. The picture shows one slice of the
    other axes or keys, the first one in the run. Elements follow from the logged addresses: element = offset / the
    tensor's bytes per element.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.models.frames import Logged, ShownTensor, ShownValue, TensorsFrame, TensorsMeta, TouchedTensor
from explainers.story import axes, stage
from explainers.story.frames import Rect
from explainers.story.glossary import UNORDERED, phase_title
from explainers.story.words import Row, Words
from kernels.core.distinct import distinct
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.run.plain.faults import Fault
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import BOXES, WRITES, kind_of
from kernels.trace.probes import Site, Sites
from kernels.trace.steps import StepRow, Steps

WORDS = Words.of(str(__package__), "generic_words.toml")
MOST_TOLD = 2  # faults in the sentence of a step
MOST_SHOWN = 256  # rows, and columns, of a drawn matrix
MOST_RUNS = 256  # runs of cells of one tensor in a frame. With more, the frame has the rectangle only.
MOST_LOGGED = 1 << 16  # records of one event in the browser


@dataclass(frozen=True)
class Generic:
    """The frames, tensors and values for the browser (frames.py)."""

    frames: list[TensorsFrame]
    tensors: list[ShownTensor]
    values: list[ShownValue]
    columns: dict[str, np.ndarray] = field(repr=False)  # their arrays, with the names of frames.py


def explain(run: Run, symbols: Collection[str] | None = None, events: Collection[str] | None = None) -> Generic:
    """The Generic of any Run with a trace. symbols, events: the only tensors and values, if not all."""
    request, sites = run.request, run.sites
    steps = _steps(run, sites)
    known = {s: tensor for s, tensor in axes.tensors(request).items() if symbols is None or s in symbols}
    keep = steps.of_record >= 0
    records = Records(run.trace.table.filter(keep), steps.of_record[keep], sites.index(run.trace.table)[keep], sites)
    touches = touches_of(request, records, known)
    windows = {symbol: window_of(tensor, touches.get(symbol)) for symbol, tensor in known.items()}
    shown = [shown_tensor(symbol, tensor, windows[symbol], run) for symbol, tensor in known.items()]
    columns = {
        f"tensor_{n}": values_of(tensor, windows[symbol], run) for n, (symbol, tensor) in enumerate(known.items())
    }
    values = []
    logged = records.values()
    shown_events = {event: keys for event, keys in records.events().items() if events is None or event in events}
    for number, (event, keys) in enumerate(shown_events.items()):
        made, arrays = shown_value(event, keys, logged[logged.event == event])
        values.append(made)
        columns |= {f"value_{number}{end}": array for end, array in arrays.items()}
    drawn, of_step = (
        touched_by_step(touches, windows, known, len(steps.table)),
        logged_by_step(logged, len(steps.table)),
    )
    lit, accesses = cutting.lit_lines(run.trace, steps, sites), records.accesses(len(steps.table))
    faults = faults_by_step(run, records)
    for number, found in faults.items():
        for fault in found:
            lit[number] |= {f"{fault.file}:{line}": 1 for line in fault.lines} | lit[number]
    frames: list[TensorsFrame] = []
    for number, step in enumerate(steps.table.itertuples()):
        row = _row(step, accesses[number], of_step[number]) | {
            "unordered": UNORDERED if number in steps.unordered else ""
        }
        frames.append(
            {
                "tile": int(step.tile),
                "title": WORDS.say("title", row),
                "phase": step.phase,
                "launch": int(step.launch),
                "block": int(step.block),
                "role": step.role,
                "touched": drawn[number],
                "logged": [one for one in of_step[number] if one["event"] in shown_events],
                "lines": lit[number],
                "sentence": " ".join(
                    [
                        WORDS.say("sentence", row | {"parts": WORDS.parts("parts", row)}),
                        *(
                            WORDS.say("fault", {"kind": fault.kind, "text": fault.text})
                            for fault in faults.get(number, ())[:MOST_TOLD]
                        ),
                    ]
                ),
            }
        )
    return Generic(frames, shown, values, columns)


def faults_by_step(run: Run, records: "Records") -> dict[int, list[Fault]]:
    """A step -> the faults that happen in it: the first step with accesses of both lines, else of the later one.

    A fault of blocks outside the trace has no step."""
    found = dict[int, list[Fault]]()
    for fault in run.faults:
        places = [(fault.file, line) for line in fault.lines]
        of_line = [{*records.step[records.of(_sites_at(records.sites, place))].tolist()} for place in places]
        steps = set.intersection(*of_line) or of_line[-1] if of_line else set()
        if steps and fault.level == "error":
            found.setdefault(min(steps), []).append(fault)
    return found


def _sites_at(sites: Sites, place: tuple[str, int]) -> list[int]:
    return [n for n, site in enumerate(sites) if (site.file, site.line) == place and site.kind == "access"]


def _row(step: StepRow, accesses: list[tuple[Site, int]], logged: list[Logged]) -> Row:
    """The step for generic_words.toml: the bytes of each tensor by memory and direction, and the logged values."""
    sizes: dict[str, dict[str, int]] = {}
    for site, times in accesses:
        space, tensor = site.space or "", site.tensor or ""
        of = sizes.setdefault(f"{space}_{kind_of(site.event, space).direction}", {})
        of[tensor] = of.get(tensor, 0) + times * site.bytes
    moves = [f"{space}_{direction}" for space in ("global", "shared") for direction in ("read", "write", "both")]
    row = {move: [f"{name} ({size:,} bytes)" for name, size in sizes.get(move, {}).items()] for move in moves}
    fields = {name: getattr(step, name) for name in ("tile", "role", "block")} | {
        "phase_title": phase_title(step.phase)
    }
    return {**row, **fields, "logged": [_said("logged", value) for value in logged]}


def _said(text: str, logged: Logged) -> str:
    return WORDS.say(text, {**logged, "odd": WORDS.say("odd", logged)})


def view(story: Generic) -> tuple[TensorsMeta, dict[str, np.ndarray]]:
    """The meta and the columns of the view `tensors`."""
    return {"tensors": story.tensors, "values": story.values, "frames": story.frames}, story.columns


def states(story: Generic) -> list[stage.State]:
    """The strip: the reads, writes and logged values of each step."""

    def moved(kind: str) -> tuple[list[int], list[str]]:
        parts = [[t for t in f["touched"] if t["kind"] == kind] for f in story.frames]
        return [sum(t["bytes"] for t in p) for p in parts], [
            ", ".join(f"{t['tensor']} {t['bytes']:,}" for t in p) or "nothing" for p in parts
        ]

    (read, of), (written, to) = moved("load"), moved("store")
    logs = ["; ".join(_said("strip", value) for value in f["logged"]) for f in story.frames]
    return [
        stage.State("reads", read, "B", colour="load"),
        stage.State("reads from", of),
        stage.State("writes", written, "B", colour="store"),
        stage.State("writes to", to),
        stage.State("logs", [text or "nothing" for text in logs]),
    ]


def other_views(
    run: Run, tensors: Collection[str], values: Collection[str], steps: Sequence[int] | None = None
) -> list[stage.View]:
    """A picture of the tensors and values outside all other views of a story. An empty list if all have a view.

    tensors: symbols with a view.
    values: events with a view.
    steps: the step of the trace for each frame of the stage, if they differ.
    """
    sites = run.sites
    odd_tensors = set(axes.tensors(run.request)) - set(tensors)
    odd_values = {site.event for site in sites if site.kind == "value"} - set(values)
    if not odd_tensors and not odd_values:
        return []
    story = explain(run, odd_tensors, odd_values)
    if not story.tensors and not story.values:
        return []
    if steps is not None:
        ends = [name for name in story.columns if name.endswith("_step")]
        shown = {name: np.searchsorted(steps, story.columns[name]).astype(np.float32) for name in ends}
        story = Generic([story.frames[n] for n in steps], story.tensors, story.values, story.columns | shown)
    names = [*(t["name"] for t in story.tensors), *(v["event"] for v in story.values)]
    return [stage.View("tensors", "beside", f"Also: {', '.join(names)}", *view(story))]


def _steps(run: Run, sites: Sites) -> Steps:
    """The steps of the trace. A kernel without marks has one step for each block."""
    steps = cutting.cut(run.trace, sites)
    if len(steps.table) or not run.trace.table.num_rows:
        return steps
    frame = run.trace.frame("launch", "block", "file", "line")
    blocks = frame.groupby(["launch", "block"], sort=False)
    table = blocks.first().reset_index().assign(role="", phase="run", tile=-1)
    return Steps(table[["launch", "block", "role", "phase", "file", "line", "tile"]], blocks.ngroup().to_numpy())


def logged_by_step(values: pd.DataFrame, steps: int) -> list[list[Logged]]:
    """The logged values of each step."""
    found: list[list[Logged]] = [[] for _ in range(steps)]
    text = values.assign(
        finite=values.value.where(np.isfinite(values.value)), nan=np.isnan(values.value), inf=np.isinf(values.value)
    )
    grouped = text.groupby(["step", "event"], sort=False).agg(
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
        boxed = [n for n in own if records.sites[n].event in BOXES]
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
    """Four values for each record of the sites `own`: twice its step, plus 1 for a store, the number of its elements,
    these elements in turn, and its bytes.

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
        *outer, row, col = index
        shown = (row >= self.row0) & (row < self.row0 + self.rows) & (col >= self.col0) & (col < self.col0 + self.cols)
        for held, along in zip(self.outer, outer):
            shown &= along == held
        return shown, row, col


def window_of(tensor: Tensor, touched: pd.DataFrame | None) -> Window:
    """The window with the first element of the run, or else with the tensor's first element: the whole slice, or
    MOST_SHOWN rows and columns around it."""
    shape = (1,) * (2 - len(tensor.shape)) + tensor.shape
    first = int(touched.element.iloc[0]) if touched is not None and len(touched) else 0
    at = [int(n) for n in np.unravel_index(first, shape)]
    size = shape[-2:]
    row0, col0 = (max(0, min(n - n % MOST_SHOWN, whole - MOST_SHOWN)) for n, whole in zip(at[-2:], size))
    return Window(tuple(at[:-2]), row0, col0, min(size[0], MOST_SHOWN), min(size[1], MOST_SHOWN), *size)


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
    values = records.value.to_numpy()
    finite = values[np.isfinite(values)]
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
        "low": float(finite.min()) if len(finite) else None,
        "high": float(finite.max()) if len(finite) else None,
    }
    return made, {
        "": records.value.to_numpy(np.float32)[kept],
        "_step": records.step.to_numpy()[kept].astype(np.float32),
        "_cell": cell[kept].astype(np.float32),
    }
