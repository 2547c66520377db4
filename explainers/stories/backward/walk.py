"""The steps of a block of the backward: its tiles, their products, and the gradients after each step.

Everything comes from the trace. The tile in work is the rectangle of the logged scores, or the rows that the block
read last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.backward import products, records
from explainers.stories.backward.frames import BackwardFrame, BackwardMeta, Span, TouchedRows, drawn
from explainers.stories.backward.products import WORDS
from explainers.stories.backward.records import Lines, Logged, Moved, Touch
from explainers.story.glossary import phase_title
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.steps import StepRow, Steps


class Launch(NamedTuple):
    """A launch as its sentences need it.

    stays, moves: "keys" and "queries" if each block keeps its keys, else the other way round.
    sums: its gradients that grow on the chip. Empty if it computes none.
    earlier: the number of an earlier launch that computed P, or 0.
    ended: the phases whose products end in a later step.
    weights: the place of P and dS.
    """

    stays: str
    moves: str
    sums: list[str]
    earlier: int
    ended: frozenset[str]
    weights: str


@dataclass(frozen=True)
class Walk:
    """The steps of the traced blocks.

    frames: the opening, and one per step.
    states: see BackwardMeta.
    columns: part -> the numbers of its states, one after another.
    head: the first query head of the group, counted over the batch.
    """

    frames: list[BackwardFrame]
    states: dict[str, list[list[int]]]
    columns: dict[str, np.ndarray]
    head: int


def walk(run: Run) -> Walk:
    """The Walk of the run's traced blocks."""
    request, sites = run.request, run.sites
    steps = cutting.cut(run.trace, sites)
    logged, touched = records.values(run, steps), records.touched(run, steps)
    lit = cutting.lit_lines(run.trace, steps, sites)
    known = {part for values in logged.values() for part in values}
    made = _Frames(
        request,
        known,
        Lines(run),
        _launches(run, steps, logged),
        lambda part, head: gradients.values(run, part, head),
    )
    for number, step in _in_order(list(steps.table.itertuples()), touched):
        made.add(step, logged.get(number, {}), touched.get(number, {}), lit[number])
    _ends(made.frames, made.rows)
    heads = (touch.head for moved in touched.values() for (part, _), (touch, _) in moved.items() if part == "Q")
    group = gradients.group_of(request)
    rows = [
        {
            **frame,
            **told,
            "moved": [
                f"{t['kind']} {t['part']} {t['rows'][0]} to {t['rows'][1]}{t['label']}" for t in frame["touched"]
            ],
        }
        for frame, told in zip(made.frames, made.rows)
    ]
    opening = _opening(made.frames, made.states.spans)
    frames = [*opening, *made.frames]
    for frame, words in zip(frames, WORDS.frames([*opening, *rows], {})):
        frame["title"], frame["sentence"] = words["title"], words["sentence"]
        if "details" in words:
            frame["details"] = words["details"]
    return Walk(frames, made.states.spans, made.states.columns(), min(heads, default=0) // group * group)


def _launches(run: Run, steps: Steps, logged: dict[int, Logged]) -> list[Launch]:
    """Each launch of the plan in words."""
    request, places = run.request, records.places(run)
    found, weights = list[Launch](), 0  # the last launch that computed P
    for number, launch in enumerate(request.plan.launches):
        own = [(n, str(step.phase)) for n, step in enumerate(steps.table.itertuples()) if step.launch == number]
        made = {part for n, _ in own for part in logged.get(n, {})}
        made |= {gradients.MARKS[phase] for _, phase in own if phase in gradients.MARKS}
        stays, moves = ("keys", "queries") if gradients.is_of_keys(launch.item) else ("queries", "keys")
        grown = made if made & {"P", "dS"} else set()  # else they are finished sums
        sums = [
            part for part in gradients.GRADIENTS if part in grown and gradients.along_keys(part) == (stays == "keys")
        ]
        ended = frozenset(phase for _, phase in own if phase.endswith("_done"))
        found.append(Launch(stays, moves, sums, weights, ended, places[number][2]))
        if "P" in made:
            weights = number + 1
    return found


def _in_order(table: list[StepRow], touched: dict[int, Moved]) -> list[tuple[int, StepRow]]:
    """The steps with their numbers. A product S before any read of Q comes after the first one of its block."""
    found, early = list[tuple[int, StepRow]](), list[tuple[int, StepRow]]()
    loaded = set[tuple[int, int]]()
    for number, step in enumerate(table):
        where = step.launch, step.block
        loads = ("Q", "load") in touched.get(number, {})
        if gradients.MARKS.get(step.phase) == "S" and where not in loaded and not loads:
            early.append((number, step))
            continue
        found.append((number, step))
        if loads:
            loaded.add(where)
            found, early = [*found, *early], []
    return [*found, *early]


def _ends(frames: list[BackwardFrame], rows: list[dict[str, object]]) -> None:
    """Notes of a product S before the first tile of a block that it is the first, and after the last one that nothing
    reads it."""
    for number, (frame, told) in enumerate(zip(frames, rows)):
        if frame["made"] == ["S"] and frame["tile"] < 0:
            own = [n for n, f in enumerate(frames) if (f["launch"], f["block"]) == (frame["launch"], frame["block"])]
            weights = [n for n in own if "P" in frames[n]["made"]]
            if not any(n > number for n in weights):
                frame["unread"] = True
            elif not any(n < number for n in weights):
                told["first"] = True


@dataclass
class Now:
    """The block after a step, while frames are made."""

    where: tuple[int, int] = (-1, -1)
    tile: tuple[int, int] = (-1, -1)
    head: int = 0
    queries: Span | None = None
    keys: Span | None = None
    holds: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)  # the parts of the next tile
    loaded: dict[int, list[tuple[int, Span]]] = field(default_factory=dict)  # tile -> its heads and queries, in order
    state: dict[str, int] = field(default_factory=dict)
    flying: list[str] = field(default_factory=list)  # parts in the order of their products' starts

    def start_or_end(self, phase: str, ended: frozenset[str]) -> None:
        """Adds the part of a started product, or removes an ended one. Products end in their order, so all that started
        before it have ended too.

        ended: the phases of ends.
        """
        name = phase.removesuffix("_done")
        part = gradients.MARKS.get(name, "")
        if phase in ended and part in self.flying:
            self.flying = self.flying[self.flying.index(part) + 1 :]
        elif f"{phase}_done" in ended and part:
            self.flying = [*self.flying, part]

    def advance(
        self,
        step: StepRow,
        made: list[str],
        logged: Logged,
        touched: dict[tuple[str, str], Touch],
        group: int,
        adds: bool,
    ) -> None:
        """Moves the block on by a step of the kernel, in place.

        A role that only loads, or a prefetch, is ahead of the tile in work, so its loads change nothing but `holds`.
        adds: whether a block's dQ belongs to one tile.
        """
        if self.where != (step.launch, step.block):
            self.where, self.tile = (step.launch, step.block), (-1, -1)
            self.holds, self.done, self.early, self.queries, self.keys = [], [], [], None, None
            self.state, self.loaded, self.flying = {}, {}, []
        loads = {part: touch for (part, kind), touch in touched.items() if kind == "load"}
        ahead = (bool(step.role) or step.phase.startswith("prefetch")) and not made
        tile = int(step.tile)
        for part in ("Q", "dO"):
            if part in loads and (rows := loads[part].rows) and (one := (loads[part].head % group, rows)):
                waiting = self.loaded.setdefault(tile, [])
                waiting += [one] if one not in waiting[-1:] else []
            if part in loads and not (ahead and self.queries):
                self.head, self.queries = loads[part].head % group, loads[part].rows
        for part in ("K", "V"):
            if part in loads and not (ahead and self.keys):
                self.keys = loads[part].rows
        self.holds += [part for part in loads if part not in self.holds]
        again = tile == self.tile[0] and bool(set(made) & set(self.done))  # the same tile of another head
        if step.role and made and tile < 0:  # a product of the next tile, before this one is done
            self.early = made
            return self._squares(logged)
        if not ahead and (tile != self.tile[0] or again) and self.loaded.get(tile):
            self.head, self.queries = self.loaded[tile].pop(0)
        if not ahead and (tile, self.head) != self.tile:
            self.tile, self.done, self.early = (tile, self.head), self.early, []
            kept = [part for part in gradients.GRADIENTS if not (adds and part == "dQ")]
            self.state = {part: at for part, at in self.state.items() if part in kept}
        self._squares(logged)

    def _squares(self, logged: Logged) -> None:
        """Takes the queries and keys of logged scores."""
        for part in gradients.SQUARES:
            if part in logged:
                row, col = logged[part]["at_row"], logged[part]["at_col"]
                self.queries, self.keys = [int(row.min()), int(row.max())], [int(col.min()), int(col.max())]


