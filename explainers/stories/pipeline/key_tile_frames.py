"""The key tiles of one writer as frames."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.pipeline.frames import PipelineFrame
from explainers.story.glossary import figure, phase_title
from kernels.measure import pipelines
from kernels.measure.pipelines import Pipeline

LONGEST = 3  # phases in a sentence
COPIES = ("prefetch_tile", "load_tile", "prefetch")  # marks of a writer at the copy of a key tile


@dataclass(frozen=True)
class BlockStory:
    """A block with its marks as bars.

    bars: see pipelines.bars.
    flight: see pipelines.in_flight.
    writers: of the block, in the order of their rows.
    leader: the writer of the steps' key tiles.
    frames: one for each key tile of the leader.
    """

    made: Pipeline
    block: int
    bars: pd.DataFrame
    flight: pd.DataFrame
    writers: list[int]
    leader: int
    frames: list[PipelineFrame]

    @property
    def name(self) -> str:
        return self.made.request.kernel.name


def frames_of(made: Pipeline, bars: pd.DataFrame, flight: pd.DataFrame, leader: int) -> list[PipelineFrame]:
    own = bars[bars.writer == leader]
    tiles, begins = _tiles(own), _begins(own)
    begun = tiles.where(own.event == "tile_begin")
    # A tile number at or below the last one starts another query tile.
    queries = (begun <= begun.ffill().shift().fillna(np.inf)).cumsum()
    copies = _copies(bars, own, leader)
    frames: list[PipelineFrame] = []
    for at, part in own.groupby(begins.cumsum(), sort=True):
        start, end = float(part.start_ns.iloc[0]), float(part.end_ns.iloc[-1])
        meanwhile, number = bars[(bars.start_ns < end) & (bars.end_ns > start)], int(queries[part.index[0]])
        title = _title(part, int(tiles[part.index[0]]), number if queries.iloc[-1] > 1 else 0)
        copied = copies.get(part.index[0], [])
        frames.append(
            {
                "tile": number if queries.iloc[-1] > 1 else int(at),
                "title": title,
                "sentence": _said(made, part, flight, leader, title, copied[3] - copied[1] if copied else None),
                "lines": {str(place): int(n) for place, n in meanwhile.place.value_counts().items()},
                "span": [start, end],
                "copied": copied,
            }
        )
    return frames


def _tiles(own: pd.DataFrame) -> pd.Series:
    """The key tile of each bar of a writer, or -1."""
    return own.tile.fillna(-1).astype(int) if "tile" in own else pd.Series(-1, index=own.index)


def _begins(own: pd.DataFrame) -> pd.Series:
    """The first bar of each step of the leader: every key tile, and the rest after the last one. Every bar without
    tiles, as in a walk of pages."""
    tile = _tiles(own)
    if (own.event == "tile_begin").any():
        return own.event.isin(["tile_begin", "write"])
    return tile != tile.shift(fill_value=-2) if (tile >= 0).any() else tile == -1


def _title(part: pd.DataFrame, tile: int, query: int) -> str:
    """The title of a step.

    query: the number of its query tile in the block, 0 for a single one.
    """
    of = f"Query tile {query}: " if query else ""
    first = str(part.event.iloc[0])
    if first == "write" or (tile < 0 and len(part) == 1):
        return of + (phase_title(first)[0].lower() + phase_title(first)[1:] if of else phase_title(first))
    return f"{of}key tile {tile}".capitalize() if tile >= 0 else "Before the first tile"


def _copies(bars: pd.DataFrame, own: pd.DataFrame, leader: int) -> dict[Hashable, list[float]]:
    """First bar of a key tile's step -> the writer and time of the tile's copy, the leader and the start of its scores.
    The n-th copy is of the n-th tile. The producer copies, or the leader if there is no producer."""
    copies = bars[bars.event.isin(COPIES)]
    who = int(copies.writer.min()) if (copies.role == "producer").any() else leader
    turned, scores = copies[copies.writer == who].start_ns, own[own.event == "scores"].start_ns
    tiles = own.index[own.event == "tile_begin"]
    return {
        tile: [float(who), float(began), float(leader), float(then)]
        for tile, began, then in zip(tiles, turned, scores)
        if began < then
    }


def _said(
    made: Pipeline, part: pd.DataFrame, flight: pd.DataFrame, leader: int, title: str, ahead: float | None
) -> str:
    """The phases of the leader, the time from the copy of its keys to its scores (ahead, ns), and the share of copies
    in flight."""
    start, end = float(part.start_ns.iloc[0]), float(part.end_ns.iloc[-1])
    part = part[part.event != part.role] if len(part) > 1 else part  # the start of its role is no phase
    spent = (part.end_ns - part.start_ns).groupby(part.event, sort=False).sum().sort_values(ascending=False)
    most = ", ".join(f"{named(str(event))} ({figure(ns, 3)} ns)" for event, ns in spent[spent > 0][:LONGEST].items())
    said = f"{title}: {figure(end - start, 3)} ns of {made.noun} {leader}"
    said += f", most of it {most}." if len(part) > 1 else "."
    if ahead is not None:
        said += f" Its copy began {figure(ahead, 3)} ns before its scores."
    if flight.empty:
        return said
    return f"{said} Products are in flight for {pipelines.covered(flight, start, end):.0%} of it."


def named(event: str) -> str:
    """The page's name of a phase. The work at a tile's two ends has no name in the kernel."""
    return {"tile_begin": "Begin of tile", "tile_end": "End of tile"}.get(event) or phase_title(event)
