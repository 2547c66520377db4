"""The steps of a block of the backward: its tiles, their products, and the gradients after each step.

Everything comes from the trace. The tile in work is the rectangle of the logged scores, or the rows that the block
read last.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from explainers.stories.backward import parts, walk_words
from explainers.stories.backward.frames import BackwardFrame, BackwardMeta, Span, TouchedRows
from explainers.story import axes
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.probes import sites_of
from kernels.trace.steps import StepRow, Steps

Logged = dict[str, pd.DataFrame]  # part -> at_row, at_col and value of its records
Moved = dict[tuple[str, str], tuple["Touch", int]]  # (part, load or store) -> its elements in global memory, and bytes
KEY_NAMES, QUERY_NAMES = ("col", "key", "row"), ("row", "query")  # the keys of a record, the first one counts


@dataclass(frozen=True)
class Walk:
    """The steps of the traced blocks.

    frames: one per step.
    states: see BackwardMeta.
    columns: part -> the numbers of its states, one after another.
    head: the first query head of the group, counted over the batch.
    """

    frames: list[BackwardFrame]
    states: dict[str, list[list[int]]]
    columns: dict[str, np.ndarray]
    head: int


@dataclass
class _Now:
    """The block after a step, while frames are made."""

    where: tuple[int, int] = (-1, -1)
    tile: tuple[int, int] = (-1, -1)
    head: int = 0
    queries: Span | None = None
    keys: Span | None = None
    holds: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    state: dict[str, int] = field(default_factory=dict)

    def advance(
        self, step: StepRow, made: Logged, touched: dict[tuple[str, str], "Touch"], group: int, adds: bool
    ) -> None:
        """Moves the block on by a step of the kernel, in place. adds: whether a block's dQ belongs to one tile."""
        if self.where != (step.launch, step.block):
            self.where, self.tile = (step.launch, step.block), (-1, -1)
            self.holds, self.done, self.state, self.queries, self.keys = [], [], {}, None, None
        loads = {part: touch for (part, kind), touch in touched.items() if kind == "load"}
        for part in ("Q", "dO"):
            if part in loads:
                self.head, self.queries = loads[part].head % group, loads[part].rows
        for part in ("K", "V"):
            if part in loads:
                self.keys = loads[part].rows
        self.holds += [part for part in loads if part not in self.holds]
        if (tile := (int(step.tile), self.head)) != self.tile:
            self.tile, self.done = tile, []
            kept = [part for part in parts.GRADIENTS if not (adds and part == "dQ")]
            self.state = {part: at for part, at in self.state.items() if part in kept}
        for part in parts.SQUARES:
            if part in made:
                row, col = made[part]["at_row"], made[part]["at_col"]
                self.queries, self.keys = [int(row.min()), int(row.max())], [int(col.min()), int(col.max())]


class Touch:
    """The touched elements of a tensor in a step: its heads and rows."""

    def __init__(self, tensor: Tensor, first: np.ndarray, last: np.ndarray) -> None:
        along = {name: at for name, at in zip(tensor.axes, np.unravel_index(first, tensor.shape))}
        until = {name: at for name, at in zip(tensor.axes, np.unravel_index(last, tensor.shape))}
        row, heads = axes.rows(tensor), axes.length(tensor, "head")
        batch = along["batch"] if "batch" in along else np.zeros_like(first)
        self.head = int((batch * heads + along["head"]).min())
        self.rows = [int(along[row].min()), int(until[row].max())]


