"""The story of the pipeline: the phase of each warp or warpgroup of a block, nanosecond by nanosecond, from a GPU's
marks build. A step is a tile of the first computing one."""

from dataclasses import replace

import pandas as pd

from explainers.models import grid, schedules
from explainers.stories.pipeline import (
    before,
    copy_questions,
    operand_questions,
    overlaps,
    producer_waits,
    schedule,
    tile_words,
    turn_questions,
)
from explainers.stories.pipeline.frames import PipelineMeta
from explainers.stories.pipeline.key_tile_frames import BlockStory, frames_of
from explainers.stories.pipeline.tile_words import TileWords
from explainers.story import stage
from explainers.story.glossary import count, figure, short
from kernels.measure import pipeline_bars
from kernels.measure.pipelines import Pipeline

FIRST = 3  # the step of an opened page: a key tile with work before and after it
QUESTIONS = (copy_questions, operand_questions, turn_questions)


def explain(made: Pipeline, block: int = 0) -> BlockStory:
    """The BlockStory of a block. A block without marks has no work, so the first one with marks takes its place."""
    marked = made.marks[made.marks.launch == made.launch].block
    block = block if (marked == block).any() else int(marked.min())
    bars = pipeline_bars.bars(made, block)
    first_at = float(bars.start_ns.min())
    bars = bars.assign(start_ns=bars.start_ns - first_at, end_ns=bars.end_ns - first_at)
    flight = pipeline_bars.in_flight(bars)
    writers = sorted(int(n) for n in bars.writer.unique())
    computing = bars[bars.event.isin(pipeline_bars.COMPUTING)].writer
    leader = int(computing.min()) if len(computing) else writers[0]
    words = tile_words.words_of(made)
    frames = frames_of(made, bars, leader, words)
    return BlockStory(made, block, bars, flight, writers, leader, frames, words)


def view(stories: list[BlockStory]) -> stage.View:
    """The picture `pipeline` of one block, or of two on one scale. The tiles of the first block are the steps."""
    words = stories[0].words
    rows: list[dict[str, object]] = []
    parts: list[pd.DataFrame] = []
    row_of: dict[int, int] = {}  # of the first story's writers
    for story in stories:
        for writer in story.writers:
            own = producer_waits.drawn(story.bars[story.bars.writer == writer])
            role = next((r for r in own.role if r), "")
            name = f"{story.made.noun} {writer}" + (f", {role}" if role else "")
            rows.append({"name": name, "kernel": story.name, "flight": False, "writer": writer})
            if story is stories[0]:
                row_of[writer] = len(rows) - 1
            parts.append(own.assign(row=len(rows) - 1))
            for event, flying in story.flight[story.flight.writer == writer].groupby("event", sort=False):
                rows.append(
                    {
                        "name": f"{tile_words.title(str(event), story.words)} in flight",
                        "kernel": story.name,
                        "flight": True,
                        "writer": writer,
                    }
                )
                parts.append(flying.assign(row=len(rows) - 1))
    bars = pd.concat(parts, ignore_index=True).sort_values(["row", "start_ns"], kind="stable")
    events = list(dict.fromkeys(bars.event))
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
        "events": [_event(str(event), words) for event in events],
        "mhz": stories[0].made.mhz,
        "frames": stories[0].frames,
        "row_of": row_of,
        "tile": words.tile,
        "legend": tile_words.legend(words),
    }
    return stage.View("pipeline", "pipeline", "Pipeline", meta, columns)


def _event(event: str, words: TileWords) -> dict[str, object]:
    title, short = tile_words.title(event, words), tile_words.short(event)
    return {"name": event, "title": title, "short": short, "kind": tile_words.kind(event)}


def stage_of(stories: list[BlockStory], provenance: stage.Provenance) -> stage.Stage:
    """The whole stage of one story, or of two."""
    first, drawn = stories[0], view(stories)
    beside = before.views(stories, drawn)
    return stage.Stage(
        headline=stage.headline(first.made.request.kernel),
        frames=first.frames,
        views=[drawn, *beside, *schedule.views(first), *(whole_grid(story, len(stories) > 1) for story in stories)],
        codes=[stage.code(first.made.request, first.frames)],
        state=states(first),
        tabs=TABS,
        provenance=provenance,
        summary=before.sentence(stories) if beside else " ".join(summary(story, len(stories) > 1) for story in stories),
        step=FIRST if len(first.frames) > FIRST else 0,
        questions=before.asked([q for asked in QUESTIONS for q in asked.questions(first)], beside),
    )


def whole_grid(story: BlockStory, named: bool) -> stage.View:
    """Every block of the run on its SM, with its own steps.

    named: whether the title has the kernel's name.
    """
    request = story.made.request
    drawn = grid.drawn(grid.explain(request, schedules.marked(story.made), traced=False))
    return replace(drawn, id=f"grid_{story.name}", title=f"Whole grid, {story.name}") if named else drawn


TABS = [stage.Tab("shares", "Shares of the time"), stage.Tab("perfetto", "Take it along")]


