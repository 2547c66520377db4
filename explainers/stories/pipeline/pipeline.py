"""Pipeline: what each warp or warpgroup of a block was at, nanosecond by nanosecond, as a GPU's marks build noted it; a
key tile of the first one that computes a step."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.occupancy import grid
from explainers.stories.pipeline.frames import PipelineFrame, PipelineMeta
from explainers.story import stage
from explainers.story.glossary import count, figure, phase_title
from kernels.measure import pipelines
from kernels.measure.pipelines import Pipeline

LONGEST = 3  # phases that a sentence names
COPIES = ("prefetch_tile", "load_tile", "prefetch")  # marks at which a writer turns to the copy of a key tile
WAITS = ("wait", "nothing_left")  # so begin the marks at which a writer waits


@dataclass(frozen=True)
class Story:
    """bars: as pipelines.bars gives them; flight: as in_flight does. writers: of the block, in the order of their rows.
    leader: the writer whose key tiles are the steps. frames: one for each of these."""

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


def explain(made: Pipeline, block: int = 0) -> Story:
    """The Story of a block whose marks are there."""
    bars = pipelines.bars(made, block)
    begin = float(bars.start_ns.min())
    bars = bars.assign(start_ns=bars.start_ns - begin, end_ns=bars.end_ns - begin)
    flight = pipelines.in_flight(bars)
    writers = sorted(int(n) for n in bars.writer.unique())
    computing = bars[bars.event.isin(["softmax", "scores"])].writer
    leader = int(computing.min()) if len(computing) else writers[0]
    frames = _frames(made, bars, flight, leader)
    return Story(made, block, bars, flight, writers, leader, frames)


def _frames(made: Pipeline, bars: pd.DataFrame, flight: pd.DataFrame, leader: int) -> list[PipelineFrame]:
    mine = bars[bars.writer == leader]
    tiles, begins = _tiles(mine), _begins(mine)
    begun = tiles.where(mine.event == "tile_begin")
    # A tile that is no later than the one before is of another query tile.
    queries = (begun <= begun.ffill().shift().fillna(np.inf)).cumsum()
    copies = _copies(bars, mine, leader)
    frames: list[PipelineFrame] = []
    for at, part in mine.groupby(begins.cumsum(), sort=True):
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


def _tiles(mine: pd.DataFrame) -> pd.Series:
    """The key tile of each bar of a writer; -1 where it is of none."""
    return mine.tile.fillna(-1).astype(int) if "tile" in mine else pd.Series(-1, index=mine.index)


def _begins(mine: pd.DataFrame) -> pd.Series:
    """Which bars of the leader begin a step: every key tile, and what follows the last one; or every bar where there
    are no tiles, as in a walk of pages."""
    tile = _tiles(mine)
    if (mine.event == "tile_begin").any():
        return mine.event.isin(["tile_begin", "write"])
    return tile != tile.shift(fill_value=-2) if (tile >= 0).any() else tile == -1


def _title(part: pd.DataFrame, tile: int, query: int) -> str:
    """Of a step. query: which query tile of its block it is in, 0 where there is but one."""
    of = f"Query tile {query}: " if query else ""
    first = str(part.event.iloc[0])
    if first == "write" or (tile < 0 and len(part) == 1):
        return of + (phase_title(first)[0].lower() + phase_title(first)[1:] if of else phase_title(first))
    return f"{of}key tile {tile}".capitalize() if tile >= 0 else "Before the first tile"


def _copies(bars: pd.DataFrame, mine: pd.DataFrame, leader: int) -> dict[Any, list[float]]:
    """The bar that begins a key tile's step -> who turned to the copy of the tile, and when; the leader, and when it
    began with the tile's scores. The n-th copy is of the n-th tile; the producer copies, or the leader where all do."""
    copies = bars[bars.event.isin(COPIES)]
    who = int(copies.writer.min()) if (copies.role == "producer").any() else leader
    turned, scores = copies[copies.writer == who].start_ns, mine[mine.event == "scores"].start_ns
    tiles = mine.index[mine.event == "tile_begin"]
    return {
        tile: [float(who), float(began), float(leader), float(then)]
        for tile, began, then in zip(tiles, turned, scores)
        if began < then
    }


def _said(
    made: Pipeline, part: pd.DataFrame, flight: pd.DataFrame, leader: int, title: str, ahead: float | None
) -> str:
    """What the leader was at, how long before its scores the copy of its keys was turned to (ahead, ns), and how long
    something was in flight meanwhile."""
    start, end = float(part.start_ns.iloc[0]), float(part.end_ns.iloc[-1])
    part = part[part.event != part.role] if len(part) > 1 else part  # where its role begins is no phase
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
    """A phase as this page calls it: what a kernel does at a tile's two ends has no name of its own."""
    return {"tile_begin": "Begin of tile", "tile_end": "End of tile"}.get(event) or phase_title(event)


