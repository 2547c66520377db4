"""The tiles of one writer as frames."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.pipeline import overlaps
from explainers.stories.pipeline.frames import PipelineFrame
from explainers.stories.pipeline.tile_words import TileWords, title
from explainers.story.glossary import figure
from kernels.measure.pipelines import Pipeline

COPIES = ("prefetch_tile", "load_tile", "prefetch")  # marks of a writer at the copy of a tile


@dataclass(frozen=True)
class BlockStory:
    """A block with its marks as bars.

    bars: see pipeline_bars.bars.
    flight: see pipeline_bars.in_flight.
    writers: of the block, in the order of their rows.
    leader: the writer of the steps' tiles.
    frames: one for each tile of the leader.
    words: of its tiles.
    """

    made: Pipeline
    block: int
    bars: pd.DataFrame
    flight: pd.DataFrame
    writers: list[int]
    leader: int
    frames: list[PipelineFrame]
    words: TileWords

    @property
    def name(self) -> str:
        return self.made.request.kernel.name


def frames_of(made: Pipeline, bars: pd.DataFrame, leader: int, words: TileWords) -> list[PipelineFrame]:
    own = bars[bars.writer == leader]
    tiles, begins = _tiles(own), _begins(own)
    marked = bool((own.event == "tile_begin").any())
    outer = _outer(made, own.event, tiles)
    several = outer.max() > 1
    copies, other = _copies(bars, own, leader), overlaps.partner(bars, leader)
    partner = None if other is None else bars[bars.writer == other]
    frames: list[PipelineFrame] = []
    for at, part in own.groupby(begins.cumsum(), sort=True):
        start, end = float(part.start_ns.iloc[0]), float(part.end_ns.iloc[-1])
        meanwhile, number = bars[(bars.start_ns < end) & (bars.end_ns > start)], int(outer[part.index[0]])
        early = marked and not part.event.isin(["tile_begin", "write"]).any()
        title = _title(part, -1 if early else int(tiles[part.index[0]]), number if several else 0, words)
        copied = copies.get(part.index[0], [])
        frames.append(
            {
                "tile": number if several else int(at),
                "title": title,
                "sentence": _said(made, part, partner, leader, title, copied[3] - copied[1] if copied else None, words),
                "lines": {str(place): int(n) for place, n in meanwhile.place.value_counts().items()},
                "span": [start, end],
                "copied": copied,
            }
        )
    return frames


def _outer(made: Pipeline, event: pd.Series, tiles: pd.Series) -> pd.Series:
    """The number of the query tile or head of each bar of a writer, from 1. 0 for none.

    Rule: a key tile at or below the last one starts another query tile. But each head meets a query tile once, in any
    order. The sums of keys are of all heads.
    """
    begun = tiles.where(event == "tile_begin")
    if made.walked == "key":
        return (begun <= begun.ffill().shift().fillna(np.inf)).cumsum()
    met = begun.groupby(begun).cumcount() + 1
    return met.reindex(begun.index).ffill().fillna(0).where(event != "write", 0).astype(int)


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


def _title(part: pd.DataFrame, tile: int, query: int, words: TileWords) -> str:
    """The title of a step.

    query: the number of its query tile or head in the block, 0 for a single one.
    """
    of = f"{words.outer} {query}, " if query else ""
    first = str(part.event.iloc[0])
    if first == "write" or (tile < 0 and len(part) == 1 and first != part.role.iloc[0]):
        return of + (_lower(title(first, words)) if of else title(first, words))
    return _upper(f"{of}{words.tile} {tile}") if tile >= 0 else "Before the first tile"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _copies(bars: pd.DataFrame, own: pd.DataFrame, leader: int) -> dict[Hashable, list[float]]:
    """First bar of a tile's step -> the writer and time of the tile's copy, the leader and the start of its scores.
    The n-th copy is of the n-th tile. The producer copies, or the leader if there is no producer.

    A copy has begun by the end of its bar: a producer's bar starts with a wait for free shared memory, and the
    threads of another writer start their parts one after another.
    """
    copies, scores = bars[bars.event.isin(COPIES)], own[own.event == "scores"].start_ns
    produced = copies[copies.role == "producer"]
    who = leader if produced.empty else int(produced.writer.min())
    began = copies[copies.writer == who].end_ns
    tiles = own.index[own.event == "tile_begin"]
    return {
        tile: [float(who), float(began), float(leader), float(then)]
        for tile, began, then in zip(tiles, began, scores)
        if began < then
    }


def _said(
    made: Pipeline,
    part: pd.DataFrame,
    partner: pd.DataFrame | None,
    leader: int,
    named: str,
    ahead: float | None,
    words: TileWords,
) -> str:
    """The time of the step, its longest phase, the copy of its rows (ahead: ns from the copy to the scores), and the
    work of the partner during the softmax.

    partner: the bars of the next writer with a softmax.
    named: the title of the step.
    """
    start, end = float(part.start_ns.iloc[0]), float(part.end_ns.iloc[-1])
    phases = part[part.event != part.role]  # the start of its role is no phase
    said = [f"{named}: {made.noun} {leader} takes {figure(end - start, 3)} ns."]
    spent = (phases.end_ns - phases.start_ns).groupby(phases.event, sort=False).sum()
    softmax = overlaps.softmax_of(part, leader)
    shares = made.noun == "warpgroup" and partner is not None and len(softmax) > 0
    if len(spent) > 1 and not shares:
        longest = _lower(title(str(spent.idxmax()), words))
        said.append(f"The longest phase is {longest}, with {figure(float(spent.max()), 3)} ns.")
    if ahead is not None:
        said.append(f"The copy of its {words.rows} had started {figure(ahead, 3)} ns before its scores.")
    if shares and partner is not None:
        ns, other = overlaps.shared(partner, softmax)[overlaps.PRODUCTS], int(partner.writer.iloc[0])
        whole = float((softmax.end_ns - softmax.start_ns).sum())
        said.append(
            f"During its {words.between}, {made.noun} {other} multiplies for {figure(ns, 3)} of {figure(whole, 3)} ns."
        )
    return " ".join(said)
