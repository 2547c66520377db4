"""The walk of one query block through its list of blocks, for one row, from the trace."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.sparsity.block_mask import Entry, Place, entries_of, has_lists, lists_of_head, place_of
from explainers.stories.sparsity.frames import SparsityFrame
from explainers.stories.sparsity.mask_frames import RowState, WalkFrames
from explainers.story import axes, picture
from kernels.core.masks import BlockLists
from kernels.core.request import Request
from kernels.core.tensors import Role, Tensor
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.probes import sites_of


@dataclass(frozen=True, eq=False)
class Walk:
    """The walk of one row through the list of its query block.

    place: the query block.
    row: the row, counted in its head.
    lists: the lists of the head.
    entries: in the order of the walk.
    frames: for the browser.
    scores: float32 [keys], logged for the row, else NaN.
    loaded: logged bytes of K and V for each entry.
    o, lse: the kernel's output for the row.
    """

    place: Place
    row: int
    lists: BlockLists
    entries: list[Entry]
    frames: list[SparsityFrame]
    scores: np.ndarray
    loaded: list[int]
    o: np.ndarray
    lse: float


def explain(run: Run, row: int) -> Walk:
    """Returns the Walk of the traced query block by one of its rows, counted in its head."""
    request, trace, sites = run.request, run.trace, run.sites
    block = place_of(request)
    lists = lists_of_head(run, block.head)
    entries = entries_of(lists, block.tile, not has_lists(request))
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
    sees = masks[block.head if len(masks) > 1 else 0].strip(row, row + 1)[0]
    lit = _lines(cutting.lit_lines(trace, steps, sites), steps.table, [e.column for e in entries])
    loaded = _loaded(run, steps)
    o, lse = _written(run, block.head, row)
    first_state = _begin(run, block.head)
    frames = WalkFrames(run, block, row, lists, entries, by_tile, sees, scored, lit, loaded, o, lse, first_state)
    return Walk(block, row, lists, entries, frames.frames(), scores, [loaded.get(e.column, 0) for e in entries], o, lse)


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


def _output(request: Request) -> Tensor | None:
    return next(iter(axes.with_axes(request, "batch", "head", "query", role=Role.OUTPUT).values()), None)


def _written(run: Run, head: int, row: int) -> tuple[np.ndarray, float]:
    """Returns the kernel's output for a row: O [dim] and lse. lse is NaN for a kernel without it."""
    lse = _output(run.request)
    value = np.nan if lse is None else run.arrays[lse.name].reshape(-1, lse.shape[-1])[head, row]
    return picture.matrix(run, "O", head)[row], float(value)


def _begin(run: Run, head: int) -> RowState:
    """Returns m and l before the first entry: a sink's logit and 1, else -inf and 0."""
    sinks = axes.with_axes(run.request, "head", role=Role.INPUT)
    logits = [run.arrays[tensor.name] for tensor in sinks.values()]
    logit = float(logits[0][head % len(logits[0])]) if logits else -np.inf
    return RowState(logit, float(np.isfinite(logit)))
