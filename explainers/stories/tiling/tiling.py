"""The tiling story: which part of Q, K^T, S, V and O a block works on at each step, and what it holds in shared memory.

Everything comes from the logged addresses; the rules are stated at each function. The problem declares each tensor's
part in the picture (`places`). Every other tensor or value of a kernel is counted where bytes are counted, and drawn
by the generic view (generic.py). traffic.py counts the bytes of whole runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from explainers.stories.tiling.frames import MatricesMeta, TilingFrame
from explainers.story import axes, picture, probed, stage
from explainers.story.frames import Rect
from explainers.story.glossary import UNORDERED, listed, phase_title
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS, WRITES
from kernels.trace.probes import Sites, sites_of
from kernels.trace.steps import Steps

WANTS = ("score", "p", "m", "l", "rescale", "o")


@dataclass(frozen=True)
class Tiling:
    """frames: one per step, for the browser; frame["o"] is the index in o_values that shows O after the step, or -1.

    traffic: step, tensor, space, kind, accesses, bytes: the logged accesses, summed. scores: float32 [rows, keys];
    logged: where one was, as a score may be NaN. o_values: float32 [n, rows, head_dim]; o_since [rows, head_dim]: the
    first of these that has the element, n if none has. rows: first and end of the query tile. head: counted over the
    batch. output_blocks: [row0, row1, col0, col1, block] of each block's part of this head's O.
    places: as `places` gives them.
    """

    frames: list[TilingFrame]
    traffic: pd.DataFrame
    scores: np.ndarray
    logged: np.ndarray
    o_values: np.ndarray
    o_since: np.ndarray
    rows: tuple[int, int]
    head: int
    output_blocks: list[list[int]]
    places: dict[str, str]


def accepts(spec: KernelSpec) -> bool:
    """Whether the story can show a kernel."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """A sentence that says why the story cannot show a kernel; empty if it can.

    The story shows a kernel whose items are query tiles, whose steps are marked, and whose problem declares Q, K, V and
    O. The mask is none or causal, since the hidden scores and each row's float64 follow from the causal mask only.
    """
    request = probed.sample(spec)
    if probed.has_masks(spec):
        return f"{spec.name} solves a problem with more than a causal mask."
    if request.plan.item != picture.ITEM:
        return f'{spec.name} has no query tiles as items. Set item = "{picture.ITEM}" in its launches.'
    if not probed.marks(spec):
        return f"{spec.name} marks no step. Add a PROBE_MARK."
    if not probed.accesses(spec, "global"):
        return f"{spec.name} logs no access of global memory. Add a PROBE_LOAD or a PROBE_STORE."
    return picture.without_parts(request)


def explain(run: Run) -> Tiling:
    """The Tiling of a Run whose trace covers one query tile."""
    request, trace, sites = run.request, run.trace, sites_of(run.request)
    head, *rows = picture.query_rows(request)
    at, o = picture.places(request), picture.tensor_at(request, "O")
    steps = cutting.cut(trace, sites)
    accesses = _accesses(
        request, trace, steps, sites, {symbol: t for symbol, t in axes.tensors(request).items() if symbol in at}
    )
    values = _values(trace, steps)
    scores = np.full((rows[1] - rows[0], axes.length(picture.tensor_at(request, "K"), "key")), np.nan, np.float32)
    s = values[values.event == "score"]
    logged = np.zeros(scores.shape, bool)
    at_row, at_col = s.row.astype(int) - rows[0], s.col.astype(int)
    scores[at_row, at_col], logged[at_row, at_col] = s.value, True
    o_values, o_since, o_of_step = _partial_outputs(values, rows, axes.length(o, "dim"), len(steps.table))
    traffic = pd.DataFrame(
        [(step, *a[:5]) for step, made in enumerate(accesses) for a in made],
        columns=["step", "tensor", "space", "kind", "accesses", "bytes"],
    )
    frames = _Frames(at, accesses, values, o_of_step).all(steps, cutting.lit_lines(trace, steps, sites))
    blocks = _output_blocks(request, head)
    return Tiling(frames, traffic, scores, logged, o_values, o_since, (rows[0], rows[1]), head, blocks, at)


def view(run: Run, story: Tiling) -> tuple[MatricesMeta, dict[str, np.ndarray]]:
    """What the view `matrices` draws: its meta and its columns."""
    o = picture.tensor_at(run.request, "O")
    n, d, keys = axes.length(o, "query"), axes.length(o, "dim"), axes.length(picture.tensor_at(run.request, "K"), "key")
    arrays = {place: picture.matrix(run, place, story.head) for place in "QKVO"}
    moved = {name.split(" ")[0] for name in story.frames[-1]["bytes"]}
    meta: MatricesMeta = {
        "n": n,
        "keys": keys,
        "offset": picture.mask_offset(run.request),
        "d": d,
        "row0": story.rows[0],
        "rows": story.rows[1] - story.rows[0],
        "head": story.head,
        "traced": [symbol for symbol in picture.in_order(run.request) if symbol in moved],
        "places": story.places,
        "blocks": story.output_blocks,
        "causal": bool(run.request.problem.causal),
        "frames": story.frames,
    }
    columns = {"q": arrays["Q"], "k": arrays["K"], "v": arrays["V"], "s": story.scores, "s_logged": story.logged}
    columns |= {"o": story.o_values, "o_since": story.o_since, "o_final": arrays["O"][slice(*story.rows)]}
    return meta, columns


def stage_of(run: Run, provenance: stage.Provenance, beside: Sequence[stage.View] = ()) -> stage.Stage:
    """The whole stage of a run. beside: more pictures, after the matrices."""
    story = explain(run)
    return stage.of_request(
        run.request,
        story.frames,
        [stage.View("matrices", "matrices", "Matrices", *view(run, story)), *beside],
        state=states(story),
        tabs=[stage.Tab("bytes", "Bytes"), stage.BUILDS, stage.DATA],
        provenance=provenance,
    )


def states(story: Tiling) -> list[stage.State]:
    """The strip: what the block holds in shared memory, what was read and written so far."""

    def moved(kind: str) -> list[int]:
        return [sum(n for name, n in f["bytes"].items() if name.endswith(kind)) for f in story.frames]

    held = [sum(part["bytes"] for part in f["resident"].values()) for f in story.frames]
    inside = [", ".join(f["resident"]) or "nothing" for f in story.frames]
    return [
        stage.State("read so far", moved("load"), "B", colour="load"),
        stage.State("written so far", moved("store"), "B", colour="store"),
        stage.State("in shared memory", held, "B", colour="P"),
        stage.State("it holds", inside),
    ]


def _output_blocks(request: Request, head: int) -> list[list[int]]:
    """From the plan: the last launch writes O, its blocks_per_item blocks side by side over head_dim."""
    o, launch = picture.tensor_at(request, "O"), request.plan.launches[-1]
    rows, tiles, n = picture.tiles_of(request)
    side, width = launch.blocks_per_item, axes.length(o, "dim") // launch.blocks_per_item
    return [
        [t * rows, min(n, (t + 1) * rows) - 1, j * width, (j + 1) * width - 1, (head * tiles + t) * side + j]
        for t in range(tiles)
        for j in range(side)
    ]


class Access(NamedTuple):
    """The accesses of one step to one tensor in one space: how many, their bytes, and the smallest rectangle of
    elements touched, None for shared memory and for a tensor that has no place in the picture.

    kind: of global memory load or store, whatever made it; of shared memory the event. span: in shared memory, the
    first and last byte touched.
    """

    tensor: str
    space: str
    kind: str
    accesses: int
    bytes: int
    rect: Rect | None
    span: tuple[int, int]


@dataclass(frozen=True)
class _Layout:
    """How a tensor's elements lie: bytes of one, elements from row to row and from column to column, rows, columns;
    and of a box that the copy engine brings the rows and columns, 1 and 0 where it brings none."""

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
        return replace(found, box_rows=box[row], box_cols=box[col]) if box else found


def _accesses(request: Request, trace: Any, steps: Steps, sites: Sites, drawn: dict[str, Tensor]) -> list[list[Access]]:
    """A list of Access for each step; drawn: the tensors that have a place in the picture.

    Rule: element = offset / the tensor's bytes per element; row and column are its indices along the axes that the
    picture draws. Of a box by TMA only what lies in the tensor is counted: the rest comes from nowhere, as zeros.
    """
    kind_of = [(s.tensor or "", s.space or "", s.event, s.bytes) if s.kind == "access" else None for s in sites]
    groups = sorted({kind for kind in kind_of if kind})
    group_of_site = np.array([groups.index(kind) if kind else -1 for kind in kind_of] or [-1])
    group = group_of_site[sites.index(trace.table)]
    keep = np.flatnonzero((steps.of_record >= 0) & (group >= 0))
    code = steps.of_record[keep] * max(1, len(groups)) + group[keep]
    order = np.argsort(code, kind="stable")
    code, group = code[order], group[keep][order]
    offset = trace.table["offset"].fill_null(0).to_numpy()[keep][order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    per_step: list[list[Access]] = [[] for _ in range(len(steps.table))]
    if not len(starts):
        return per_step

    def layout_of(tensor: str, space: str, event: str, size: int) -> _Layout | None:
        known = drawn.get(tensor) if space == "global" else None
        return None if known is None else _Layout.of(known, request.plan.box_of(known) if event == "tma" else None)

    layouts = [layout_of(*g) for g in groups]
    at = {
        name: np.array([getattr(found or _Layout(), name) for found in layouts])[group]
        for name in ("item", "row_step", "col_step", "rows", "cols", "box_rows", "box_cols")
    }
    size = np.array([g[3] for g in groups])[group]
    element = offset // at["item"]
    row, col = element // at["row_step"] % at["rows"], element // at["col_step"] % at["cols"]
    across = np.where(at["box_cols"] > 0, at["box_cols"], np.maximum(1, size // at["item"]))
    down, across = np.minimum(at["box_rows"], at["rows"] - row), np.minimum(across, at["cols"] - col)
    moved = np.where(at["box_cols"] > 0, down * across * at["item"], size)
    counts, total = np.diff(starts, append=len(code)), np.add.reduceat(moved, starts)
    low, high = (
        [function.reduceat(values, starts) for values in parts]
        for function, parts in (
            (np.minimum, (row, col, offset)),
            (np.maximum, (row + down, col + across, offset + size)),
        )
    )
    for n, (first, count) in enumerate(zip(starts, counts)):
        step, g = divmod(int(code[first]), len(groups))
        tensor, space, event, _ = groups[g]
        row0, col0, from_byte, row1, col1, to_byte = (int(values[n]) for values in (*low, *high))
        rect = [row0, row1 - 1, col0, col1 - 1] if layouts[g] else None
        kind = event if space == "shared" else "load" if event in READS else "store"
        per_step[step].append(Access(tensor, space, kind, int(count), int(total[n]), rect, (from_byte, to_byte - 1)))
    return per_step


def _values(trace: Any, steps: Steps) -> pd.DataFrame:
    """The value records with their step; keys as floats, NaN where an event has no such key."""
    keep = (steps.of_record >= 0) & trace.table["value"].is_valid().to_numpy()
    frame = trace.table.select(["event", *trace.keys, "value"]).filter(keep).to_pandas()
    frame["event"] = frame.event.astype(str)
    missing = [name for name in ("row", "col", "dim") if name not in frame]
    return frame.assign(step=steps.of_record[keep], **dict.fromkeys(missing, np.nan))


def _partial_outputs(
    values: pd.DataFrame, rows: list[int], head_dim: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """O as logged after each step that logged it: o_values and o_since of Tiling, and which of o_values each step has,
    or -1."""
    o = values[(values.event == "o") & values.row.notna() & values.dim.notna()]
    blocks: list[np.ndarray] = []
    shape, never = (rows[1] - rows[0], head_dim), o.step.nunique()
    of_step, current, since = np.full(count, -1), np.full(shape, np.nan, np.float32), np.full(shape, never)
    for step, part in o.groupby("step"):
        current, at = current.copy(), (part.row.astype(int) - rows[0], part.dim.astype(int))
        current[at] = part.value
        since[at] = np.minimum(since[at], len(blocks))
        of_step[step:] = len(blocks)
        blocks.append(current)
    return np.array(blocks, np.float32).reshape(len(blocks), *shape), since, of_step


class _Part(NamedTuple):
    """What was stored in a tensor's shared memory at once. span: first and last byte. rect: which elements, None where
    it is not known."""

    span: tuple[int, int]
    rect: Rect | None
    bytes: int

    @classmethod
    def of(cls, stored: list[Access], rect: Rect | None) -> "_Part":
        span = min(a.span[0] for a in stored), max(a.span[1] for a in stored)
        return cls(span, rect, sum(a.bytes for a in stored))

    def meets(self, span: tuple[int, int]) -> bool:
        return self.span[0] <= span[1] and span[0] <= self.span[1]


class _Frames:
    """Builds the frames, step by step. at: the places of the picture."""

    def __init__(
        self, at: dict[str, str], accesses: list[list[Access]], values: pd.DataFrame, o_of_step: np.ndarray
    ) -> None:
        self.at, self.accesses, self.o_of_step = at, accesses, o_of_step
        self.values_of, self.rects = dict(tuple(values.groupby("step"))), _score_rects(values)

    def all(self, steps: Steps, lit: list[dict[str, int]]) -> list[TilingFrame]:
        held: dict[str, list[_Part]] = {}
        arrived: dict[str, Rect] = {}  # what of a tensor was read last
        running: dict[str, int] = {}
        at_work: dict[str, str] = {}  # role -> where it is
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
            meanwhile = f" Meanwhile {listed(others)}." if others else ""
            if number in steps.unordered:  # where the other roles were is not known
                meanwhile = f" {UNORDERED}"
            frames.append(self._frame(number, step, held, running, lit[number], meanwhile))
            at_work[step.role] = f"the {step.role}: {_where(step)}"
        return frames

    def _frame(
        self,
        number: int,
        step: Any,
        held: dict[str, list["_Part"]],
        running: dict[str, int],
        lines: dict[str, int],
        meanwhile: str,
    ) -> TilingFrame:
        made, scores = self.accesses[number], self.rects.get(("score", number))
        read = [a for a in made if a.space == "shared" and a.kind in READS]
        used = [(a.tensor, part) for a in read for part in held.get(a.tensor, []) if part.meets(a.span)]
        sentence = self._sentence(step, made, scores, self.values_of.get(number))
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
            "sentence": sentence + meanwhile,
        }

    def _sentence(self, step: Any, accesses: list[Access], scores: Rect | None, values: pd.DataFrame | None) -> str:
        """One sentence with the step's own numbers. values: the value records of the step, or None."""

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
        """What of the tensor is accessed: its rows, and of scores and weights the columns."""
        if access.rect is None:
            return access.tensor
        row0, row1, col0, col1 = access.rect
        rows, columns = _span(row0, row1), _span(col0, col1, "column", "columns")
        return f"{access.tensor} {rows}" + (f", {columns}," if self.at[access.tensor] in "SP" else "")