class States:
    """Collects the states of the parts, with their numbers."""

    def __init__(self) -> None:
        self.spans: dict[str, list[list[int]]] = {part: [] for part in (*gradients.SQUARES, *gradients.GRADIENTS)}
        self._numbers: dict[str, list[np.ndarray]] = {part: [] for part in self.spans}

    def add(self, part: str, logged: pd.DataFrame) -> int:
        """Adds the logged numbers of a part as its next state. Returns its place."""
        row, col = logged["at_row"].to_numpy(), logged["at_col"].to_numpy()
        rect = [int(n) for n in (row.min(), row.max(), col.min(), col.max())]
        block = np.full((rect[1] - rect[0] + 1, rect[3] - rect[2] + 1), np.nan, np.float32)
        block[row - rect[0], col - rect[2]] = logged.value
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


def _opening(frames: Sequence[BackwardFrame], states: Mapping[str, list[list[int]]]) -> list[BackwardFrame]:
    """A frame with the numbers of the first tile. An empty list for a kernel that computes no P or dS."""
    first = next((f for f in frames if "P" in f["made"] and f["queries"] and f["keys"]), None)
    if first is None or not any("dS" in f["made"] for f in frames):
        return []
    spans = {True: first["keys"], False: first["queries"]}
    shown = {part: bool(own) and own[0][:2] == spans[gradients.along_keys(part)] for part, own in states.items()}
    whole: BackwardFrame = {
        **first,
        "tile": -1,
        "phase": "",
        "made": [part for part in gradients.ORDER if part != "delta"],
        "done": list(gradients.SQUARES),
        "holds": [*gradients.WHOLE[:5], "LSE", "delta"],
        "touched": [],
        "state": {part: 0 if shown[part] else -1 for part in states},
        "bytes": {},
        "lines": {},
        "ready": "",
        "flying": [],
        "whole": True,
    }
    return [whole]


