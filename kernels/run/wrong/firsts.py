"""The first wrong intermediate of a run's probes, in the order S, m, l, P, O."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernels.core.request import Request
from kernels.run.wrong.answers import TILES
from kernels.run.wrong.found import Found, exponentials
from kernels.run.wrong.reason import First
from kernels.trace.trace import Trace

EVENTS = {"score": "S", "m": "m", "l": "l", "p": "P", "o": "O"}
"""An event of a probe -> its part in attention."""
_KEYS, _TILES = ("col", "token", "key"), ("tile",)
_CLOSE = 2e-3


def first(request: Request, trace: Trace, found: list[Found]) -> First | None:
    """The first wrong value of EVENTS, or None if the probes have none."""
    frame = trace.frame()
    frame = frame[frame.event.isin(EVENTS) & frame.value.notna()]
    if frame.empty or not found:
        return None
    frame = frame.assign(head=_heads(request, frame, len(found)))
    for event, name in EVENTS.items():
        wrong = [
            first
            for head, rows in frame[frame.event == event].groupby("head")
            for first in _of_head(found[int(head)], name, rows)
        ]
        if wrong:
            return min(wrong, key=lambda one: (one.head, one.row, one.tile or 0, one.key or 0))
    return None


def _heads(request: Request, frame: pd.DataFrame, count: int) -> np.ndarray:
    """The number of the head of each record: its key `head`, or by its block."""
    if "head" in frame and frame["head"].notna().all():
        return np.clip(frame["head"].to_numpy(int), 0, count - 1)
    head = np.zeros(len(frame), int)
    for number, launch in enumerate(request.plan.launches):
        own = (frame.launch == number).to_numpy()
        items = frame.block.to_numpy()[own] // launch.blocks_per_item
        head[own] = np.minimum(items * count // max(1, launch.items), count - 1)
    return head


def _of_head(one: Found, name: str, rows: pd.DataFrame) -> Iterator[First]:
    row = _key(rows, ("row",))
    if row is not None and len(one.truth) > 1:  # threads behind the last row may log too
        rows, row = rows[row < len(one.truth)], row[row < len(one.truth)]
    row = np.zeros(len(rows), int) if row is None else np.clip(row, 0, len(one.truth) - 1)
    key, tile = _key(rows, _KEYS), _key(rows, _TILES)
    values = rows.value.to_numpy(float)
    best: tuple[np.ndarray, np.ndarray] | None = None
    for truth in _truths(one, name, rows, row, key, tile):
        with np.errstate(invalid="ignore"):
            wrong = ~((values == truth) | (np.abs(values - truth) <= _CLOSE * (np.abs(truth) + 0.05)))
        if best is None or wrong.sum() < best[0].sum():
            best = wrong, truth
    if best is None or not best[0].any():
        return
    wrong, truth = best
    order = np.lexsort([a for a in (key, tile, row) if a is not None])
    at = order[wrong[order]][0]
    record = rows.iloc[at]
    yield First(
        name, str(record.event), str(record.file), int(record.line), one.head.at, int(row[at]),
        None if tile is None else int(tile[at]), None if key is None else int(key[at]),
        int(record.warp), int(record.lane), float(values[at]), float(truth[at]),
    )  # fmt: skip


def _key(rows: pd.DataFrame, names: tuple[str, ...]) -> np.ndarray | None:
    """The first of these keys that the records have."""
    for name in names:
        if name in rows and rows[name].notna().all():
            return rows[name].to_numpy(int)
    return None


def _truths(
    one: Found, name: str, rows: pd.DataFrame, row: np.ndarray, key: np.ndarray | None, tile: np.ndarray | None
) -> Iterator[np.ndarray]:
    """What the records may be: for each size of a tile, and P and O with and without a division by l."""
    head = one.head
    hidden = head.hidden
    if name != "S" and "walk" in rows and rows.walk.notna().any():
        return
    if "partition" in rows and rows.partition.notna().any() or key is not None and key.max() >= hidden.shape[1]:
        return
    if tile is None and key is None and name in "ml":
        tile = np.zeros(len(rows), int)
    if name == "S" and key is not None:
        yield hidden[row, key]
        yield head.scores[row, key]  # before the mask
    if name == "P" and key is not None:
        whole = exponentials(head.scores, head.seen)
        yield (whole / whole.sum(axis=1, keepdims=True))[row, key]
    dim = _key(rows, ("dim",))
    if name == "O" and dim is not None and tile is None:
        yield one.truth[row, dim]
        yield (exponentials(head.scores, head.seen) @ head.values)[row, dim]
    keys = hidden.shape[1]
    sizes = [size for size in TILES if size < 2 * keys]
    if tile is not None:  # as many tiles as the records have
        sizes = [size for size in (*TILES, keys) if -(-keys // size) == tile.max(initial=0) + 1]
    for size in sizes:
        yield from _tiled(one, name, hidden, size, row, key, tile, dim)


def _tiled(
    one: Found,
    name: str,
    hidden: np.ndarray,
    size: int,
    row: np.ndarray,
    key: np.ndarray | None,
    tile: np.ndarray | None,
    dim: np.ndarray | None,
) -> Iterator[np.ndarray]:
    """The running values after a tile of this size."""
    at = tile if tile is not None else None if key is None else key // size
    if at is None:
        return
    ends = np.minimum((np.arange(-(-hidden.shape[1] // size)) + 1) * size, hidden.shape[1])
    tops = np.maximum.accumulate(hidden, axis=1)[:, ends - 1]
    if name == "m":
        yield tops[row, at]
    if name == "P" and key is not None:
        with np.errstate(invalid="ignore"):
            yield np.exp(hidden[row, key] - tops[row, at])
    if name in ("l", "O") and (name == "l" or dim is not None):
        first = [(end, exponentials(hidden[:, :end], np.isfinite(hidden[:, :end]))) for end in ends]
        if name == "l":
            yield np.stack([weights.sum(axis=1) for _, weights in first])[at, row]
        else:  # the undivided O
            yield np.stack([weights @ one.head.values[:end] for end, weights in first])[at, row, dim]
