"""The picture `shuffles`: the few lanes of a row, their registers, and the shuffles that find the row's max and sum."""

from typing import TypedDict

import numpy as np

from explainers.models.tiling import Tiling
from explainers.stories.registers.holders import weight_bytes
from explainers.stories.registers.lanes import Lanes
from explainers.story import picture, stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels.run.results import Run

WORDS = Words.of(str(__package__))
# memory: the same max through shared memory. warp: a row for all its lanes
FIRST = ("row", "held", "own", "shuffle 1", "shuffle 2", "memory", "warp", "weights", "sum")
MODELLED = ("memory", "warp")
MOST_TILES, MOST_SLOTS, LANES = 13, 8, 4


class ShufflesMeta(TypedDict):
    """The fields of the view `lanes` with shuffles.

    row: the chosen one.
    row0, rows, keys: of the query tile.
    tiles: first and last key of each key tile.
    phases, of_tile: of each step.
    shared: the tensors in the block's shared memory.
    words: the sentences under a hand, with {names} of values.
    provenances: the source of each step. None: the page's.

    Columns: thread, s, p, m, l as in LanesMeta.
    """

    frames: list[Frame]
    kernel: str
    row: int
    row0: int
    rows: int
    keys: int
    tiles: list[list[int]]
    phases: list[str]
    of_tile: list[int]
    shared: list[str]
    words: dict[str, str]
    provenances: list[dict[str, str] | None]


def view(run: Run, tiles: Tiling, made: Lanes | None, row: int) -> stage.View | None:
    """The picture, or None unless four lanes of one warp share each row, and no score leaves the registers."""
    if made is None or any(map(weight_bytes, [tiles] * len(tiles.frames), tiles.frames)) or not _fits(tiles, made):
        return None
    steps = _steps(tiles, made, row - made.row0)
    modelled = {"label": "modelled", "said": WORDS.say("modelled", {})}
    meta: ShufflesMeta = {
        "frames": WORDS.frames(steps, {}),
        "kernel": run.request.kernel.name,
        "row": row,
        "row0": made.row0,
        "rows": made.thread.shape[0],
        "keys": made.thread.shape[1],
        "tiles": [list(tile) for tile in made.tiles],
        "phases": [step["phase"] for step in steps],
        "of_tile": [step["tile"] for step in steps],
        "shared": [one for one in picture.in_order(run.request) if any(one in f["resident"] for f in tiles.frames)],
        "words": WORDS.table("hand"),
        "provenances": [modelled if step["phase"] in MODELLED else None for step in steps],
    }
    columns = {"thread": made.thread, "s": tiles.scores, "p": made.p, "m": made.m, "l": made.l}
    return stage.View("shuffles", "lanes", "Lanes of a row", {**meta, "clock": True, "state": []}, columns)


def _fits(tiles: Tiling, made: Lanes) -> bool:
    """Whether four lanes of one warp hold equal parts of each row of each tile, with all values logged."""
    if {"S", "P"} & set(tiles.places.values()) or not np.isfinite([*made.m.flat, *made.l.flat, *made.p.flat]).all():
        return False
    widths = {last - first + 1 for first, last in made.tiles}
    if len(widths) != 1 or (made.thread < 0).any() or not 0 < len(made.tiles) <= MOST_TILES:
        return False
    for first, last in made.tiles:
        part = np.sort(made.thread[:, first : last + 1], axis=1)
        if part.shape[1] % LANES or part.shape[1] > LANES * MOST_SLOTS:
            return False
        lanes = part[:, :: part.shape[1] // LANES]  # each one as often, four neighbours of one warp
        if (np.repeat(lanes, part.shape[1] // LANES, axis=1) != part).any() or (np.diff(lanes) != 1).any():
            return False
        if (lanes[:, 0] % LANES).any():
            return False
    return True


def _steps(tiles: Tiling, made: Lanes, row: int) -> list[Row]:
    """The first tile in detail, the last one, and the reader's hand."""
    found: list[Row] = []
    for tile in sorted({0, len(made.tiles) - 1}):
        first, last = made.tiles[tile]
        scored, weighed = (int(steps[row, first : last + 1].max()) for steps in (made.scored, made.weighed))
        for phase in FIRST if tile == 0 else ("last",):
            lines = tiles.frames[scored if phase in ("row", "held") else weighed].get("lines", {})
            found.append({"phase": phase, "tile": tile, "keys": last - first + 1, "lines": lines})
    return [*found, {**found[0], "phase": "hand"}]
