"""The lanes with a row in their registers, and the bytes of the weights."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from explainers.models import tiling
from explainers.models.threads import Threads
from explainers.story import glossary, stage


def holders(story: Threads, row: int) -> list[str]:
    """For each step, the lanes with computed or stored elements of that row, in words, or an empty text."""
    rects = story.rects
    of_row = [name for name, (along, _) in story.planes.items() if along == "row"]
    held = rects[
        rects.plane.isin(of_row) & rects.kind.isin(("computes", "stores")) & (rects.row0 <= row) & (row <= rects.row1)
    ]
    texts = {step: lanes(part.thread) for step, part in held.groupby("step")}
    return [texts.get(step, "") for step in range(len(story.steps))]


def first_held(story: Threads, row: int) -> int:
    """The first step with a part of that row in some lane, or 0."""
    return next((step for step, said in enumerate(holders(story, row)) if said), 0)


def states(tiles: tiling.Tiling, story: Threads, row: int) -> list[stage.State]:
    """The strip: the lanes of the row, and the bytes of P in shared memory."""
    held = [weight_bytes(tiles, frame) for frame in tiles.frames]
    where = "global memory" if "P" in tiles.places.values() else "registers"
    last, lasting = "no lane yet", []
    for text in holders(story, row):
        last = text or last
        lasting.append(last)
    return [
        stage.State(f"row {row} is held by", lasting),
        stage.State("P in shared memory", held if any(held) else [f"none: in {where}"] * len(held), "B", colour="P"),
    ]


def weight_bytes(tiles: tiling.Tiling, frame: Any) -> int:
    """Bytes of the weights P in a block's shared memory after a step."""
    return sum(held["bytes"] for symbol, held in frame["resident"].items() if tiles.places.get(symbol) == "P")


def lanes(threads: Iterable[int]) -> str:
    """Threads of a block in words: lanes 8 to 11 of warp 0."""
    numbers = np.unique(np.asarray(list(threads), int))
    found = {int(warp): numbers[numbers // 32 == warp] % 32 for warp in np.unique(numbers // 32)}
    whole = [warp for warp, inside in found.items() if len(inside) == 32]
    parts = [f"all lanes of {spans('warp', whole)}"] if whole else []
    parts += [f"{spans('lane', inside)} of warp {warp}" for warp, inside in found.items() if warp not in whole]
    return glossary.listed(parts) if len(parts) < 4 else f"{len(numbers)} lanes of {spans('warp', list(found))}"


def spans(noun: str, numbers: Iterable[int]) -> str:
    """Numbers in words: lane 3, lanes 8 to 11, lanes 0 to 3 and 8."""
    given = np.unique(np.asarray(list(numbers), int))
    runs = np.split(given, np.flatnonzero(np.diff(given) != 1) + 1)
    parts = [f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"{noun}{'s' if len(given) > 1 else ''} {glossary.listed(parts)}"