def summary(story: BlockStory, named: bool = False) -> str:
    """The time of the block, the work of its tensor cores, and the overlap of its warpgroups.

    named: whether it must name the kernel. Else the shares replace the time.
    """
    made, block, own = story.made, story.block, story.bars[story.bars.writer == story.leader]
    queries = int((own.event == "write").sum()) if made.walked == "key" else 0
    said = f"{story.name}: block {block} takes {figure(float(story.bars.end_ns.max()) / 1e3)} \u00b5s"
    found = [said + (f" for {count(queries, 'query tile')}." if queries else ".")]
    needed, meanwhile = pipeline_bars.multiplying(made, block), overlaps.during_softmax(story.bars, story.leader)
    if needed is not None and meanwhile and made.noun == "warpgroup" and not named:
        found = []  # both shares say more
    if needed is not None:
        blocks = pipeline_bars.resident(made, block)
        whose = f"The tensor cores, shared by {figure(blocks, 2)} blocks," if blocks > 1.05 else "The tensor cores"
        found.append(f"{whose} work for this block at least {needed:.0%} of the time.")
    if meanwhile and made.noun == "warpgroup":
        other = overlaps.partner(story.bars, story.leader)
        found.append(
            f"While {made.noun} {story.leader} is in its {story.words.between}, {made.noun} {other} multiplies for "
            f"{meanwhile[overlaps.PRODUCTS]:.0%} of the time."
        )
    if made.lost:
        found.append(f"{made.lost:,} marks did not fit.")
    return " ".join(found)


def cost(made: Pipeline) -> str:
    """The observer effect."""
    if made.overhead < 0:
        return f"The build with marks is {-made.overhead:.1%} faster: it is another build."
    return f"Measuring made this run {made.overhead:.1%} slower."


def states(story: BlockStory) -> list[stage.State]:
    """The strip: when the step begins, how long it lasts, and how far products were in flight."""
    spans = [frame["span"] for frame in story.frames]
    found = [
        stage.State("starts at", [round(start) for start, _ in spans], "ns"),
        stage.State("lasts", [round(end - start) for start, end in spans], "ns"),
    ]
    if story.flight.empty:
        return found
    shares = [pipeline_bars.covered(story.flight, start, end) for start, end in spans]
    return [*found, stage.State("products in flight", [f"{share:.0%}" for share in shares])]


def shares_table(story: BlockStory) -> pd.DataFrame:
    """The shares of each writer's time."""
    table = pipeline_bars.shares(story.made, story.block)
    table = table[table.event != table.role]
    return pd.DataFrame(
        {
            story.made.noun: table.writer.astype(str) + table.role.map(lambda r: f", {r}" if r else ""),
            "at": table.event.map(lambda event: tile_words.title(str(event), story.words)),
            "bars": table.bars,
            "ns": table.ns.round().astype(int),
            "share": [f"{share:.1%}" for share in table.share],
        }
    )


def fed_sentences(story: BlockStory) -> list[str]:
    """The share of the tensor cores at work, and the share with a product in flight. Empty unless the products have 16
    bits."""
    made, needed = story.made, pipeline_bars.multiplying(story.made, story.block)
    if needed is None:
        return []
    share, free = needed * (there := pipeline_bars.resident(made, story.block)), 1 + made.overhead
    whose = f"the products of {figure(there, 2)} blocks" if there > 1.05 else "the products"
    said = [
        f"At work: {whose} need the tensor cores of an SM for at least {share:.1%} of the time. "
        "Rule: each product takes its time without waits. "
        f"This share is {share * free:.1%} without the cost of the marks. "
        "Nsight Compute counts it as cycles with the tensor pipe active."
    ]
    fed = pipeline_bars.fed(made, story.block)
    if fed is not None and not story.flight.empty:
        said.append(
            f"In flight: some product is started and not yet awaited for {fed:.1%} of the time. "
            "It may wait in a queue, or be done already. So this share is larger. "
            "The strip shows it for one step: it is often 100%."
        )
    return said


def meanwhile_sentences(story: BlockStory) -> list[str]:
    """The work of the partner during the leader's softmax, with its rule. Empty without two computing warpgroups."""
    shares, other = overlaps.during_softmax(story.bars, story.leader), overlaps.partner(story.bars, story.leader)
    if not shares or story.made.noun != "warpgroup":
        return []
    noun, between = story.made.noun, story.words.between
    ends = not story.flight.empty and story.made.walked == "key"
    waits = " A softmax ends with the wait for the output before." if ends else ""
    return [
        f"Meanwhile: during {noun} {story.leader}'s {between}, {noun} {other} multiplies for "
        f"{shares[overlaps.PRODUCTS]:.1%} of the time. It is in its own {between} for {shares[overlaps.SOFTMAX]:.1%}. "
        f"Rule: it multiplies from the start of its products until its scores are ready.{waits}"
    ]


def clocks_sentence(made: Pipeline) -> str:
    """The number of writers, and the precision of the clocks."""
    return (
        f"{count(len(made.writers), made.noun)} of {count(made.writers.block.nunique(), 'block')} have marks. "
        f"The SM runs at {made.mhz:,.0f} MHz. The two clocks differ by at most {short(made.residual_ns, 3)} ns."
    )