class _Frames:
    """Makes the frames of one step of the kernel after another.

    A step that makes several parts has a frame for each, in the order of the formula. P has the frame of S.

    code: the lines of the parts.
    outputs: the part of a gradient and its query head, counted over the batch -> its numbers [rows, dim].
    """

    def __init__(
        self,
        request: Request,
        logged: set[str],
        code: Lines,
        launches: list[Launch],
        outputs: Callable[[str, int], np.ndarray],
    ) -> None:
        self.group, self.adds, self.any_order = (
            gradients.group_of(request),
            gradients.adds(request),
            gradients.any_order(request),
        )
        self.logged, self.code, self.launches, self.names = logged, code, launches, gradients.launches(request)
        self.states, self.now, self.frames = States(), Now(), list[BackwardFrame]()
        self.rows = list[dict[str, object]]()  # of each frame, for its words
        self.outputs = outputs
        self.bytes: dict[str, int] = {}

    def add(self, step: StepRow, logged: Logged, moved: Moved, lines: dict[str, int]) -> None:
        """Adds the frames of a step. Neighbouring steps of delta share a frame."""
        if list(logged) == ["delta"] and self._goes_on(step):
            self._widen(step, moved, lines)
            return
        made = self._made(step, logged)
        touched = {key: touch for key, (touch, _) in moved.items()}
        self.now.advance(step, made, logged, touched, self.group, self.adds)
        self.now.start_or_end(step.phase, self.launches[step.launch].ended)
        groups = _one_by_one(made)
        for number, made in enumerate(groups):
            own = {key: value for key, value in moved.items() if _frame_of(key, groups) == number}
            for (part, kind), (_, size) in own.items():
                self.bytes = {**self.bytes, f"{part} {kind}": self.bytes.get(f"{part} {kind}", 0) + size}
            for part in made:
                if part in self.states.spans and part in logged:
                    self.now.state = {**self.now.state, part: self.states.add(part, logged[part])}
            self._finish(own)
            if made != self.now.early:
                self.now.done = [*self.now.done, *(part for part in made if part not in self.now.done)]
            shown = lines if len(groups) < 2 else self.code.of_frame(made, lines, groups)
            self.frames.append(self._frame(step, made, {key: touch for key, (touch, _) in own.items()}, shown, groups))

    def _finish(self, moved: Moved) -> None:
        """Shows the rows that a launch writes of sums of other blocks."""
        for (part, kind), (touch, _) in moved.items():
            sums = self.adds and part == "dQ" and kind == "store" and not self.launches[self.now.where[0]].sums
            if sums and touch.rows and self.states.spans[part]:
                own = self.outputs(part, touch.head)[touch.rows[0] : touch.rows[1] + 1]
                row, col = np.indices(own.shape)
                at = {"at_row": row.ravel() + touch.rows[0], "at_col": col.ravel(), "value": own.ravel()}
                self.now.state = {**self.now.state, part: self.states.add(part, pd.DataFrame(at))}
                self.now.queries = touch.rows

    def _made(self, step: StepRow, logged: Logged) -> list[str]:
        """The parts made in a step: those it logs, and the part of its mark, if the kernel never logs that part. A
        gradient counts only with its tile of P or dS. Else it is a finished sum."""
        marked = gradients.MARKS.get(step.phase, "")
        found = [*logged, *([marked] if marked and marked not in self.logged else [])]
        known = {*self.now.done, *found}
        needs = {product.made: set(product.reads) & {"P", "dS"} for product in gradients.PRODUCTS}
        return sorted((part for part in found if needs.get(part, set()) <= known), key=gradients.ORDER.index)

    def _goes_on(self, step: StepRow) -> bool:
        """Whether the frame before is delta of the same block."""
        before = self.frames[-1] if self.frames else None
        return before is not None and before["made"] == ["delta"] and self.now.where == (step.launch, step.block)

    def _widen(self, step: StepRow, moved: Moved, lines: dict[str, int]) -> None:
        """Adds the rows of a step to the frame before, and their bytes and lines."""
        frame = self.frames[-1]
        frame["lines"] = {at: frame["lines"].get(at, 0) + lines.get(at, 0) for at in {**frame["lines"], **lines}}
        for (part, kind), (touch, size) in moved.items():
            key = f"{part} {kind}"
            self.bytes = {**self.bytes, key: self.bytes.get(key, 0) + size}
            own = (t["rows"] for t in frame["touched"] if (t["part"], t["kind"]) == (part, kind))
            for rows in own:
                if not touch.rows:
                    continue
                rows[:] = [min(rows[0], touch.rows[0]), max(rows[1], touch.rows[1])]
        frame["bytes"] = self.bytes
        self.now.queries = frame["queries"] = next((t["rows"] for t in frame["touched"]), None)

    def _frame(
        self,
        step: StepRow,
        made: list[str],
        touched: dict[tuple[str, str], Touch],
        lines: dict[str, int],
        groups: list[list[str]],
    ) -> BackwardFrame:
        now, rows = self.now, list[TouchedRows]()
        for (part, kind), touch in touched.items():
            if of := touch.rows or (now.keys if gradients.along_keys(part) else now.queries):
                rows.append({"part": part, "kind": kind, "rows": of, "label": ""})
        if step.phase == "add" and self.adds and now.queries and ("dQ", "store") not in touched:
            label = " (derived: no probe logs this add)"
            rows.append({"part": "dQ", "kind": "store", "rows": now.queries, "label": label})
        self._tell(step, made, touched, [part for own in groups for part in own] if len(groups) > 1 else [])
        return {
            "tile": int(step.tile),
            "title": "",
            "sentence": "",
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
            "lines": lines or self.code.of_wait(step),
            "ready": gradients.MARKS.get(step.phase[: -len("_done")], "") if step.phase.endswith("_done") else "",
            "flying": now.flying,
            "whole": False,
            "unread": False,
        }

    def _tell(
        self, step: StepRow, made: list[str], touched: Mapping[tuple[str, str], Touch], together: list[str]
    ) -> None:
        """Adds what only the words of a frame need.

        together: all parts of the kernel's step, if it has several frames.
        """
        launch = self.launches[step.launch]
        reads, writes = ([part for part, own in touched if own == kind] for kind in ("load", "store"))
        along = "keys" if reads and gradients.along_keys(reads[0]) else "queries"
        row = {
            "first": False,
            "part": "S and P" if made[:2] == ["S", "P"] else made[-1] if made else "",
            "begins": gradients.MARKS.get(step.phase, ""),
            "starts": bool(made) and f"{step.phase}_done" in launch.ended,
            "phase_title": phase_title(step.phase),
            "role": step.role,
            "reads": reads,
            "writes": writes,
            "scaled": [part for part in writes if part not in ("dK", "dQ")]
            + [f"{part} times scale" for part in writes if part in ("dK", "dQ")],
            "results": set(writes) <= set(gradients.GRADIENTS),
            "kept": along == launch.stays,
            "early": bool(step.role) or step.phase.startswith("prefetch"),
            "adds": self.adds,
            "any_order": self.any_order,
            "together": together,
            "launch_name": self.names[step.launch],
            "one": {"queries": "query", "keys": "key"}[launch.moves],
        }
        self.rows.append(launch._asdict() | row)