# ---- the stage ----


def view(stories: list[Story]) -> stage.View:
    """The picture `pipeline`: one story, or two one above the other on one scale; the first one's tiles are the
    steps."""
    rows: list[dict[str, Any]] = []
    parts: list[pd.DataFrame] = []
    row_of: dict[int, int] = {}  # of the first story's writers
    events = list(dict.fromkeys(event for story in stories for event in story.bars.event))
    for story in stories:
        for writer in story.writers:
            mine = story.bars[story.bars.writer == writer]
            role = next((r for r in mine.role if r), "")
            name = f"{story.made.noun} {writer}" + (f", {role}" if role else "")
            rows.append({"name": name, "kernel": story.name, "flight": False})
            if story is stories[0]:
                row_of[writer] = len(rows) - 1
            parts.append(mine.assign(row=len(rows) - 1))
            for event, flying in story.flight[story.flight.writer == writer].groupby("event", sort=False):
                rows.append({"name": f"{named(str(event))} in flight", "kernel": story.name, "flight": True})
                parts.append(flying.assign(row=len(rows) - 1))
    bars = pd.concat(parts, ignore_index=True).sort_values(["row", "start_ns"], kind="stable")
    tile = bars.tile if "tile" in bars else pd.Series(pd.NA, index=bars.index)
    columns = {
        "start": bars.start_ns.to_numpy(float),
        "end": bars.end_ns.to_numpy(float),
        "row": bars.row.to_numpy(float),
        "event": bars.event.map(events.index).to_numpy(float),
        "tile": tile.astype("Float64").fillna(-1).to_numpy(float),
    }
    meta: PipelineMeta = {
        "rows": rows,
        "events": [{"name": e, "title": named(e), "kind": _kind(e)} for e in events],
        "mhz": stories[0].made.mhz,
        "frames": stories[0].frames,
        "row_of": row_of,
    }
    return stage.View("pipeline", "pipeline", "Pipeline", meta, columns)


def _kind(event: str) -> str:
    """What colours a bar: Q, K, S, P, O, other, or wait."""
    name = event.removesuffix("_done")
    if name.startswith(WAITS):
        return "wait"
    kinds = {
        "scores": "S",
        "walk_k": "S",
        "softmax": "P",
        "check_sums": "P",
        "output": "O",
        "walk_v": "O",
        "load_q": "Q",
    }
    return kinds.get(name, "K" if "load" in name or "prefetch" in name else "other")


def stage_of(stories: list[Story], provenance: stage.Provenance) -> stage.Stage:
    """The whole stage of one story, or of two."""
    first = stories[0]
    return stage.Stage(
        headline=stage.headline(first.made.request.kernel),
        frames=first.frames,
        views=[view(stories), *(whole_grid(story, len(stories) > 1) for story in stories)],
        codes=[stage.code(first.made.request, first.frames)],
        state=states(first),
        tabs=TABS,
        provenance=provenance,
        summary=" ".join(summary(story) for story in stories),
        questions=questions(first),
    )


def whole_grid(story: Story, named: bool) -> stage.View:
    """Every block of the run on its multiprocessor, with steps of its own. named: whether the kernel is said."""
    request = story.made.request
    drawn = grid.drawn(grid.explain(request, grid.marked(story.made), traced=False))
    return replace(drawn, id=f"grid_{story.name}", title=f"Whole grid, {story.name}") if named else drawn


TABS = [stage.Tab("shares", "Where the time goes"), stage.Tab("perfetto", "Take it along")]


def summary(story: Story) -> str:
    """How long the block took and for what, how far its tensor cores were fed, and the observer effect."""
    made, block, mine = story.made, story.block, story.bars[story.bars.writer == story.leader]
    lost = f" {made.lost:,} marks did not fit." if made.lost else ""
    said = f"{story.name}, block {block}: {figure(float(story.bars.end_ns.max()) / 1e3)} \u00b5s"
    tiles, queries = int((mine.event == "tile_begin").sum()), int((mine.event == "write").sum())
    if tiles:
        said += f" for {count(max(queries, 1), 'query tile')}, {count(tiles, 'key tile')} in all"
    said += "."
    needed = pipelines.multiplying(made, block)
    if needed is not None:
        there = pipelines.resident(made, block)
        others = f", which {figure(there, 2)} blocks share," if there > 1.05 else ""
        said += f" Its products keep the tensor cores{others} busy for {needed:.0%} of that at least."
    if not story.flight.empty and (fed := pipelines.fed(made, block)) is not None:
        said += f" Some product is unfinished for {fed:.0%}."
    return f"{said} {cost(made)}{lost}"


def cost(made: Pipeline) -> str:
    """The observer effect."""
    if made.overhead < 0:
        return f"With marks a run takes {-made.overhead:.1%} less: it is another build, which may be laid out better."
    return f"With marks a run takes {made.overhead:.1%} longer."


