"""The walk of one query block through its list of blocks, for one row, from the trace."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.sparsity.block_mask import (
    KINDS,
    PARTIAL,
    WORDS,
    Entry,
    Place,
    entries_of,
    has_lists,
    lists_of_head,
    place_of,
)
from explainers.story import axes, picture
from explainers.story.glossary import short
from explainers.story.words import Row
from kernels.core.masks import BlockLists
from kernels.core.tensors import Role
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.probes import sites_of

FACTOR = 1e-2  # relative difference of a rescale factor beyond rounding
SAME = 1e-5  # relative difference of m and the largest tile_max within rounding


@dataclass(frozen=True, eq=False)
class Walk:
    """The walk of one row through the list of its query block.

    place: the query block.
    row: the row, counted in its head.
    lists: the lists of the head.
    entries: in the order of the walk.
    steps: a row for the list, one for each entry, and one for the result. m_before, l_before, m, l: as logged.
    data: the names of all sentences and questions.
    scores: float32 [keys], logged for the row, else NaN.
    loaded: logged bytes of K and V for each entry.
    o, lse: the kernel's output for the row.
    """

    place: Place
    row: int
    lists: BlockLists
    entries: list[Entry]
    steps: list[Row]
    data: Row
    scores: np.ndarray
    loaded: list[int]
    o: np.ndarray
    lse: float

    @property
    def frames(self) -> list[Any]:
        return WORDS.frames(self.steps, self.data)


def explain(run: Run, row: int) -> Walk:
    """Returns the Walk of the traced query block by one of its rows, counted in its head."""
    request, trace, sites = run.request, run.trace, run.sites
    place = place_of(request)
    lists = lists_of_head(run, place.head)
    entries = entries_of(lists, place.tile, not has_lists(request))
    steps = cutting.cut(trace, sites)
    values = trace.frame("event", "row", "col", "tile", "value")
    values = values[(values["row"] == row) & values["value"].notna()]
    by_tile = {
        name: dict(zip(part["tile"].astype(int), part["value"].astype(float)))
        for name, part in values[values["tile"].notna()].groupby("event", observed=True)
    }
    scores = np.full(axes.length(picture.tensor_at(request, "K"), "key"), np.nan, np.float32)
    logged = values[values["event"] == "score"]
    scored = logged["col"].to_numpy().astype(int)
    known = scored < len(scores)  # a build without the mask scores zeros past the last key too
    scores[scored[known]] = logged["value"].to_numpy()[known]
    masks = request.problem.masks
    sees = masks[place.head if len(masks) > 1 else 0].strip(row, row + 1)[0]
    lines = _lines(cutting.lit_lines(trace, steps, sites), steps.table, [e.column for e in entries])
    by_column = _loaded(run, steps)
    loaded = [by_column.get(entry.column, 0) for entry in entries]
    o, lse = _written(run, place.head, row)
    begin = _begin(run, place.head)
    rows = _rows(entries, lists.block_kv, by_tile, sees, scored, loaded, begin)
    rows = [{**one, "lines": lit} for one, lit in zip(rows, lines)]
    m, l = rows[-1]["m"], rows[-1]["l"]
    partial, columns = sum(entry.kind == PARTIAL for entry in entries), lists.kv_indices.shape[1]
    listed = {entry.column for entry in entries}
    problem = request.problem
    data = {
        "rule": WORDS.say("rule", {**problem.values(), "causal": problem.causal}),
        **{"query_block": place.tile, "row": row, "rows": place.end - place.first, "width": lists.block_kv},
        **{"columns": columns, "listed": len(entries), "partial": partial, "full": len(entries) - partial},
        "in_order": all(one.column < two.column for one, two in zip(entries, entries[1:])),
        **{"skipped": columns - len(entries), "absent": [c for c in range(columns) if c not in listed]},
        **{"all_loaded": all(loaded), "total": sum(loaded)},
        "sink": short(begin[0]) if np.isfinite(begin[0]) else "",
        "lse": number_text(lse),
        "zeros": "not 0" if o.any() else "0",
        "done": bool(len(scored) and np.isfinite(m) and l > 0),
        "of_sink": bool(np.isfinite(lse) and np.isfinite(begin[0])),
        # the first partial block with a mask for this row, of which the kernel logged only the other scores
        "masked": next(
            (
                one
                for one in rows
                if one["kind"] == "partial"
                and one["keys"] == lists.block_kv
                and one["logged"] == one["seen"]
                and one["seen"] < one["keys"]
            ),
            None,
        ),
    }
    return Walk(place, row, lists, entries, rows, data, scores, loaded, o, lse)


def _rows(
    entries: list[Entry],
    width: int,
    by_tile: dict[str, dict[int, float]],
    sees: np.ndarray,
    scored: np.ndarray,
    loaded: list[int],
    begin: tuple[float, float],
) -> list[Row]:
    """A row for the list, one for each entry, and one for the result.

    width: keys of a block. sees: the keys that the row sees by the mask, bool [keys].
    scored: the columns of the logged scores. A what-if build has other columns than the mask.
    begin: m and l before the first entry.
    """
    (m, l), highest = begin, begin[0]
    none = {"entry": -1, "column": -1, "kind": "", "block": 0}

    def state(before: tuple[float, float]) -> Row:
        texts = {"from_m": number_text(before[0]), "from_l": number_text(before[1])}
        texts |= {"to_m": number_text(m), "to_l": number_text(l)}
        return {"m_before": before[0], "l_before": before[1], "m": m, "l": l, **texts, "same": m == before[0]}

    found = [{**none, "step": "list", "tile": -1, "phase": "walk", "loaded": 0, **state(begin)}]
    for n, (column, kind) in enumerate(entries):
        before = m, l
        logged = {event: values[column] for event, values in by_tile.items() if column in values}
        m, l = logged.get("m", m), logged.get("l", l)
        highest = max(highest, logged.get("tile_max", highest))
        first, end = column * width, min(len(sees), (column + 1) * width)
        here = scored[scored // width == column]
        power = f"e^({number_text(before[0])} - {number_text(m)})".replace("- -", "+ ")
        factor, due = logged.get("rescale"), f"{power} = {number_text(np.exp(before[0] - m))}"  # of l
        found.append(
            {
                **{"step": "entry", "tile": n, "phase": "entry", "block": 0, "entry": n, "column": column},
                **{"kind": KINDS[kind], "keys": end - first, "seen": int(sees[first:end].sum())},
                **{"scored": len(here), "past": int((here >= end).sum()), "logged": int((here < end).sum())},
                "is_max": "tile_max" not in by_tile or bool(np.isclose(m, highest, rtol=SAME)),
                **{"highest": number_text(highest), "tile_max": logged.get("tile_max"), "due": due},
                "factor": "" if factor is None else number_text(factor),
                "factor_is_due": factor is not None and bool(np.isclose(factor, np.exp(before[0] - m), rtol=FACTOR)),
                **{"bytes": loaded[n], "loaded": sum(loaded[: n + 1])},
                **state(before),
            }
        )
    last = {"step": "result", "tile": len(entries), "phase": "walk", "loaded": sum(loaded)}
    return [*found, {**none, **last, **state((m, l))}]


def number_text(value: float, digits: int = 4) -> str:
    """Returns a number for a sentence, also an infinite one."""
    if np.isinf(value):
        return "-inf" if value < 0 else "inf"
    return short(value, digits)


def _lines(lit: list[dict[str, int]], table: pd.DataFrame, columns: list[int]) -> list[dict[str, int]]:
    """Returns the lines of each frame: the steps before the first tile, the steps of each tile, and the output."""
    found: list[dict[str, int]] = [{} for _ in range(len(columns) + 2)]
    for lines, tile, phase in zip(lit, table.tile, table.phase):
        if phase == "write":
            number = -1
        elif tile in columns and phase not in ("load_q", "wait_q", "nothing_left"):
            number = columns.index(tile) + 1
        else:
            number = 0
        for line, times in lines.items():
            found[number][line] = found[number].get(line, 0) + times
    return found


def _loaded(run: Run, steps: cutting.Steps) -> dict[int, int]:
    """Returns column of a block -> bytes of K and V that the probes logged for it.

    A box of the copy engine counts only its elements inside the tensor.
    """
    request, table = run.request, run.trace.table
    sites, known = sites_of(request), axes.tensors(request)
    symbols = {symbol for symbol, at in picture.places(request).items() if at in "KV"}
    wanted = [n for n, s in enumerate(sites) if s.space == "global" and s.tensor in symbols and s.event in READS]
    site_of_record = sites.index(table)
    at = np.flatnonzero(np.isin(site_of_record, wanted) & (steps.of_record >= 0))
    offsets, size = table["offset"].to_numpy()[at], table["bytes"].to_numpy()[at].astype(np.int64)
    for n, (record, offset) in enumerate(zip(site_of_record[at], offsets)):
        if sites[int(record)].event == "tma":
            tensor = known[str(sites[int(record)].tensor)]
            size[n] = len(axes.box(request, tensor, int(offset) // tensor.itemsize)) * tensor.itemsize
    tile, found = steps.table.tile.to_numpy()[steps.of_record[at]], dict[int, int]()
    for column in np.unique(tile):
        found[int(column)] = int(size[tile == column].sum())
    return found


def _written(run: Run, head: int, row: int) -> tuple[np.ndarray, float]:
    """Returns the kernel's output for a row: O [dim] and lse. lse is NaN for a kernel without it."""
    outputs = axes.with_axes(run.request, "batch", "head", "query", role=Role.OUTPUT)
    lse = next(iter(outputs.values()), None)
    value = np.nan if lse is None else run.arrays[lse.name].reshape(-1, lse.shape[-1])[head, row]
    return picture.matrix(run, "O", head)[row], float(value)


def _begin(run: Run, head: int) -> tuple[float, float]:
    """Returns m and l before the first entry: a sink's logit and 1, else -inf and 0."""
    sinks = axes.with_axes(run.request, "head", role=Role.INPUT)
    logits = [run.arrays[tensor.name] for tensor in sinks.values()]
    logit = float(logits[0][head % len(logits[0])]) if logits else -np.inf
    return logit, float(np.isfinite(logit))
