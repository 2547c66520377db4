"""The number of reads of the query tile: the picture `reuse`, of rows of Q by key tiles.

Each read has a record of a probe, with a lane and an element (threads.reads). A kernel with Q in shared memory
fetches each element once and reads it there many times. Any other kernel reads it from global memory each time.
"""

import numpy as np

from explainers.models import threads
from explainers.models.frames import MatricesMeta
from explainers.stories.tiling.frames import ReuseMeta
from explainers.story import picture
from explainers.story.stage import View
from explainers.story.words import Words
from kernels.run.results import Run

WORDS = Words.of(str(__package__))


def views(run: Run, tile: MatricesMeta) -> list[View]:
    """The picture in a list. An empty list if the trace does not give the reads of Q.

    tile: the meta of the view `matrices`.
    """
    frames, rows, row0 = tile["frames"], tile["rows"], tile["row0"]
    symbol = next(symbol for symbol, place in tile["places"].items() if place == "Q")
    space = "shared" if any(symbol in frame["resident"] for frame in frames) else "global"
    found = threads.reads(run, "Q", space)
    found = found[found.row.between(row0, row0 + rows - 1)]
    if found.empty:
        return []
    steps = sorted(int(step) for step in found.step.unique())
    counts = np.zeros((len(steps), rows, tile["d"]), np.int64)
    np.add.at(counts, (np.searchsorted(steps, found.step), found.row.astype(int) - row0, found.col.astype(int)), 1)
    summed = counts.cumsum(0)
    number = [frames[step]["tile"] for step in steps]
    tiles = sorted({frame["tile"] for frame in frames if frame["tile"] >= 0} | set(number))
    each = np.zeros(len(frames), np.int64)
    each[steps] = counts.sum((1, 2))
    read, itemsize = each.cumsum().tolist(), picture.tensor_at(run.request, "Q").itemsize
    fetched = [frame["bytes"].get(f"{symbol} load", 0) for frame in frames]
    columns = {"least": counts.min(2), "most": counts.max(2)}
    columns |= {"so_far_least": summed.min(2), "so_far_most": summed.max(2)}

    def said(step: int) -> str:
        now = max(0, int(np.searchsorted(steps, step, "right")) - 1)
        low, high = int(summed[now].min()), int(summed[now].max())
        names = {"space": space, "read": read[step], "fetched": fetched[step], "low": low, "high": high}
        names["blocks"] = len({frame["block"] for frame in frames[: step + 1] if symbol in frame["resident"]})
        return WORDS.say("reuse", names | {"asked": read[step] * itemsize})

    meta: ReuseMeta = {
        "space": space,
        "row0": row0,
        "rows": rows,
        "tiles": tiles,
        "steps": steps,
        "tile_of": [tiles.index(n) for n in number],
        "read": read,
        "itemsize": itemsize,
        "fetched": fetched,
        "said": [said(step) for step in range(len(frames))],
    }
    return [View("reuse", "reuse", "Reuse of Q", meta, columns)]