def walk(run: Run) -> Walk:
    """The Walk of the run's traced blocks."""
    request, sites = run.request, sites_of(run.request)
    steps = cutting.cut(run.trace, sites)
    logged, touched = _values(run, steps), _touched(run, steps)
    lit = cutting.lit_lines(run.trace, steps, sites)
    made = _Frames(parts.group_of(request), parts.adds(request))
    for number, step in enumerate(steps.table.itertuples()):
        made.add(step, logged.get(number, {}), touched.get(number, {}), lit[number])
    heads = (touch.head for moved in touched.values() for (part, _), (touch, _) in moved.items() if part == "Q")
    group = parts.group_of(request)
    return Walk(made.frames, made.states.spans, made.states.columns(), min(heads, default=0) // group * group)


class _Frames:
    """Makes the frames of one step of the kernel after another.

    A step that makes several parts has a frame for each, in the order of the formula. P has the frame of S.
    """

    def __init__(self, group: int, adds: bool) -> None:
        self.group, self.adds = group, adds
        self.states, self.now, self.frames = _States(), _Now(), list[BackwardFrame]()
        self.bytes: dict[str, int] = {}

    def add(self, step: StepRow, logged: Logged, moved: Moved, lines: dict[str, int]) -> None:
        """Adds the frames of a step. Neighbouring steps of delta share a frame."""
        if list(logged) == ["delta"] and self._goes_on(step):
            self._widen(moved)
            return
        self.now.advance(step, logged, {key: touch for key, (touch, _) in moved.items()}, self.group, self.adds)
        groups = _one_by_one(self._made(logged))
        for number, made in enumerate(groups):
            own = {key: value for key, value in moved.items() if _frame_of(key, groups) == number}
            for (part, kind), (_, size) in own.items():
                self.bytes = {**self.bytes, f"{part} {kind}": self.bytes.get(f"{part} {kind}", 0) + size}
            for part in made:
                if part in self.states.spans:
                    self.now.state = {**self.now.state, part: self.states.add(part, logged[part])}
            self.now.done = [*self.now.done, *(part for part in made if part not in self.now.done)]
            self.frames.append(self._frame(step, made, {key: touch for key, (touch, _) in own.items()}, lines, groups))

    def _made(self, logged: Logged) -> list[str]:
        """The parts made in a step. A gradient counts only with its tile of P or dS. Else it is a finished sum."""
        known = {*self.now.done, *logged}
        needs = {product.made: set(product.reads) & {"P", "dS"} for product in parts.PRODUCTS}
        return [part for part in logged if needs.get(part, set()) <= known]

    def _goes_on(self, step: StepRow) -> bool:
        """Whether the frame before is delta of the same block."""
        before = self.frames[-1] if self.frames else None
        return before is not None and before["made"] == ["delta"] and self.now.where == (step.launch, step.block)

    def _widen(self, moved: Moved) -> None:
        """Adds the rows of a step to the frame before, and their bytes."""
        frame = self.frames[-1]
        for (part, kind), (touch, size) in moved.items():
            key = f"{part} {kind}"
            self.bytes = {**self.bytes, key: self.bytes.get(key, 0) + size}
            for rows in (t["rows"] for t in frame["touched"] if (t["part"], t["kind"]) == (part, kind)):
                rows[:] = [min(rows[0], touch.rows[0]), max(rows[1], touch.rows[1])]
        frame["bytes"] = self.bytes
        self.now.queries = frame["queries"] = next((t["rows"] for t in frame["touched"]), None)

    def _frame(
        self,
        step: StepRow,
        made: list[str],
        touched: dict[tuple[str, str], "Touch"],
        lines: dict[str, int],
        groups: list[list[str]],
    ) -> BackwardFrame:
        now, rows = self.now, list[TouchedRows]()
        for (part, kind), touch in touched.items():
            rows.append({"part": part, "kind": kind, "rows": touch.rows})
        return {
            "tile": int(step.tile),
            "title": walk_words.title(step, made, rows),
            "phase": step.phase,
            "launch": int(step.launch),
            "block": int(step.block),
            "head": now.head,
            "made": made,
            "done": now.done,
            "holds": list(now.holds),
            "queries": now.queries,
            "keys": now.keys,
            "touched": rows,
            "state": {part: now.state.get(part, -1) for part in self.states.spans},
            "bytes": self.bytes,
            "lines": lines,
            "sentence": walk_words.sentence(step.phase, made, rows, self.adds),
            "details": walk_words.details(step, now.queries, now.keys, rows, groups),
        }


def _one_by_one(made: list[str]) -> list[list[str]]:
    """The parts of each frame of a step."""
    if made[:2] == ["S", "P"]:
        return [["S", "P"], *([part] for part in made[2:])]
    return [[part] for part in made] or [[]]


def _frame_of(key: tuple[str, str], groups: list[list[str]]) -> int:
    """The frame of a step with a read or write: a gradient is written in its own, all else is read in the first."""
    part, kind = key
    own = (number for number, made in enumerate(groups) if part in made)
    return next(own, len(groups) - 1) if kind == "store" else 0


def meta_of(run: Run, story: Walk) -> tuple[BackwardMeta, dict[str, np.ndarray]]:
    """The meta and the columns of the view `backward`."""
    request = run.request
    (n, keys, d), group = parts.sizes(request), parts.group_of(request)
    known = [part for part in parts.tensors(request)]
    traced = {key.rpartition(" ")[0] for frame in story.frames for key in frame["bytes"]}
    meta: BackwardMeta = {
        "n": n,
        "keys": keys,
        "d": d,
        "group": group,
        "head": story.head,
        "adds": parts.adds(request),
        "parts": [part for part in known if part in traced],
        "states": story.states,
        "frames": story.frames,
    }
    heads = range(story.head, story.head + group)
    columns = {part: np.concatenate([parts.values(run, part, head) for head in heads]) for part in ("Q", "dO")}
    columns |= {part: parts.values(run, part, story.head) for part in "KV"}
    if "LSE" in known:
        columns["LSE"] = np.concatenate([parts.values(run, "LSE", head) for head in heads])
    columns["delta"] = np.concatenate(
        [(parts.values(run, "dO", head) * parts.values(run, "O", head)).sum(axis=1) for head in heads]
    )
    return meta, columns | story.columns


class _States:
    """Collects the states of the parts, with their numbers."""

    def __init__(self) -> None:
        self.spans: dict[str, list[list[int]]] = {part: [] for part in (*parts.SQUARES, *parts.GRADIENTS)}
        self._numbers: dict[str, list[np.ndarray]] = {part: [] for part in self.spans}

    def add(self, part: str, records: pd.DataFrame) -> int:
        """Adds the logged numbers of a part as its next state. Returns its place."""
        row, col = records["at_row"].to_numpy(), records["at_col"].to_numpy()
        rect = [int(n) for n in (row.min(), row.max(), col.min(), col.max())]
        block = np.full((rect[1] - rect[0] + 1, rect[3] - rect[2] + 1), np.nan, np.float32)
        block[row - rect[0], col - rect[2]] = records.value
        start = sum(one.size for one in self._numbers[part])
        self.spans[part].append([*rect, start])
        self._numbers[part].append(block)
        return len(self.spans[part]) - 1

    def columns(self) -> dict[str, np.ndarray]:
        empty = np.zeros(0, np.float32)
        return {
            part: np.concatenate([one.ravel() for one in made]) if made else empty
            for part, made in self._numbers.items()
        }


def _values(run: Run, steps: Steps) -> dict[int, Logged]:
    """Step -> part -> at_row, at_col and value of its records, the parts in the order of the formula."""
    trace = run.trace
    keep = (steps.of_record >= 0) & trace.table["value"].is_valid().to_numpy()
    names = [name for name in ("row", "col", "key", "query", "dim") if name in trace.keys]
    table = trace.table.select(["event", *names, "value"]).filter(keep).to_pandas().assign(step=steps.of_record[keep])
    table["event"] = table.event.astype(str)
    found: dict[int, Logged] = {}
    for event, part in parts.EVENTS.items():
        own = table[table.event == event].dropna(axis=1, how="all")
        if own.empty:
            continue
        row = _first(KEY_NAMES if parts.along_keys(part) else QUERY_NAMES, own.columns)
        col = "dim" if part in parts.GRADIENTS else _first(KEY_NAMES, own.columns) if part in parts.SQUARES else row
        own = own.assign(at_row=own[row].astype(int), at_col=own[col].astype(int))
        for number, records in own.groupby("step"):
            found.setdefault(int(number), {}).setdefault(part, records[["at_row", "at_col", "value"]])
    return found


def _first(wanted: Iterable[str], names: Iterable[str]) -> str:
    have = set(names)
    return next(name for name in wanted if name in have)


def _touched(run: Run, steps: Steps) -> dict[int, Moved]:
    """Step -> (part, load or store) -> its elements in global memory and their bytes."""
    request, trace, sites = run.request, run.trace, sites_of(run.request)
    of = parts.symbols(request)
    place = sites.index(trace.table)
    found: dict[int, Moved] = {}
    offsets = trace.table["offset"].fill_null(0).to_numpy()
    for symbol, part in of.items():
        tensor = axes.tensors(request)[symbol]
        for kind in ("load", "store"):
            own = [
                n
                for n, site in enumerate(sites)
                if site.space == "global" and site.tensor == symbol and (site.event in READS) == (kind == "load")
            ]
            at = np.flatnonzero(np.isin(place, own) & (steps.of_record >= 0))
            if not len(at):
                continue
            size = np.array([site.bytes for site in sites])[place[at]]
            first = offsets[at] // tensor.itemsize
            last = np.minimum(first + np.maximum(1, size // tensor.itemsize) - 1, tensor.size - 1)
            table = pd.DataFrame({"step": steps.of_record[at], "first": first, "last": last, "size": size})
            for number, records in table.groupby("step"):
                touch = Touch(tensor, records["first"].to_numpy(), records["last"].to_numpy())
                found.setdefault(int(number), {}).setdefault((part, kind), (touch, int(records["size"].sum())))
    return found
