"""The frames of a query tile, step by step, with a sentence for each."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.models.frames import TilingFrame
from explainers.story import picture
from explainers.story.frames import Rect
from explainers.story.glossary import UNORDERED, phase_title
from explainers.story.words import Row, Words
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.trace.kinds import BOXES, READS, WRITES
from kernels.trace.probes import Sites
from kernels.trace.steps import StepRow, Steps
from kernels.trace.trace import Trace

WORDS = Words.of(str(__package__), "tile_words.toml")


class Access(NamedTuple):
    """The accesses of one step to one tensor in one space.

    accesses, bytes: their number and their bytes.
    rect: the smallest rectangle of the touched elements. None for shared memory and for a tensor outside the picture.
    """

    tensor: str
    space: str
    kind: str  # load or store for global memory, the event for shared memory
    accesses: int
    bytes: int
    rect: Rect | None
    span: tuple[int, int]  # the first and last byte touched


class _Group(NamedTuple):
    """The probes with the same tensor, space, event and bytes of an access."""

    tensor: str
    space: str
    event: str
    bytes: int


class _Layout(NamedTuple):
    """The layout of a tensor in memory.

    row_step, col_step: elements from row to row and from column to column.
    rows, cols: of the tensor.
    box_rows, box_cols: of a box of the copy engine, or 1 and 0.
    """

    item: int = 1  # bytes of an element
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
    layouts: list[_Layout | None] = []
    for one in groups:  # None outside the picture
        known = drawn.get(one.tensor) if one.space == "global" else None
        box = request.plan.box_of(known) if known and one.event in BOXES else None
        layouts.append(_Layout.of(known, box) if known else None)
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
    """A part of a tensor stored in shared memory in one step."""

    span: tuple[int, int]  # first and last byte
    rect: Rect | None  # its elements, None if they are not known
    bytes: int

    @classmethod
    def of(cls, stored: list[Access], rect: Rect | None) -> "_Part":
        span = min(a.span[0] for a in stored), max(a.span[1] for a in stored)
        return cls(span, rect, sum(a.bytes for a in stored))

    def meets(self, span: tuple[int, int]) -> bool:
        return self.span[0] <= span[1] and span[0] <= self.span[1]


def frames_of(
    at: dict[str, str],
    accesses: list[list[Access]],
    values: pd.DataFrame,
    o_of_step: np.ndarray,
    steps: Steps,
    lit: list[dict[str, int]],
) -> list[TilingFrame]:
    """The frames, step by step.

    at: the places of the picture.
    values: the logged values, with their step.
    o_of_step: TilingFrame.o of each step.
    lit: the lines of each step.
    """
    values_of, rects = dict(tuple(values.groupby("step"))), _score_rects(values)
    held: dict[str, list[_Part]] = {}
    arrived: dict[str, Rect] = {}  # tensor -> its last read
    running: dict[str, int] = {}
    at_work: dict[str, str] = {}  # role -> its place
    seen: dict[str, list[str]] = {}  # the words of a step -> the keys of each step with them
    fetched = set[tuple[int, str, tuple[int, ...]]]()  # (launch, tensor, rectangle) of each copy by an earlier step
    frames, where = list[TilingFrame](), None
    for number, step in enumerate(steps.table.itertuples()):
        another = where is not None and where[0] == step.launch and where[1] != step.block
        later = where is not None and where[0] != step.launch
        if (step.launch, step.block) != where:  # shared memory and registers belong to one block
            held, arrived, at_work, where = {}, {}, {}, (step.launch, step.block)
        made, scores = accesses[number], rects.get(("score", number))
        touched = [a for a in made if a.space == "global"]
        arrived |= {a.tensor: a.rect for a in touched if a.kind == "load" and a.rect}
        weights = rects.get(("p", number))
        stored = [a for a in made if a.space == "shared" and a.kind in WRITES]
        for tensor in dict.fromkeys(a.tensor for a in stored):
            rect = arrived.get(tensor) or (weights if tensor in at else None)
            part = _Part.of([a for a in stored if a.tensor == tensor], rect)
            held = {**held, tensor: [*(p for p in held.get(tensor, []) if not p.meets(part.span)), part]}
        for a in touched:
            key = f"{a.tensor} {a.kind}"
            running = {**running, key: running.get(key, 0) + a.bytes}
        read = [a for a in made if a.space == "shared" and a.kind in READS]
        used = [(a.tensor, part.rect) for a in read for part in held.get(a.tensor, []) if part.meets(a.span)]
        reads = _reads(read, held)
        row = _row(step, made, scores, values_of.get(number), at)
        copies = ({"tensor": tensor, "times": times} for tensor, times in reads.items() if at.get(tensor) in ("K", "V"))
        loads = {(step.launch, a.tensor, tuple(a.rect)) for a in touched if a.kind == "load" and a.rect}
        row["another"], row["later"] = another, later
        row["same"] = [tensor for _, tensor, _ in sorted(loads & fetched)] if another else []
        row["fresh"] = [tensor for tensor in row["reads"] if tensor not in row["same"]]
        fetched |= loads
        row["copied"] = next(copies, {"tensor": "", "times": 0})
        row["others"] = [text for role, text in at_work.items() if role and role != step.role]
        row["unordered"] = UNORDERED if number in steps.unordered else ""  # the places of the other roles are not known
        at_work[step.role] = WORDS.say("elsewhere", row)
        sentence, head = _said(row, seen)
        frames.append(
            {
                "tile": int(step.tile),
                "title": WORDS.say("title", row),
                "phase": step.phase,
                "launch": int(step.launch),
                "block": int(step.block),
                "touched": [{"tensor": a.tensor, "kind": a.kind, "rect": a.rect} for a in made if a.rect],
                "resident": {
                    tensor: {"rects": [p.rect for p in parts if p.rect], "bytes": sum(p.bytes for p in parts)}
                    for tensor, parts in held.items()
                },
                "uses": [{"tensor": tensor, "rect": rect} for tensor, rect in used if rect],
                "scores": scores,
                "o": int(o_of_step[number]),
                "bytes": running,
                "reads": reads,
                "lines": lit[number],
                "sentence": sentence,
                "head": head,
                "details": WORDS.say("details", row | {"exactly": WORDS.parts("exactly", row)}),
            }
        )
    return _opened(frames, at)


def _opened(frames: list[TilingFrame], at: dict[str, str]) -> list[TilingFrame]:
    """The frames. The first headline asks how often a key is fetched, if its step copies keys for many reads."""
    scored = next((frame for frame in frames if frame["scores"]), None)
    if scored and (rect := scored["scores"]):
        keys = [tensor for tensor in scored["reads"] if at.get(tensor) == "K" and tensor in frames[0]["resident"]]
        if scored is not frames[0] and keys and scored["reads"][keys[0]] > 1.5:
            frames[0]["head"] = WORDS.say("opening", {"queries": rect[1] - rect[0] + 1})
    return frames


GROUPS = {  # the accesses of a step in its words: space and kinds
    "reads": ("global", ("load",)),
    "writes": ("global", ("store", "tma_store")),
    "boxes": ("shared", ("tma_smem",)),
    "kept": ("shared", tuple(event for event in WRITES if event != "tma_smem")),
    "fed": ("shared", ("product",)),
    "used": ("shared", tuple(event for event in READS if event != "product")),
}


def _row(
    step: StepRow, accesses: list[Access], scores: Rect | None, values: pd.DataFrame | None, at: dict[str, str]
) -> Row:
    """The step for tile_words.toml.

    scores: the rectangle of its scores, or None.
    values: its value records, or None.
    """
    row: Row = {name: getattr(step, name) for name in ("role", "phase", "tile", "block")}
    row |= {"phase_title": phase_title(step.phase), "scores": scores, "logs": values is not None}
    row |= {"exact": {}, "again": False, "now": ""}
    for name, (space, kinds) in GROUPS.items():
        own = [a for a in accesses if a.space == space and a.kind in kinds]
        sizes: dict[str, int] = {}
        for a in own:
            place = a.tensor
            if a.rect:
                columns = f", {_span(a.rect[2:], 'column', 'columns')}," if at[a.tensor] in "SP" else ""
                place = f"{a.tensor} {_span(a.rect[:2], 'row', 'rows')}{columns}"
            sizes[place] = sizes.get(place, 0) + a.bytes
        row[name] = list(dict.fromkeys(a.tensor for a in own))
        row["exact"][name] = [f"{place} ({size:,} bytes)" for place, size in sizes.items()]
    row |= {"m": {}, "l": {}}  # of the first row with it
    if values is not None and step.phase in ("softmax", "check_sums"):
        for name in ("m", "l"):
            logged = values[(values.event == name) & values.row.notna()].head(1)
            row[name] = next(iter(logged.to_dict("records")), {})
    loaded = (a.rect[:2] for a in accesses if a.rect and a.kind == "load" and at.get(a.tensor) in ("K", "V"))
    row["keys"] = scores[2:] if scores else next(loaded, [])  # first and last
    if scores:
        row |= {"queries": _span(scores[:2], "query", "queries"), "columns": _span(scores[2:], "key", "keys")}
    return row | {"place": WORDS.say("place", row)}


def _reads(read: list[Access], held: dict[str, list[_Part]]) -> dict[str, float]:
    """Tensor -> the bytes that a step reads from shared memory, over the bytes of the parts that it reads."""
    found = {}
    for tensor in dict.fromkeys(a.tensor for a in read):
        own = [a for a in read if a.tensor == tensor]
        size = sum(part.bytes for part in held.get(tensor, []) if any(part.meets(a.span) for a in own))
        if size:
            found[tensor] = round(sum(a.bytes for a in own) / size, 2)
    return found


def _said(row: Row, seen: dict[str, list[str]]) -> tuple[str, str]:
    """The sentence and the headline of a step. The words of an earlier step follow its new keys.

    seen: the words of the earlier steps, each with its keys. This step joins them.
    """

    def said(row: Row) -> str:
        row = row | {"work": WORDS.say("work", row)}
        return WORDS.say("step", row | {name: WORDS.parts(name, row) for name in ("done", "more")})

    step, now = said(row), WORDS.say("keys_or_tile", row)
    alike = said(row | {"another": False, "later": False})  # whichever block it is
    before = seen.get(alike, ())
    seen[alike] = [*before, now]
    if before:
        row = row | ({"again": True} if now in before else {"now": now})
        step = said(row)
    return WORDS.say("sentence", row | {"step": step}), WORDS.say("head", row)


def _span(ends: list[int], one: str, many: str) -> str:
    first, last = ends
    return f"{one} {first}" if first == last else f"{many} {first} to {last}"


def _score_rects(values: pd.DataFrame) -> dict[tuple[str, int], Rect]:
    """(event, step) -> [row0, row1, col0, col1] of the step's logged scores and weights."""
    part = values[values.event.isin(["score", "p"]) & values.row.notna() & values.col.notna()]
    if part.empty:
        return {}
    grouped = part.groupby(["event", "step"]).agg(
        r0=("row", "min"), r1=("row", "max"), c0=("col", "min"), c1=("col", "max")
    )
    return {key: [int(v) for v in row] for key, row in zip(grouped.index, grouped.to_numpy())}
