"""The number of reads of the query tile: the picture `reuse`, of rows of Q by key tiles.

Each read has a record of a probe, with a lane and an element (threads.reads). A kernel with Q in shared memory
fetches each element once and reads it there many times. Any other kernel reads it from global memory each time.
"""

from dataclasses import dataclass

import numpy as np

from explainers.models import threads
from explainers.models.frames import MatricesMeta
from explainers.stories.tiling.frames import ReuseMeta
from explainers.story import picture, stage
from explainers.story.glossary import count
from kernels.run.results import Run


@dataclass(frozen=True)
class Reuse:
    """The reads of a query tile.

    space: the memory of the reads, shared or global.
    row0: the tile's first row.
    tiles: numbers of the key tiles.
    steps: the steps with reads.
    tile_of: the place in `tiles` of each of these steps.
    least, most: [steps, rows], the reads of the row's least and most read element in the step.
    so_far: the pair of these numbers for all steps up to this one.
    read: elements read, after each of all steps.
    itemsize: bytes of an element.
    fetched: bytes loaded from global memory, after each of all steps.
    """

    space: str
    row0: int
    tiles: list[int]
    steps: list[int]
    tile_of: list[int]
    least: np.ndarray
    most: np.ndarray
    so_far: tuple[np.ndarray, np.ndarray]
    read: np.ndarray
    itemsize: int
    fetched: np.ndarray


def explain(run: Run, tile: MatricesMeta) -> Reuse | None:
    """The Reuse of a run's query tile. None if the trace does not give the reads of Q.

    tile: the meta of the view `matrices`.
    """
    frames, rows, row0 = tile["frames"], tile["rows"], tile["row0"]
    symbol = next(symbol for symbol, place in tile["places"].items() if place == "Q")
    space = "shared" if any(symbol in frame["resident"] for frame in frames) else "global"
    found = threads.reads(run, "Q", space)
    found = found[found.row.between(row0, row0 + rows - 1)]
    if found.empty:
        return None
    steps = sorted(int(step) for step in found.step.unique())
    counts = np.zeros((len(steps), rows, tile["d"]), np.int64)
    np.add.at(counts, (np.searchsorted(steps, found.step), found.row.astype(int) - row0, found.col.astype(int)), 1)
    summed = counts.cumsum(0)
    number = [frames[step]["tile"] for step in steps]
    tiles = sorted({frame["tile"] for frame in frames if frame["tile"] >= 0} | set(number))
    each = np.zeros(len(frames), np.int64)
    each[steps] = counts.sum((1, 2))
    fetched = [frame["bytes"].get(f"{symbol} load", 0) for frame in frames]
    return Reuse(
        space,
        row0,
        tiles,
        steps,
        [tiles.index(n) for n in number],
        counts.min(2),
        counts.max(2),
        (summed.min(2), summed.max(2)),
        each.cumsum(),
        picture.tensor_at(run.request, "Q").itemsize,
        np.array(fetched),
    )


def views(run: Run, tile: MatricesMeta) -> list[stage.View]:
    """The picture in a list. An empty list if the trace does not give the reads of Q.

    tile: see explain.
    """
    made = explain(run, tile)
    if made is None:
        return []
    meta: ReuseMeta = {
        "space": made.space,
        "row0": made.row0,
        "rows": made.least.shape[1],
        "tiles": made.tiles,
        "steps": made.steps,
        "tile_of": made.tile_of,
        "read": made.read.tolist(),
        "itemsize": made.itemsize,
        "fetched": made.fetched.tolist(),
        "said": [sentence(made, step) for step in range(len(made.read))],
    }
    columns = {"least": made.least, "most": made.most, "so_far_least": made.so_far[0], "so_far_most": made.so_far[1]}
    return [stage.View("reuse", "reuse", "Reuse of Q", meta, columns)]


def sentence(made: Reuse, step: int) -> str:
    """The sum of the reads up to a step, in a sentence."""
    fetched, asked = int(made.fetched[step]), int(made.read[step]) * made.itemsize
    if not made.read[step]:
        return f"No lane has read Q yet. The block has fetched {fetched:,} bytes from global memory."
    now = int(np.searchsorted(made.steps, step, "right")) - 1
    low, high = int(made.so_far[0][now].min()), int(made.so_far[1][now].max())
    times = count(high, "time") if low == high else f"{low:,} to {high:,} times"
    if made.space == "global":
        return f"The lanes read each element of Q {times}, always from global memory: {fetched:,} bytes."
    return (
        f"The lanes read each element of Q {times} from shared memory. The block fetched only {fetched:,} bytes from "
        f"global memory. It would fetch {asked:,} without the copy."
    )
