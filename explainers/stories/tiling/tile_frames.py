"""The frames of a query tile, step by step, with a sentence for each."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.stories.tiling import step_words
from explainers.stories.tiling.accesses import Access
from explainers.stories.tiling.frames import TilingFrame
from explainers.story.frames import Rect
from explainers.story.glossary import UNORDERED, listed, phase_title, short
from kernels.trace.kinds import READS, WRITES
from kernels.trace.steps import StepRow, Steps


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
        said = step_words.sentence(step, made, scores, values, self._keys(made, scores), self.said)
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
