"""The frames of a walk through a list of blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from explainers.stories.sparsity.block_mask import FULL, KINDS, PARTIAL, Entry, Place
from explainers.stories.sparsity.frames import SparsityFrame
from explainers.story.glossary import count, short
from kernels.core.masks import BlockLists
from kernels.run.results import Run

FACTOR = 1e-2  # relative difference of a rescale factor beyond rounding
SAME = 1e-5  # relative difference of m and the largest tile_max within rounding


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
    begin: tuple[float, float]

    def frames(self) -> list[SparsityFrame]:
        made, before, highest = [self._first()], self.begin, self.begin[0]
        for n, entry in enumerate(self.entries):
            highest = max(highest, self.values.get("tile_max", {}).get(entry.column, -np.inf))
            made.append(self._entry(n, entry, before, highest))
            before = self._state(entry.column, before)
        return [*made, self._last(before)]

    def _state(self, column: int, before: tuple[float, float]) -> tuple[float, float]:
        """Returns m and l after a block, from the trace."""
        return tuple(self.values.get(name, {}).get(column, b) for name, b in zip("ml", before))  # type: ignore[return-value]

    def _frame(self, n: int, title: str, sentence: str, before: Any, after: Any, **more: Any) -> SparsityFrame:
        known: dict[str, Any] = {"entry": -1, "column": -1, "kind": "", "seen": 0, "rescale": None, "tile_max": None}
        known |= more
        loaded = sum(self.loaded.get(entry.column, 0) for entry in self.entries[: max(0, n)])
        return {
            "tile": n - 1,
            "title": title,
            "sentence": sentence,
            "lines": self.lit[n],
            "phase": "entry" if known["entry"] >= 0 else "walk",
            "block": 0,
            "m_before": before[0],
            "l_before": before[1],
            "m": after[0],
            "l": after[1],
            "loaded": loaded,
            **known,  # type: ignore[typeddict-item]
        }

    def _first(self) -> SparsityFrame:
        tile, rows, columns = self.place.tile, self.place.end - self.place.first, self.lists.kv_indices.shape[1]
        partial = sum(e.kind == PARTIAL for e in self.entries)
        full, listed = len(self.entries) - partial, len(self.entries)
        whose = f"Query block {tile} (rows {self.place.first} to {self.place.end - 1})"
        if not listed:
            said = f"{whose} has no block in its list: its {rows} rows see no key. No K and no V is loaded."
        else:
            said = f"{whose} meets {listed} of {count(columns, 'key block')}: {partial} partial, {full} full, "
            said += f"{columns - listed} skipped."
        m, l = self.begin
        if np.isfinite(m):
            said += f" The head's sink counts as a key: m begins at its logit {short(m)}, l at 1."
        return self._frame(0, "The list", said, self.begin, self.begin)

    def _entry(self, n: int, entry: Entry, before: tuple[float, float], highest: float) -> SparsityFrame:
        """Returns the frame of an entry. highest: the row's largest score so far."""
        column, kind = entry
        first, end = column * self.lists.block_kv, min(len(self.sees), (column + 1) * self.lists.block_kv)
        seen, after = int(self.sees[first:end].sum()), self._state(column, before)
        scored = self.scored[self.scored // self.lists.block_kv == column]
        factor = self.values.get("rescale", {}).get(column)
        what = "full, so no mask" if kind == FULL else f"partial: row {self.row} sees {seen} of its {end - first} keys"
        if len(scored) != seen:
            past = int((scored >= end).sum())
            what += f", but the kernel scores {len(scored)}{f', {past} of them past the last key' if past else ''}"
        said = f"Entry {n + 1} of {len(self.entries)}: block {column}, {what}. "
        said += self._moved(len(scored), before, after, factor, highest)
        if self.loaded.get(column):
            said += f" Loaded: {self.loaded[column]:,} bytes of K and V."
        known = {"entry": n, "column": column, "kind": KINDS[kind], "seen": seen, "rescale": factor}
        known["tile_max"] = self.values.get("tile_max", {}).get(column)
        return self._frame(n + 1, f"Entry {n + 1} · block {column}", said, before, after, **known)

    def _moved(self, scored: int, before: Any, after: Any, factor: float | None, highest: float) -> str:
        """Returns the change of the row's m and l. m is "the max" only at the highest score."""
        (m0, l0), (m1, l1), row = before, after, f"Row {self.row}"
        if not scored and m1 == m0:
            return f"{row} has no score here: m stays {number_text(m0)} and l {number_text(l0)}."
        if not scored:
            moved = (
                f"m goes from {number_text(m0)} to {number_text(m1)}, and l from {number_text(l0)} to {number_text(l1)}"
            )
            return f"{row} has no score here, but {moved}."
        name, but = "max", ""
        if "tile_max" in self.values and not np.isclose(m1, highest, rtol=SAME):
            name, but = "m", f", though the row's max is {number_text(highest)}"
        if m1 == m0:
            return (
                f"{row}'s {name} stays {number_text(m1)}{but}, and l grows from {number_text(l0)} to {number_text(l1)}."
            )
        if m0 == -np.inf:
            return f"{row}'s first scores: m becomes {number_text(m1)}{but and f'{but},'} and l {number_text(l1)}."
        by = "" if factor is None else f", so l {number_text(l0)} is multiplied by {power_text(m0, m1)}"
        if factor is not None and not np.isclose(factor, np.exp(m0 - m1), rtol=FACTOR):
            by = f"; l {number_text(l0)} is multiplied by {number_text(factor)}, where {power_text(m0, m1)} is due"
        moved = f"{row}'s {name} goes from {number_text(m0)} to {number_text(m1)}{but}{by}"
        return f"{moved}; with the new weights l is {number_text(l1)}."

    def _last(self, before: tuple[float, float]) -> SparsityFrame:
        (m, l), row = before, f"Row {self.row}"
        if len(self.scored) and np.isfinite(m) and l > 0:
            lse = f"m + ln l = {number_text(m)} + {number_text(np.log(l))}".replace("+ -", "- ")
            said = f"{row}: O is divided by l = {number_text(l)}, and lse = {lse} = {number_text(self.lse)}."
        else:
            all_rows = "Each row" if not self.entries else row
            zeros = "0" if not self.o.any() else "not 0"
            said = f"{all_rows} saw no key: the kernel writes O = {zeros} and lse = {number_text(self.lse)}."
            if np.isfinite(self.lse):
                said += " The lse is the sink's alone." if np.isfinite(self.begin[0]) else ""
        skipped = self.lists.kv_indices.shape[1] - len(self.entries)
        if skipped:
            whose = f"for query block {self.place.tile}"
            said += f" {count(skipped, 'block')} of K and V {'was' if skipped == 1 else 'were'} not loaded {whose}."
        return self._frame(len(self.entries) + 1, "Result", said, before, before)


def power_text(before: float, after: float) -> str:
    """Returns the factor for l: "e^(1.613 - 2.674) = 0.3461"."""
    said = f"e^({number_text(before)} - {number_text(after)})".replace("- -", "+ ")
    return f"{said} = {number_text(np.exp(before - after))}"


def number_text(value: float) -> str:
    """Returns a number for a sentence, also an infinite one."""
    return short(value) if np.isfinite(value) or np.isnan(value) else "-inf" if value < 0 else "inf"
