"""The frames of a walk through a list of blocks."""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from explainers.stories.sparsity.block_mask import FULL, KINDS, PARTIAL, Entry, Place
from explainers.stories.sparsity.frames import SparsityFrame
from explainers.stories.sparsity.mask_words import rule
from explainers.story.glossary import count, short
from kernels.core.masks import BlockLists
from kernels.run.results import Run

FACTOR = 1e-2  # relative difference of a rescale factor beyond rounding
SAME = 1e-5  # relative difference of m and the largest tile_max within rounding


class RowState(NamedTuple):
    """The row's running max m and running sum l."""

    m: float
    l: float


@dataclass(frozen=True)
class Change:
    """The change of a row by a block.

    before, after: its m and l.
    factor: the logged factor of l, None without a log.
    highest: the row's largest score so far.
    """

    before: RowState
    after: RowState
    factor: float | None
    highest: float


@dataclass(frozen=True, eq=False)
class WalkFrames:
    """Makes the frames of a walk.

    sees: the keys that the row sees by the mask, bool [keys].
    scored: the columns of the logged scores. A what-if build has other columns than the mask.
    lit: the source lines of each frame.
    loaded: column -> bytes of K and V.
    begin: m and l before the first entry.
    """

    run: Run
    place: Place
    row: int
    lists: BlockLists
    entries: list[Entry]
    values: dict[str, dict[int, float]]
    sees: np.ndarray
    scored: np.ndarray
    lit: list[dict[str, int]]
    loaded: dict[int, int]
    o: np.ndarray
    lse: float
    begin: RowState

    def frames(self) -> list[SparsityFrame]:
        """Returns a frame for the list, one for each entry, and one for the result."""
        found, state, highest = [self._first()], self.begin, self.begin.m
        for n, entry in enumerate(self.entries):
            tile_max = self._logged("tile_max", entry.column)
            highest = highest if tile_max is None else max(highest, tile_max)
            after = self._state_after(entry.column, state)
            found.append(self._entry(n, entry, Change(state, after, self._logged("rescale", entry.column), highest)))
            state = after
        return [*found, self._last(state)]

    def _logged(self, event: str, column: int) -> float | None:
        """Returns the logged value of a block, None without one."""
        return self.values.get(event, {}).get(column)

    def _state_after(self, column: int, before: RowState) -> RowState:
        m, l = self._logged("m", column), self._logged("l", column)
        return RowState(before.m if m is None else m, before.l if l is None else l)

    def _frame(
        self, n: int, title: str, sentence: str, before: RowState, after: RowState, **entry: object
    ) -> SparsityFrame:
        """Returns a frame. entry: the fields of an entry's frame."""
        loaded = sum(self.loaded.get(entry.column, 0) for entry in self.entries[: max(0, n)])
        no_entry = {"entry": -1, "column": -1, "kind": "", "seen": 0, "rescale": None, "tile_max": None}
        frame = {
            "tile": n - 1,
            "title": title,
            "sentence": sentence,
            "lines": self.lit[n],
            "phase": "entry" if entry else "walk",
            "block": 0,
            "m_before": before.m,
            "l_before": before.l,
            "m": after.m,
            "l": after.l,
            "loaded": loaded,
            **no_entry,
            **entry,
        }
        return cast(SparsityFrame, frame)

    def _first(self) -> SparsityFrame:
        rows, columns = self.place.end - self.place.first, self.lists.kv_indices.shape[1]
        listed = len(self.entries)
        partial = sum(entry.kind == PARTIAL for entry in self.entries)
        whose, full = f"Query block {self.place.tile}", listed - partial
        if listed:
            are, be = ("is" if n == 1 else "are" for n in (partial, full))
            kinds = f"{partial} {are} partial and {full} {be} full"
            said = f"{whose} needs {listed} of {count(columns, 'key block')}: {kinds}."
        else:
            said = f"{whose} has no block in its list: its {rows} rows see no key. No K and no V is loaded."
        said = f"{rule(self.run.request.problem)} {said}".strip()
        if np.isfinite(self.begin.m):
            said += f" The head's sink counts as a key: m starts at its logit {short(self.begin.m)}, and l at 1."
        return self._frame(0, "The list", said, self.begin, self.begin)

    def _entry(self, n: int, entry: Entry, change: Change) -> SparsityFrame:
        column = entry.column
        first = column * self.lists.block_kv
        end = min(len(self.sees), first + self.lists.block_kv)
        seen = int(self.sees[first:end].sum())
        scored = self.scored[self.scored // self.lists.block_kv == column]
        said = [
            f"Block {column} is {self._kind_text(entry, seen, scored, end)}.",
            self._change_sentence(len(scored), change),
        ]
        if self.loaded.get(column):
            said.append(f"The kernel loads {self.loaded[column]:,} bytes of K and V.")
        return self._frame(
            n + 1,
            f"Entry {n + 1} · block {column}",
            " ".join(said),
            change.before,
            change.after,
            entry=n,
            column=column,
            kind=KINDS[entry.kind],
            seen=seen,
            rescale=change.factor,
            tile_max=self._logged("tile_max", column),
        )

    def _kind_text(self, entry: Entry, seen: int, scored: np.ndarray, end: int) -> str:
        """Returns the kind of a block, and a difference between the scored and the seen keys. end: the block's end."""
        keys = end - entry.column * self.lists.block_kv
        kind = (
            "full, so it needs no mask"
            if entry.kind == FULL
            else f"partial: row {self.row} sees {seen} of its {keys} keys"
        )
        if len(scored) == seen:
            return kind
        past = int((scored >= end).sum())
        beyond = f", {past} past the last key" if past else ""
        return f"{kind}, but the kernel scores {len(scored)}{beyond}"

    def _change_sentence(self, scored: int, change: Change) -> str:
        """Returns the change of the row's m and l. m is "the max" only at the highest score."""
        (m0, l0), (m1, l1), row = change.before, change.after, f"Row {self.row}"
        from_m, from_l, to_m, to_l = (number_text(value) for value in (m0, l0, m1, l1))
        if not scored:
            if m1 == m0:
                return f"{row} has no score here, so m and l stay."
            return f"{row} has no score here, but m goes from {from_m} to {to_m}. And l goes from {from_l} to {to_l}."
        is_max = "tile_max" not in self.values or np.isclose(m1, change.highest, rtol=SAME)
        name = "max" if is_max else "m"
        but = "" if is_max else f", though the row's max is {number_text(change.highest)}"
        if m1 == m0:
            return f"{row}'s {name} stays {to_m}{but}, and l grows to {to_l}."
        if m0 == -np.inf:
            return f"The first scores of row {self.row} make m {to_m}{but and f'{but},'} and l {to_l}."
        moved = f"{row}'s {name} goes from {from_m} to {to_m}{but}{_factor_text(change)}"
        return f"{moved}. With the new weights, l is {to_l}."

    def _last(self, state: RowState) -> SparsityFrame:
        said = self._result_sentence(state)
        skipped = self.lists.kv_indices.shape[1] - len(self.entries)
        if skipped:
            were = "was" if skipped == 1 else "were"
            said += f" For query block {self.place.tile}, {count(skipped, 'key block')} {were} not loaded."
        return self._frame(len(self.entries) + 1, "Result", said, state, state)

    def _result_sentence(self, state: RowState) -> str:
        (m, l), row = state, f"Row {self.row}"
        if len(self.scored) and np.isfinite(m) and l > 0:
            lse = f"lse = m + ln l = {number_text(self.lse)}"
            return f"{row} is done: O is divided by l = {number_text(l)}. The kernel stores {lse}."
        who = row if self.entries else "Each row"
        zeros = "not 0" if self.o.any() else "0"
        said = f"{who} saw no key: the kernel writes O = {zeros} and lse = {number_text(self.lse)}."
        of_sink = np.isfinite(self.lse) and np.isfinite(self.begin.m)
        return f"{said} The lse comes only from the sink." if of_sink else said


def _factor_text(change: Change) -> str:
    """Returns the factor of l, and the due one if they differ. "" without a logged factor."""
    if change.factor is None:
        return ""
    m0, m1 = change.before.m, change.after.m
    due = power_text(m0, m1)
    if np.isclose(change.factor, np.exp(m0 - m1), rtol=FACTOR):
        return f". So l is multiplied by {due}"
    return f". But l is multiplied by {number_text(change.factor)}, where {due} is due"


def power_text(before: float, after: float) -> str:
    """Returns the factor for l: "e^(1.613 - 2.674) = 0.3461"."""
    said = f"e^({number_text(before)} - {number_text(after)})".replace("- -", "+ ")
    return f"{said} = {number_text(np.exp(before - after))}"


def number_text(value: float) -> str:
    """Returns a number for a sentence, also an infinite one."""
    if np.isinf(value):
        return "-inf" if value < 0 else "inf"
    return short(value)