def states(story: Story) -> list[stage.State]:
    """The strip: when the step begins, how long it lasts, and how far products were in flight."""
    spans = [frame["span"] for frame in story.frames]
    found = [
        stage.State("begins at", [round(start) for start, _ in spans], "ns"),
        stage.State("lasts", [round(end - start) for start, end in spans], "ns"),
    ]
    if story.flight.empty:
        return found
    shares = [pipelines.covered(story.flight, start, end) for start, end in spans]
    return [*found, stage.State("products in flight", [f"{share:.0%}" for share in shares])]


def questions(story: Story) -> list[stage.Question]:
    """Asked before the picture is read; the keys are the marks'."""
    table = pipelines.shares(story.made, story.block)
    mine = table[table.writer == story.leader].groupby("event").ns.sum().sort_values(ascending=False)
    if len(mine) < 3:
        return []
    options = sorted(mine.index[:4])
    why = f"{named(mine.index[0])}: {figure(mine.iloc[0])} ns of {figure(mine.sum())}, waits within it included."
    longest = stage.Question(
        "longest",
        f"With which of these is {story.made.noun} {story.leader} longest?",
        "options",
        options.index(mine.index[0]),
        why,
        options=[named(event) for event in options],
        step=len(story.frames) - 1,
        view="pipeline",
        veils=("sentence", "tabs"),
    )
    return [longest, *_meanwhile(story, mine.index[0])]


def _meanwhile(story: Story, event: str) -> list[stage.Question]:
    """What the next writer that computes is mostly at while the leader is at `event`: where it is most of it, from a
    third of its life on."""
    noun, bars = story.made.noun, story.bars
    others = sorted(int(n) for n in bars[bars.event == event].writer.unique() if n > story.leader)
    spans = bars[(bars.writer == story.leader) & (bars.event == event)]
    if not others or spans.empty:
        return []
    other = bars[(bars.writer == others[0]) & (bars.event != bars.role)]
    best = (0.5, None, None)  # share of the span, span, ns of each event of the other
    for span in spans.iloc[len(spans) // 3 :].itertuples():
        shared = np.minimum(other.end_ns, span.end_ns) - np.maximum(other.start_ns, span.start_ns)
        spent = shared.clip(lower=0).groupby(other.event).sum().sort_values(ascending=False)
        if len(spent) > 1 and (share := spent.iloc[0] / (span.end_ns - span.start_ns)) > best[0]:
            best = share, span, spent
    _, span, spent = best
    if span is None or spent is None:
        return []
    options = sorted(spent.index[:4])
    step = next(n for n, frame in enumerate(story.frames) if frame["span"][0] <= span.start_ns < frame["span"][1])
    title, what, long = story.frames[step]["title"], named(event), span.end_ns - span.start_ns
    return [
        stage.Question(
            "meanwhile",
            f"{title}: while {noun} {story.leader} is at {what}, at what is {noun} {others[0]} most?",
            "options",
            options.index(spent.index[0]),
            f"{named(spent.index[0])}: for {figure(spent.iloc[0], 3)} of these {figure(long, 3)} ns.",
            options=[named(name) for name in options],
            step=step,
            view="pipeline",
            veils=("tabs",),
        )
    ]


def shares_table(story: Story) -> pd.DataFrame:
    """What each writer spent its time with."""
    table = pipelines.shares(story.made, story.block)
    table = table[table.event != table.role]
    return pd.DataFrame(
        {
            story.made.noun: table.writer.astype(str) + table.role.map(lambda r: f", {r}" if r else ""),
            "at": table.event.map(named),
            "bars": table.bars,
            "ns": table.ns.round().astype(int),
            "share": [f"{share:.1%}" for share in table.share],
        }
    )


def fed_sentences(story: Story) -> list[str]:
    """How far the tensor cores are fed, and what that is compared with; nothing where products are not of 16 bits."""
    made, needed = story.made, pipelines.multiplying(story.made, story.block)
    if needed is None:
        return []
    share, free = needed * (there := pipelines.resident(made, story.block)), 1 + made.overhead
    blocks = f"of {figure(there, 2)} blocks at once " if there > 1.05 else ""
    return [
        f"Products {blocks}need the tensor cores of a multiprocessor for {share:.1%} of the time, by the rule that "
        "each takes as long as it does where nothing holds it up; without what the marks cost it would be "
        f"{share * free:.1%}. Nsight Compute counts the same as cycles with the tensor pipe active."
    ]


def clocks_sentence(made: Pipeline) -> str:
    """What a reader must know of the clocks."""
    return (
        f"{count(len(made.writers), made.noun)} of {count(made.writers.block.nunique(), 'block')} wrote; a cycle is "
        f"1/{np.round(made.mhz):,.0f} us, and the two clocks differ by at most {made.residual_ns:.3g} ns."
    )
