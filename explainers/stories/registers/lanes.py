"""The lanes of a score tile: the picture `lanes`, with the lane of each score and the registers of one row."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.models.threads import Threads
from explainers.models.tiling import Tiling
from explainers.story import stage
from kernels.run.results import Run
from kernels.trace import steps as cutting


class LanesMeta(TypedDict):
    """The fields of the view `lanes`.

    row0, rows, keys: of the query tile.

    Columns, [rows, keys]: thread of each score, or -1. scored, weighed: the step with the score and the weight, or -1.
        s, p: both as logged. [tiles, rows]: m, l after each tile.
    """

    row: int  # the chosen row
    row0: int
    rows: int
    keys: int
    tiles: list[list[int]]  # first and last key of each key tile
    shown: list[int]  # the place in `tiles` of each frame
    summed: list[int]  # for each tile, the step with the row's max and sum


@dataclass(frozen=True)
class Lanes:
    """The threads of the scores of a query tile.

    scored, weighed: [rows, keys], the step with the score and with the weight, or -1.
    m, l: [tiles, rows], after each tile, NaN if they are not logged.
    """

    row0: int  # its first row
    thread: np.ndarray  # [rows, keys], the thread of each score, or -1
    scored: np.ndarray
    weighed: np.ndarray
    p: np.ndarray  # [rows, keys], the weights as logged
    tiles: list[tuple[int, int]]  # first and last key of each key tile, in order
    m: np.ndarray
    l: np.ndarray

    def of_row(self, row: int) -> list[int]:
        """The threads with scores of a row, in order."""
        found = self.thread[row - self.row0]
        return sorted({int(n) for n in found[found >= 0]})


def explain(run: Run, tiles: Tiling, story: Threads) -> Lanes | None:
    """The Lanes of a run's query tile, or None if the trace names no thread of a score."""
    row0, end = tiles.rows
    shape = (end - row0, tiles.scores.shape[1])
    thread, scored, weighed = (np.full(shape, -1) for _ in range(3))
    for part in story.rects[(story.rects.kind == "computes") & story.rects.plane.isin(["S", "P"])].itertuples():
        cells = np.s_[part.row0 - row0 : part.row1 - row0 + 1, part.col0 : part.col1 + 1]
        first = scored if part.plane == "S" else weighed
        first[cells] = np.where(first[cells] < 0, part.step, first[cells])
        thread[cells] = np.where(thread[cells] < 0, part.thread, thread[cells])
    if not (thread >= 0).any():
        return None
    found = list(dict.fromkeys((f["scores"][2], f["scores"][3]) for f in tiles.frames if f["scores"]))
    values = _values(run, row0, end)
    p = np.full(shape, np.nan, np.float32)
    weights = values[values.event == "p"]
    if len(weights):
        p[weights.row.astype(int) - row0, weights.col.astype(int)] = weights.value
    m, l = (_after_tiles(values, name, len(found), row0, shape[0]) for name in ("m", "l"))
    return Lanes(row0, thread, scored, weighed, p, found, m, l)


def _values(run: Run, row0: int, end: int) -> pd.DataFrame:
    """event, row, col, tile, value of the logged values of the query tile."""
    table = run.trace.table
    names = [name for name in ("event", "row", "col", "tile", "value") if name in table.column_names]
    frame = table.select(names).to_pandas()
    frame = frame.assign(
        **{name: np.nan for name in ("col", "tile") if name not in names}, event=frame.event.astype(str)
    )
    steps = cutting.cut(run.trace, run.sites)
    of_step = np.where(steps.of_record >= 0, steps.table.tile.to_numpy()[steps.of_record], -1)
    frame["tile"] = frame.tile.fillna(pd.Series(of_step, frame.index)).astype(int)
    return frame[frame.value.notna() & frame.row.between(row0, end - 1)]


def _after_tiles(values: pd.DataFrame, name: str, tiles: int, row0: int, rows: int) -> np.ndarray:
    found = np.full((tiles, rows), np.nan, np.float32)
    logged = values[(values.event == name) & values.tile.between(0, tiles - 1)]
    found[logged.tile.astype(int), logged.row.astype(int) - row0] = logged.value
    return found


def views(tiles: Tiling, made: Lanes | None, row: int) -> list[stage.View]:
    """The picture `lanes` in a list. An empty list without threads of scores.

    row: the chosen row.
    """
    if made is None:
        return []
    shown, of_frame = 0, []
    starts = {first: n for n, (first, _) in enumerate(made.tiles)}
    for frame in tiles.frames:
        if frame["scores"]:
            shown = starts.get(frame["scores"][2], shown)
        elif 0 <= frame["tile"] < len(made.tiles):
            shown = frame["tile"]
        of_frame.append(shown)
    meta: LanesMeta = {
        "row": row,
        "row0": made.row0,
        "rows": made.thread.shape[0],
        "keys": made.thread.shape[1],
        "tiles": [list(tile) for tile in made.tiles],
        "shown": of_frame,
        "summed": [_summed(tiles, made, n) for n in range(len(made.tiles))],
    }
    columns = {
        "thread": made.thread,
        "scored": made.scored,
        "weighed": made.weighed,
        "s": tiles.scores,
        "p": made.p,
        "m": made.m,
        "l": made.l,
    }
    return [stage.View("lanes", "lanes", "Lanes of a row", meta, columns)]


def _summed(tiles: Tiling, made: Lanes, tile: int) -> int:
    """The step with the weights of a tile, and with its max and sum; or the number of steps."""
    first, last = made.tiles[tile]
    steps = made.weighed[:, first : last + 1]
    return int(steps[steps >= 0].min()) if (steps >= 0).any() else len(tiles.frames)
