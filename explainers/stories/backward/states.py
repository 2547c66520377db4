"""A block of the backward while its frames are made: its tile in work, and the numbers of each part."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.backward.frames import Span
from explainers.stories.backward.records import Logged, Touch
from kernels.trace.steps import StepRow


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
