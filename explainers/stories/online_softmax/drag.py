"""The picture `drag`: a row's scores under the reader's hand.

Its steps show the three passes of an ordinary softmax, then read the row tile by tile with the numbers of the run. In
the last steps the reader lifts a bar, lets the scores overflow, and hides later keys. From a drag or a switch on, the
numbers follow from the rule of app/stage/views/drag_rule.js, and the picture says that they are modelled.
"""

from typing import TypedDict

import numpy as np

from explainers.models.softmax_rows import is_optimistic, is_ordinary
from explainers.stories.online_softmax.row_story import RowStory
from explainers.story import axes, picture, stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels.core.request import Request
from kernels.run.results import Run

WORDS = Words.of(str(__package__))
MOST_KEYS, MOST_DIMS = 64, 128  # more bars are too narrow for a hand
ENDS = ("divided", "hand", "overflow", "causal")  # the steps after the last tile


class Causal(TypedDict):
    """What a causal mask leaves of a row.

    seen: its keys that the row sees.
    ends: for each query tile, the end of the keys that its block reads.
    own: the query tile of the row.
    """

    seen: int
    ends: list[int]
    own: int


class DragMeta(TypedDict):
    """The fields of the view `drag`.

    row: its number.
    block_kv: keys of a tile.
    m, factor, l: after each tile.
    words: the sentences under a hand. {name} stands for a value.
    provenances: the source of each step. None: the page's.

    Columns: scores [keys], v [keys, dims], and after each tile weights [tiles, keys], as they count then, and o [tiles,
        dims].
    """

    frames: list[Frame]
    kernel: str
    row: int
    block_kv: int
    causal: Causal
    m: list[float]
    factor: list[float]
    l: list[float]
    words: dict[str, str]
    provenances: list[dict[str, str] | None]


def view(run: Run, story: RowStory, row: int, head: int) -> stage.View | None:
    """The picture of a row with a running max, or None for a row that it cannot show."""
    kernel, keys, tiles = run.request.kernel, story.keys, story.tiles
    width = picture.block_kv(run.request, len(keys))
    whole = len(keys) == width * len(tiles) and len(tiles) > 1 and np.isfinite(keys.score).all()
    if is_ordinary(kernel) or is_optimistic(kernel) or run.request.broken or tiles.rescale.isna().any() or not whole:
        return None
    o_of_tile = {frame["tile"]: frame["o"] for frame in story.frames if frame["group"] == "output"}
    v = picture.matrix(run, "V", head)
    if len(keys) > MOST_KEYS or v.shape[1] > MOST_DIMS or set(o_of_tile) != set(tiles.tile):
        return None
    factor = tiles.rescale.to_numpy()
    weights = np.zeros((len(tiles), len(keys)), np.float32)
    for tile in range(len(tiles)):
        begin = tile * width
        weights[tile, :begin] = weights[tile - 1, :begin] * factor[tile] if tile else 0
        weights[tile, begin : begin + width] = keys.p[begin : begin + width]
    steps = _steps(story, v.shape[1])
    counted = {"label": "modelled", "said": WORDS.say("counted", {"kept": v.shape[1] + 2})}
    meta: DragMeta = {
        "frames": WORDS.frames(steps, {}),
        "kernel": kernel.name,
        "row": row,
        "block_kv": width,
        "causal": causal_of(run.request, row),
        "m": tiles.m.tolist(),
        "factor": factor.tolist(),
        "l": tiles.l.tolist(),
        "words": WORDS.table("hand"),
        "provenances": [counted if step["phase"] == "divided" else None for step in steps],
    }
    columns = {
        "scores": keys.score.to_numpy(np.float32),
        "v": v[: len(keys)],
        "weights": weights,
        "o": story.o_values[[o_of_tile[tile] for tile in tiles.tile]],
    }
    return stage.View("drag", "drag", "Drag the max", {**meta, "clock": True, "state": []}, columns)


def questions_of(request: Request, story: RowStory, row: int) -> list[stage.Question]:
    """The questions about the steps of the picture."""
    steps = _steps(story, story.o_values.shape[1])
    rises = [{"step": n, **row} for n, row in enumerate(steps) if row.get("m", 0) > row.get("before", 0)]
    at = {step["phase"]: n for n, step in enumerate(steps)}
    made, width = causal_of(request, row), picture.block_kv(request, len(story.keys))
    computed = sum(-(-end // width) for end in made["ends"])
    tiles = {"computed": computed, "all": len(made["ends"]) * len(story.tiles)}
    return WORDS.questions({"rises": rises, "at": at, "tiles": tiles}, len(steps) - 1)


def causal_of(request: Request, row: int) -> Causal:
    keys, offset = axes.length(picture.tensor_at(request, "K"), "key"), picture.mask_offset(request)
    rows, tiles, n = picture.tiles_of(request)
    until = [
        min(max(0, end + offset), keys) for end in [row + 1, *(min((tile + 1) * rows, n) for tile in range(tiles))]
    ]
    return {"seen": until[0], "ends": until[1:], "own": row // rows}


def _steps(story: RowStory, dims: int) -> list[Row]:
    """The row before its first tile, after each tile, and the steps of ENDS."""
    lines: dict[int, dict[str, int]] = {}
    for frame in story.frames:
        lines[frame["tile"]] = lines.get(frame["tile"], {}) | frame.get("lines", {})
    tiles = story.tiles.assign(before=story.tiles.m.shift(1)).to_dict("records")
    steps: list[Row] = [{"phase": "row", "tile": -1}]
    steps += [{"phase": "tile", "read": n, **tile, "lines": lines[tile["tile"]]} for n, tile in enumerate(tiles, 1)]
    steps += [{"phase": phase, "tile": -1, "lines": lines.get(-1, {})} for phase in ENDS]
    return [{"keys": len(story.keys), "dims": dims, **step} for step in steps]
