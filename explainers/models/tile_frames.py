"""The frames of a query tile, step by step, with a sentence for each."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.models.frames import TilingFrame
from explainers.story import picture
from explainers.story.frames import Rect
from explainers.story.glossary import UNORDERED, count, listed, phase_title, short
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.trace.kinds import READS, WRITES
from kernels.trace.probes import Sites
from kernels.trace.steps import StepRow, Steps
from kernels.trace.trace import Trace


class Access(NamedTuple):
    """The accesses of one step to one tensor in one space.

    kind: load or store for global memory, the event for shared memory.
    accesses, bytes: their number and their bytes.
    rect: the smallest rectangle of the touched elements. None for shared memory and for a tensor outside the picture.
    span: the first and last byte touched.
    """

    tensor: str
    space: str
    kind: str
    accesses: int
    bytes: int
    rect: Rect | None
    span: tuple[int, int]


class _Group(NamedTuple):
    """The probes with the same tensor, space, event and bytes of an access."""

    tensor: str
    space: str
    event: str
    bytes: int


class _Layout(NamedTuple):
    """The layout of a tensor in memory.

    item: bytes of an element.
    row_step, col_step: elements from row to row and from column to column.
    rows, cols: of the tensor.
    box_rows, box_cols: of a box of the copy engine, or 1 and 0.
    """

    item: int = 1
    row_step: int = 1
    col_step: int = 1
    rows: int = 1
    cols: int = 1
    box_rows: int = 1
    box_cols: int = 0

    @classmethod
    def of(cls, tensor: Tensor, box: tuple[int, ...] | None) -> "_Layout":
        row, col = (tensor.axes.index(axis) for axis in picture.plane(tensor))
        row_step, col_step = (int(np.prod(tensor.shape[axis + 1 :])) for axis in (row, col))
        found = cls(tensor.itemsize, row_step, col_step, tensor.shape[row], tensor.shape[col])
        return found._replace(box_rows=box[row], box_cols=box[col]) if box else found


class _Touched(NamedTuple):
    """An entry for each access: its first and end row, column and byte, and its bytes within the tensor."""

    low: tuple[np.ndarray, np.ndarray, np.ndarray]
    high: tuple[np.ndarray, np.ndarray, np.ndarray]
    bytes: np.ndarray


def accesses_of(
    request: Request, trace: Trace, steps: Steps, sites: Sites, drawn: dict[str, Tensor]
) -> list[list[Access]]:
    """A list of Access for each step.

    drawn: the tensors with a place in the picture.
    """
    per_step: list[list[Access]] = [[] for _ in range(len(steps.table))]
    of_site = [_Group(s.tensor or "", s.space or "", s.event, s.bytes) if s.kind == "access" else None for s in sites]
    groups = sorted({group for group in of_site if group})
    if not groups:
        return per_step
    number_of_site = np.array([groups.index(group) if group else -1 for group in of_site])
    group = number_of_site[sites.index(trace.table)]
    keep = np.flatnonzero((steps.of_record >= 0) & (group >= 0))
    code = steps.of_record[keep] * len(groups) + group[keep]
    order = np.argsort(code, kind="stable")
    code, group = code[order], group[keep][order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    if not len(starts):
        return per_step
    offset = trace.table["offset"].fill_null(0).to_numpy()[keep][order]
    layouts = [_layout_of(request, one, drawn) for one in groups]
    touched = _touched(offset, group, groups, layouts)
    low = [np.minimum.reduceat(values, starts) for values in touched.low]
    high = [np.maximum.reduceat(values, starts) for values in touched.high]
    counts, total = np.diff(starts, append=len(code)), np.add.reduceat(touched.bytes, starts)
    for n, (first, accesses) in enumerate(zip(starts, counts)):
        step, number = divmod(int(code[first]), len(groups))
        tensor, space, event, _ = groups[number]
        row0, col0, from_byte, row1, col1, to_byte = (int(values[n]) for values in (*low, *high))
        rect = [row0, row1 - 1, col0, col1 - 1] if layouts[number] else None
        kind = event if space == "shared" else "load" if event in READS else "store"
        per_step[step].append(Access(tensor, space, kind, int(accesses), int(total[n]), rect, (from_byte, to_byte - 1)))
    return per_step


def _layout_of(request: Request, group: _Group, drawn: dict[str, Tensor]) -> _Layout | None:
    """The layout of a group's tensor in global memory, or None outside the picture."""
    known = drawn.get(group.tensor) if group.space == "global" else None
    if known is None:
        return None
    return _Layout.of(known, request.plan.box_of(known) if group.event == "tma" else None)


