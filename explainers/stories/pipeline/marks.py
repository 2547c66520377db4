"""The marks of one block as bars, as the steps of its first computing writer, and as the overlap of two writers."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.story import axes, picture
from explainers.story.glossary import listed, phase_title
from explainers.story.words import Row, Words
from kernels.core.tensors import Role
from kernels.measure import pipeline_bars
from kernels.measure.pipelines import Pipeline

WORDS = Words.of(str(__package__))
KINDS, PARTS = (
    {mark: name for name, own in WORDS.table(key).items() for mark in own.split()} for key in ("kinds", "parts")
)
COPIES = ("prefetch_tile", "load_tile", "prefetch")  # marks of a writer at the copy of a tile
PRODUCTS, SOFTMAX, OTHER = "products", "softmax", "other"
ACTIVITIES = {event: PRODUCTS for event in pipeline_bars.PRODUCTS}
ACTIVITIES |= {event: SOFTMAX for event in ("softmax", "check_sums", "weights", "score_gradients")}
WAIT = "wait_free"
FIRST_STEPS, LAST_STEPS, MOST_STEPS = 14, 2, 20


@dataclass(frozen=True)
class BlockStory:
    """A block with its marks as bars.

    bars: see pipeline_bars.bars.
    flight: see pipeline_bars.in_flight.
    writers: of the block, in the order of their rows.
    leader: the first computing writer.
    words: see words_of.
    steps: see steps_of. Equal steps in the middle of a long block are left out.
    all_steps: the number of all steps.
    """

    made: Pipeline
    block: int
    bars: pd.DataFrame
    flight: pd.DataFrame
    writers: list[int]
    leader: int
    words: dict[str, str]
    steps: list[Row]
    all_steps: int

    @property
    def name(self) -> str:
        return self.made.request.kernel.name


def explain(made: Pipeline, block: int = 0) -> BlockStory:
    """The BlockStory of a block. A block without marks has no work, so the first one with marks takes its place."""
    marked = made.marks[made.marks.launch == made.launch].block
    block = block if (marked == block).any() else int(marked.min())
    bars = pipeline_bars.bars(made, block)
    first_at = float(bars.start_ns.min())
    bars = bars.assign(start_ns=bars.start_ns - first_at, end_ns=bars.end_ns - first_at)
    writers = sorted(int(n) for n in bars.writer.unique())
    computing = bars[bars.event.isin(pipeline_bars.COMPUTING)].writer
    leader = int(computing.min()) if len(computing) else writers[0]
    words = words_of(made)
    steps = steps_of(made, bars, leader, words)
    flight = pipeline_bars.in_flight(bars)
    return BlockStory(made, block, bars, flight, writers, leader, words, _kept(steps), len(steps))


def seen(start: float, end: float, begins: Sequence[float], length: float) -> bool:
    """Whether a time is in one of the windows of a picture. Another one is not sent to the browser."""
    return any(end >= begin and start <= begin + length for begin in begins)


# ---- words ----


def words_of(made: Pipeline) -> dict[str, str]:
    """The words of a block's steps, by the kernel's declared launches and parts.

    tile: such as key tile. rows: the plural of its rows, such as keys. outer: the loop around the tiles: Query tile, or
    Head. kept: the outputs that a block writes once, such as O. between: the work between two products.
    """
    request, walked = made.request, made.walked
    known, places = axes.tensors(request), picture.places(request)
    rows = "key" if walked == "query" else "query"
    kept = [places[s] for s, t in known.items() if s in places and t.role is Role.OUTPUT and rows in t.axes]
    return WORDS.table(f"{walked}_tiles") | {"kept": listed(kept) if kept else ""}


def title(event: str, words: dict[str, str]) -> str:
    """A mark in words."""
    return f"Write {words['kept']}" if event == "write" and words["kept"] else phase_title(event)


def kind(event: str) -> str:
    """The colour of a bar: Q, K, S, P, O, other, or wait."""
    name = event.removesuffix("_done")
    if name.startswith(("wait", "nothing_left")):
        return "wait"
    return KINDS.get(name, "K" if "load" in name or "prefetch" in name else "other")


# ---- the overlap of two writers ----


def activity(event: str) -> str:
    """The work of a writer at a mark.

    Rule: the marks of PRODUCTS start products. Their bars last until the products or the scores are ready. Marks of a
    softmax are softmax, with the waits in it, and in the backward those of P and dS. All other marks are other work.
    """
    return ACTIVITIES.get(event, OTHER)


def shared(bars: pd.DataFrame, spans: pd.DataFrame) -> dict[str, float]:
    """activity -> ns of the bars of one writer inside the spans."""
    start, end = bars.start_ns.to_numpy(), bars.end_ns.to_numpy()
    inside = np.zeros(len(bars))
    for first, last in zip(spans.start_ns, spans.end_ns):
        inside += np.clip(np.minimum(end, last) - np.maximum(start, first), 0, None)
    met = inside > 0
    found = pd.Series(inside[met]).groupby(bars.event[met].map(activity).to_numpy()).sum()
    return {name: float(found.get(name, 0.0)) for name in (PRODUCTS, SOFTMAX, OTHER)}


def softmax_of(bars: pd.DataFrame, writer: int) -> pd.DataFrame:
    """The bars of a writer's softmax."""
    return bars[(bars.writer == writer) & (bars.event.map(activity) == SOFTMAX)]


def partner(bars: pd.DataFrame, leader: int) -> int | None:
    """The next writer with a softmax, or None."""
    others = bars[(bars.event.map(activity) == SOFTMAX) & (bars.writer > leader)].writer
    return int(others.min()) if len(others) else None