def _one_by_one(made: list[str]) -> list[list[str]]:
    """The parts of each frame of a step."""
    if made[:2] == ["S", "P"]:
        return [["S", "P"], *([part] for part in made[2:])]
    return [[part] for part in made] or [[]]


def _frame_of(key: tuple[str, str], groups: list[list[str]]) -> int:
    """The frame of a step with a read or write: a gradient is written in its own, delta is read in that of dS, all else
    in the first."""
    part, kind = key
    own = (number for number, made in enumerate(groups) if part in made)
    if kind == "load":
        return next((number for number, made in enumerate(groups) if part == "delta" and "dS" in made), 0)
    return next(own, len(groups) - 1)


def meta_of(run: Run, story: Walk) -> tuple[BackwardMeta, dict[str, np.ndarray]]:
    """The meta and the columns of the view `backward`."""
    request = run.request
    (n, keys, d), group = gradients.sizes(request), gradients.group_of(request)
    known = [part for part in gradients.tensors(request)]
    delta = any("delta" in frame["made"] for frame in story.frames if not frame["whole"])
    traced = {key.rpartition(" ")[0] for frame in story.frames for key in frame["bytes"]}
    meta: BackwardMeta = {
        "n": n,
        "keys": keys,
        "d": d,
        "group": group,
        "head": story.head,
        "adds": gradients.adds(request),
        "launches": gradients.launches(request),
        "blocks": [launch.blocks for launch in request.plan.launches],
        "places": records.places(run),
        "parts": [part for part in known if part in traced] + (["delta"] if delta and "delta" not in known else []),
        "facts": products.facts(request, story.frames),
        "states": story.states,
        "frames": [drawn(frame) for frame in story.frames],
    }
    heads = range(story.head, story.head + group)
    columns = {part: np.concatenate([gradients.values(run, part, head) for head in heads]) for part in ("Q", "dO", "O")}
    columns |= {part: gradients.values(run, part, story.head) for part in "KV"}
    if "LSE" in known:
        columns["LSE"] = np.concatenate([gradients.values(run, "LSE", head) for head in heads])
    columns["delta"] = np.concatenate(
        [(gradients.values(run, "dO", head) * gradients.values(run, "O", head)).sum(axis=1) for head in heads]
    )
    return meta, columns | story.columns