def _touched(offset: np.ndarray, group: np.ndarray, groups: list[_Group], layouts: list[_Layout | None]) -> _Touched:
    """The elements of each access.

    Rule: element = offset / the tensor's bytes per element. Its row and column are its indices along the axes of the
    picture. A box of the copy engine counts only as far as it is inside the tensor. The rest of the box is zeros.
    """
    columns = np.array([layout or _Layout() for layout in layouts])[group].T
    item, row_step, col_step, rows, cols, box_rows, box_cols = columns
    size = np.array([one.bytes for one in groups])[group]
    element = offset // item
    row, col = element // row_step % rows, element // col_step % cols
    in_box = box_cols > 0
    across = np.where(in_box, box_cols, np.maximum(1, size // item))
    down, across = np.minimum(box_rows, rows - row), np.minimum(across, cols - col)
    moved = np.where(in_box, down * across * item, size)
    return _Touched((row, col, offset), (row + down, col + across, offset + size), moved)


class _Part(NamedTuple):
    """A part of a tensor stored in shared memory in one step.

    span: first and last byte.
    rect: its elements, None if they are not known.
    """

    span: tuple[int, int]
    rect: Rect | None
    bytes: int

    @classmethod
    def of(cls, stored: list[Access], rect: Rect | None) -> "_Part":
        span = min(a.span[0] for a in stored), max(a.span[1] for a in stored)
        return cls(span, rect, sum(a.bytes for a in stored))

    def meets(self, span: tuple[int, int]) -> bool:
        return self.span[0] <= span[1] and span[0] <= self.span[1]


class TileFrames:
    """Builds the frames, step by step. at: the places of the picture."""

    def __init__(
        self, at: dict[str, str], accesses: list[list[Access]], values: pd.DataFrame, o_of_step: np.ndarray
    ) -> None:
        self.at, self.accesses, self.o_of_step = at, accesses, o_of_step
        self.values_of, self.rects = dict(tuple(values.groupby("step"))), _score_rects(values)
        self.said: dict[str, list[str]] = {}

    def all(self, steps: Steps, lit: list[dict[str, int]]) -> list[TilingFrame]:
        held: dict[str, list[_Part]] = {}
        arrived: dict[str, Rect] = {}  # tensor -> its last read
        running: dict[str, int] = {}
        at_work: dict[str, str] = {}  # role -> its place
        frames, where = [], None
        for number, step in enumerate(steps.table.itertuples()):
            if (step.launch, step.block) != where:  # shared memory and registers belong to one block
                held, arrived, at_work, where = {}, {}, {}, (step.launch, step.block)
            made = self.accesses[number]
            touched = [a for a in made if a.space == "global"]
            arrived |= {a.tensor: a.rect for a in touched if a.kind == "load" and a.rect}
            weights = self.rects.get(("p", number))
            stored = [a for a in made if a.space == "shared" and a.kind in WRITES]
            for tensor in dict.fromkeys(a.tensor for a in stored):
                rect = arrived.get(tensor) or (weights if tensor in self.at else None)
                part = _Part.of([a for a in stored if a.tensor == tensor], rect)
                held = {**held, tensor: [*(p for p in held.get(tensor, []) if not p.meets(part.span)), part]}
            for a in touched:
                key = f"{a.tensor} {a.kind}"
                running = {**running, key: running.get(key, 0) + a.bytes}
            others = [said for role, said in at_work.items() if role and role != step.role]
            meanwhile = f" Meanwhile, {listed(others)}." if others else ""
            if number in steps.unordered:  # the places of the other roles are not known
                meanwhile = f" {UNORDERED}"
            frames.append(self._frame(number, step, held, running, lit[number], meanwhile))
            at_work[step.role] = f"the {step.role} is at {_where(step)}"
        return frames

    def _frame(
        self,
        number: int,
        step: StepRow,
        held: dict[str, list["_Part"]],
        running: dict[str, int],
        lines: dict[str, int],
        meanwhile: str,
    ) -> TilingFrame:
        made, scores = self.accesses[number], self.rects.get(("score", number))
        read = [a for a in made if a.space == "shared" and a.kind in READS]
        used = [(a.tensor, part) for a in read for part in held.get(a.tensor, []) if part.meets(a.span)]
        values = self.values_of.get(number)
        said = _sentence(step, made, scores, values, self._keys(made, scores), self.said)
        return {
            "tile": int(step.tile),
            "title": _title(step),
            "phase": step.phase,
            "block": int(step.block),
            "touched": [{"tensor": a.tensor, "kind": a.kind, "rect": a.rect} for a in made if a.rect],
            "resident": {
                tensor: {"rects": [p.rect for p in parts if p.rect], "bytes": sum(p.bytes for p in parts)}
                for tensor, parts in held.items()
            },
            "uses": [{"tensor": tensor, "rect": part.rect} for tensor, part in used if part.rect],
            "scores": scores,
            "o": int(self.o_of_step[number]),
            "bytes": running,
            "lines": lines,
            "sentence": said + meanwhile,
            "details": self._details(step, made, scores, values),
        }

    def _keys(self, accesses: list[Access], scores: Rect | None) -> tuple[int, int] | None:
        """The first and last key of a step, from its scores or from the loaded rows of K or V."""
        if scores:
            return scores[2], scores[3]
        rows = (a.rect for a in accesses if a.rect and a.kind == "load" and self.at.get(a.tensor) in ("K", "V"))
        return next(((rect[0], rect[1]) for rect in rows), None)

    def _details(self, step: StepRow, accesses: list[Access], scores: Rect | None, values: pd.DataFrame | None) -> str:
        """All rows and bytes of the step. values: the value records of the step, or None."""

        def moved(space: str, *kinds: str) -> list[str]:
            mine = [(self._place(a), a.bytes) for a in accesses if a.space == space and a.kind in kinds]
            named = dict.fromkeys(name for name, _ in mine)
            return [f"{name} ({sum(size for of, size in mine if of == name):,} bytes)" for name in named]

        reads, writes, kept, boxes, used, fed = (
            moved("global", "load"),
            moved("global", "store"),
            moved("shared", *(event for event in WRITES if event != "tma_smem")),
            moved("shared", "tma_smem"),
            moved("shared", *(event for event in READS if event != "product")),
            moved("shared", "product"),
        )
        parts = []
        if boxes:
            parts.append(f"asks the copy engine (TMA) to bring {listed(reads)} into shared memory")
        elif reads:
            parts.append(f"reads {listed(reads)} from global memory")
        if kept:
            parts.append(
                f"copies {listed(kept)} into shared memory"
                if reads and not boxes
                else f"keeps {listed(kept)} in shared memory"
            )
        if used:
            parts.append(f"reads {listed(used)} from shared memory")
        if fed:
            parts.append(f"has the tensor cores fetch {listed(fed)} from shared memory")
        if scores and step.phase.startswith("scores"):
            r0, r1, c0, c1 = scores
            parts.append(
                f"computes the scores of {_span(r0, r1, 'query', 'queries')} with {_span(c0, c1, 'key', 'keys')}"
            )
        if step.phase in ("softmax", "check_sums") and values is not None:
            parts.append("updates each row's running max m and sum l" + _first_row_numbers(values))
        if writes:
            parts.append(f"writes {listed(writes)} to global memory")
        if step.phase == "softmax" and values is None:
            parts.append("takes the weights against the m of the tiles before")
        if step.phase == "output_done":
            parts.append("has O so far from the tensor cores")
        role = f"{step.role}, " if step.role else ""
        return f"Block {step.block}, {role}{_where(step)}: {listed(parts) if parts else 'moves nothing'}."

    def _place(self, access: Access) -> str:
        """The touched part of the tensor: its rows, and the columns of scores and weights."""
        if access.rect is None:
            return access.tensor
        row0, row1, col0, col1 = access.rect
        rows, columns = _span(row0, row1), _span(col0, col1, "column", "columns")
        return f"{access.tensor} {rows}" + (f", {columns}," if self.at[access.tensor] in "SP" else "")


def _score_rects(values: pd.DataFrame) -> dict[tuple[str, int], Rect]:
    """(event, step) -> [row0, row1, col0, col1] of the step's logged scores and weights."""
    part = values[values.event.isin(["score", "p"]) & values.row.notna() & values.col.notna()]
    if part.empty:
        return {}
    grouped = part.groupby(["event", "step"]).agg(
        r0=("row", "min"), r1=("row", "max"), c0=("col", "min"), c1=("col", "max")
    )
    return {key: [int(v) for v in row] for key, row in zip(grouped.index, grouped.to_numpy())}


def _title(step: StepRow) -> str:
    return (f"Tile {step.tile} · " if step.tile >= 0 else "") + phase_title(step.phase)


def _where(step: StepRow) -> str:
    phase = phase_title(step.phase)
    return (f"tile {step.tile}, " if step.tile >= 0 else "") + phase[0].lower() + phase[1:]


def _first_row_numbers(values: pd.DataFrame) -> str:
    """ ", in row 16 m becomes 2.41 and l 9.8", from the first row with both."""
    m, l = (values[(values.event == name) & values.row.notna()] for name in ("m", "l"))
    if m.empty or l.empty:
        return ""
    return f": in row {int(m.row.iloc[0])} m becomes {short(m.value.iloc[0])} and l {short(l.value.iloc[0])}"


def _span(first: int, last: int, one: str = "row", many: str = "rows") -> str:
    return f"{one} {first}" if first == last else f"{many} {first} to {last}"


# the work of a phase that reads stored scores or weights
WORK = {
    "row_max": "finds the max of each row",
    "row_sum": "adds up e^(score - max) in each row",
    "divide": "divides each weight by its row's sum",
    "output": "adds weights times V to O",
    "check_sums": "checks the sums of the weights",
    "combine": "merges the parts",
}


def _sentence(
    step: StepRow,
    accesses: list[Access],
    scores: Rect | None,
    values: pd.DataFrame | None,
    keys: tuple[int, int] | None,
    seen: dict[str, list[str]],
) -> str:
    """The step in words. The words of an earlier step follow its new keys.

    scores: the rectangle of its scores, or None.
    values: its value records, or None.
    keys: its first and last key, or None.
    seen: the words of the earlier steps, each with its keys. This step joins them.
    """
    who = f"The {step.role}" if step.role else "The block"
    reads, writes = _names(accesses, "global", "load"), _names(accesses, "global", "store")
    boxes, kept = _names(accesses, "shared", "tma_smem"), _kept(accesses)
    fed = _names(accesses, "shared", "product")
    used = _names(accesses, "shared", *(event for event in READS if event != "product"))
    done = []
    if boxes:
        done.append(f"asks the copy engine (TMA) for {listed(reads or boxes)}")
    elif reads and kept:
        done.append(f"copies {listed(reads)} from global to shared memory")
    elif reads:
        done.append(f"reads {listed(reads)} from global memory")
    if used:
        done.append(f"reads {listed(used)} from shared memory")
    if fed:
        done.append(f"lets the tensor cores read {listed(fed)} from shared memory")
    work = _work(step, scores, values)
    done += [work] if work else []
    first = f"{who} {listed(done)}." if done else ""
    more = [f"keeps {listed(kept)} in shared memory"] if kept and not reads and not boxes else []
    more += [f"writes {listed(writes)} to global memory"] if writes else []
    second = f"{'It' if first else who} {listed(more)}." if more else ""
    said = " ".join(filter(None, [first, second])) or f"{who} moves no data."
    before, now = seen.get(said, ()), _keys_or_tile(step, keys)
    seen[said] = [*before, now]
    if before and now in before:
        said = said.replace("The block", "A second block", 1)
    elif before and now:
        said = f"Now {now}: {said[0].lower()}{said[1:]}"
        if keys and scores and work:
            said = said.replace(work, "computes their scores")
    return " ".join(filter(None, [said, _first_row(step, values)]))


def _keys_or_tile(step: StepRow, keys: tuple[int, int] | None) -> str:
    """The keys of the step, or its tile, or an empty text."""
    if keys:
        return f"keys {keys[0]} to {keys[1]}"
    return f"key tile {step.tile}" if step.tile >= 0 else ""


def _work(step: StepRow, scores: Rect | None, values: pd.DataFrame | None) -> str:
    """The arithmetic of the step, or an empty text."""
    if scores and step.phase.startswith("scores"):
        first, last, low, high = scores
        queries, keys = count(last - first + 1, "query", "queries"), count(high - low + 1, "key")
        return f"computes the scores of {queries} with {keys}"
    if step.phase == "softmax":
        return (
            "takes weights against the m of earlier tiles" if values is None else "updates max m and sum l of each row"
        )
    if step.phase == "output_done":
        return "has O so far from the tensor cores"
    return WORK.get(step.phase, "")


def _names(accesses: list[Access], space: str, *kinds: str) -> list[str]:
    return list(dict.fromkeys(a.tensor for a in accesses if a.space == space and a.kind in kinds))


def _kept(accesses: list[Access]) -> list[str]:
    return _names(accesses, "shared", *(event for event in WRITES if event != "tma_smem"))


def _first_row(step: StepRow, values: pd.DataFrame | None) -> str:
    """The new max of the first row in a sentence, or an empty text."""
    if values is None or step.phase not in ("softmax", "check_sums"):
        return ""
    m = values[(values.event == "m") & values.row.notna()]
    return "" if m.empty else f"In row {int(m.row.iloc[0])}, m is now {short(float(m.value.iloc[0]))}."