def during_softmax(bars: pd.DataFrame, leader: int) -> dict[str, float]:
    """activity -> the partner's share of the time in which the leader is in its softmax. Empty without a partner."""
    other, spans = partner(bars, leader), softmax_of(bars, leader)
    if other is None or spans.empty:
        return {}
    whole = float((spans.end_ns - spans.start_ns).sum())
    return {name: ns / whole for name, ns in shared(bars[bars.writer == other], spans).items()}


def with_waits(own: pd.DataFrame) -> pd.DataFrame:
    """The bars of a writer, with each turn of a producer as a wait and its copies.

    A turn starts with a mark. The producer then waits for free shared memory, and starts the copies. Rule: the shortest
    turn has no wait, so a longer turn waits for the rest. The wait is drawn first.
    """
    turns = own[(own.role == "producer") & own.event.str.contains("load|prefetch")]
    if turns.empty:
        return own
    lasts = turns.end_ns - turns.start_ns
    until = turns.end_ns - lasts.groupby(turns.event).transform("min")
    waits = turns.assign(event=WAIT, end_ns=until)[until > turns.start_ns]
    copies = own.assign(start_ns=until.reindex(own.index).fillna(own.start_ns))
    return pd.concat([waits, copies]).sort_values("start_ns", kind="stable")


# ---- the steps ----


def steps_of(made: Pipeline, bars: pd.DataFrame, leader: int, words: dict[str, str]) -> list[Row]:
    """A row for each tile of the leader, and for the rest before and after them.

    Columns: tile, title, lines. span: its start and end, in ns from the start of the block. longest, longest_ns: its
    longest phase, "" for a single one. copied: the writer of its tile's copy and the time of that copy, then the leader
    and the time of its scores, or (). overlap: of the leader's softmax, the partner and ns of its work, or {}.
    whole: ns of this softmax. writes: whether it starts with the write of outputs.
    """
    own = bars[bars.writer == leader]
    tiles = own.tile.fillna(-1).astype(int) if "tile" in own else pd.Series(-1, index=own.index)
    marked = bool((own.event == "tile_begin").any())
    if marked:  # every tile, and the rest after the last one
        begins = own.event.isin(["tile_begin", "write"])
    else:  # every bar without tiles, as in a walk of pages
        begins = tiles != tiles.shift(fill_value=-2) if (tiles >= 0).any() else tiles == -1
    outer = _outer(made, own.event, tiles)
    several = outer.max() > 1
    copies, other = _copies(bars, own, leader), partner(bars, leader)
    steps = []
    for at, part in own.groupby(begins.cumsum(), sort=True):
        first = part.index[0]
        start, end = float(part.start_ns.iloc[0]), float(part.end_ns.iloc[-1])
        meanwhile, number = bars[(bars.start_ns < end) & (bars.end_ns > start)], int(outer[first])
        early = marked and not part.event.isin(["tile_begin", "write"]).any()
        phases = part[part.event != part.role]  # the start of its role is no phase
        spent = (phases.end_ns - phases.start_ns).groupby(phases.event, sort=False).sum()
        softmax = softmax_of(part, leader)
        overlaps = made.noun == "warpgroup" and other is not None and len(softmax) > 0
        longest = title(str(spent.idxmax()), words) if len(spent) > 1 else ""
        steps.append(
            {
                "tile": number if several else int(str(at)),
                "title": _title(part, -1 if early else int(tiles[first]), number if several else 0, words),
                "lines": {str(place): int(n) for place, n in meanwhile.place.value_counts().items()},
                "span": [start, end],
                "longest": longest[:1].lower() + longest[1:],
                "longest_ns": float(spent.max()) if len(spent) else 0.0,
                "copied": copies.get(first, ()),
                "overlap": {"partner": other, **shared(bars[bars.writer == other], softmax)} if overlaps else {},
                "whole": float((softmax.end_ns - softmax.start_ns).sum()),
                "writes": part.event.iloc[0] == "write",
            }
        )
    return steps


def _kept(steps: list[Row]) -> list[Row]:
    """The steps of a picture: the first ones, the first change to another tile of outputs, and the last ones."""
    if len(steps) <= MOST_STEPS:
        return steps
    change = next((n for n, step in enumerate(steps) if step["writes"] and n >= FIRST_STEPS), len(steps))
    near = range(change - 1, change + MOST_STEPS - FIRST_STEPS - LAST_STEPS - 1)
    last = len(steps) - LAST_STEPS
    return [step for n, step in enumerate(steps) if n < FIRST_STEPS or n in near or n >= last]


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


def _title(part: pd.DataFrame, tile: int, outer: int, words: dict[str, str]) -> str:
    """The title of a step. outer: the number of its query tile or head in the block, 0 for a single one."""
    first = str(part.event.iloc[0])
    if first == "write" or (tile < 0 and len(part) == 1 and first != part.role.iloc[0]):
        said = title(first, words)
    else:
        said = f"{words['tile']} {tile}" if tile >= 0 else ""
    if not said:
        return "Before the first tile"
    case = str.lower if outer else str.upper
    return (f"{words['outer']} {outer}, " if outer else "") + case(said[0]) + said[1:]


def _copies(bars: pd.DataFrame, own: pd.DataFrame, leader: int) -> dict[Hashable, tuple[int, float, int, float]]:
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
    return {tile: (who, began, leader, then) for tile, began, then in zip(tiles, began, scores) if began < then}