def _score_rects(values: pd.DataFrame) -> dict[tuple[str, int], Rect]:
    """(event, step) -> [row0, row1, col0, col1] of the scores and weights logged in that step."""
    part = values[values.event.isin(["score", "p"]) & values.row.notna() & values.col.notna()]
    if part.empty:
        return {}
    grouped = part.groupby(["event", "step"]).agg(
        r0=("row", "min"), r1=("row", "max"), c0=("col", "min"), c1=("col", "max")
    )
    return {key: [int(v) for v in row] for key, row in zip(grouped.index, grouped.to_numpy())}


def _title(step: Any) -> str:
    return (f"Tile {step.tile} · " if step.tile >= 0 else "") + phase_title(step.phase)


def _where(step: Any) -> str:
    phase = phase_title(step.phase)
    return (f"tile {step.tile}, " if step.tile >= 0 else "") + phase[0].lower() + phase[1:]


def _first_row_numbers(values: pd.DataFrame) -> str:
    """ ", in row 16 m becomes 2.41 and l 9.8", from the first row that logged them."""
    m, l = (values[(values.event == name) & values.row.notna()] for name in ("m", "l"))
    if m.empty or l.empty:
        return ""
    return f": in row {int(m.row.iloc[0])} m becomes {m.value.iloc[0]:.4g} and l {l.value.iloc[0]:.4g}"


def _span(first: int, last: int, one: str = "row", many: str = "rows") -> str:
    return f"{one} {first}" if first == last else f"{many} {first} to {last}"
