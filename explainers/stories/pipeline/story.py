"""Pipeline: the phases of each warp or warpgroup of a block, nanosecond by nanosecond, from the marks of a GPU. One
kernel, or two on one scale. A step is a tile of the first computing one."""

from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd

from explainers.models import grid, schedules
from explainers.stories.pipeline import descriptor, loop, marks, schedule, theirs
from explainers.stories.pipeline.marks import COPIES, WORDS, BlockStory
from explainers.story import scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage, View
from explainers.story.words import Names, Row
from kernels.core.launch import ConstantRole
from kernels.core.request import Request
from kernels.measure import pipeline_bars, pipelines
from kernels.measure.elsewhere.packed import Block as Theirs
from kernels.measure.pipelines import Pipeline
from kernels.measure.pipelines import pipeline as made_here

FIRST = 3  # the step of an opened page, and of a question: a key tile with work before and after it
ASKED = 2  # the tile of the questions: the first copies fill empty stages
FEW = 4  # copies for a question about their pace, and steps in the picture
BEFORE = "before"
SHORT = {"P": ["softmax", "P"], "S": ["scores", "S"], "O": ["output", "O"], "K": ["copy"], "wait": ["wait"]}
TABS = [stage.Tab("shares", "Shares of the time"), stage.Tab("perfetto", "Take it along")]


@dataclass(frozen=True)
class Look:
    """The shown pipelines, and the block of each. The tiles of the first one are the steps.

    theirs: a block of another profiler's file, or None."""

    requests: tuple[Request, ...]
    block: int
    theirs: Theirs | None = None


class Pipelines(Story[Look]):
    """The phases of one block, or of a block of each of two kernels."""

    def stage(self, subject: Look, runner: Runner) -> Stage:
        return stage_of(_stories(subject), subject.theirs)

    def parts(self) -> dict[str, Part[Look]]:
        return {"shares": shares_tab}


def _stories(look: Look) -> list[BlockStory]:
    loaded = [load(request) for request in look.requests]
    return [marks.explain(one, min(look.block, int(one.marks.block.max()))) for one in loaded]


@lru_cache(maxsize=8)
def load(request: Request) -> Pipeline:
    """The pipeline of a request: made on this machine's GPU, or recorded."""
    return made_here(request) if request.backend == "gpu" else pipelines.find(request).load()


def stage_of(stories: list[BlockStory], other: Theirs | None = None) -> Stage:
    """The whole stage of one block, or of two. other: a block of another profiler's file."""
    first, made = stories[0], stories[0].made
    data = [data_of(story) for story in stories]
    own = data[0] | {"view": "pipeline"}
    frames = WORDS.frames(first.steps, own)
    beside = len(stories) == 2 and not any((story.bars.role == "producer").any() for story in stories)
    if beside:  # a writer of each, the other kernel first
        own |= {
            "view": BEFORE,
            "then": data[1] | {"copying": data[1]["copying"] * own["rows"] / (data[1]["rows"] or 1)},
        }
    named = len(stories) > 1
    summary = [part for one in data for part in WORDS.parts("summary", {**one, "named": named})]
    if other:
        summary = [WORDS.say("theirs", theirs.row_of(other))]
    source = " ".join([WORDS.say("source", own), *(WORDS.say("cost", one) for one in data)])
    spans = [step["span"] for step in first.steps]
    state = [
        stage.State("starts at", [round(start) for start, _ in spans], "ns"),
        stage.State("lasts", [round(end - start) for start, end in spans], "ns"),
    ]
    hand = loop.views(first)
    if own["flies"]:
        shares = [pipeline_bars.covered(first.flight, start, end) for start, end in spans]
        state.append(stage.State("products in flight", [f"{share:.0%}" for share in shares]))
    return Stage(
        headline=stage.headline(made.request.kernel),
        frames=frames,
        views=[
            *(next_to(stories, other) if other else [picture(stories)]),
            *([picture(stories, leaders=True)] if beside else []),
            *schedule.views(first),
            *hand,
            *descriptor.views(first),
            *(whole_grid(story, named) for story in stories),
        ],
        codes=[stage.code(made.request, frames)],
        state=state,
        tabs=TABS,
        provenance=stage.Provenance(made.provenance, source, place=stage.place(made.device, made.date)),
        summary=WORDS.say("before", own) if beside and not other else " ".join(summary),
        step=FIRST if len(frames) > FIRST else 0,
        questions=loop.questions() if hand else [],
    )


def data_of(story: BlockStory) -> Row:
    """The numbers of a block.

    us: of the block. queries: its query tiles, if it walks over keys. needed: the share of the time with work for its
    tensor cores, or None, and resident: the blocks that share them. fed: the share with a product in flight, or None.
    meanwhile: of the time in which the leader is in its softmax, the share of each activity of its partner, or {}.
    flies: whether products are in flight. rows: of a tile, 0 without a constant for them. copying: the median ns of a
    tile's copy in the leader.
    """
    made, block, bars = story.made, story.block, story.bars
    own = bars[bars.writer == story.leader]
    needed = pipeline_bars.multiplying(made, block)
    role: ConstantRole = "key_rows" if made.walked == "key" else "query_rows"
    copies = own[own.event.isin(COPIES)]
    return {
        "kernel": story.name,
        "block": block,
        "noun": made.noun,
        "leader": story.leader,
        "partner": marks.partner(bars, story.leader),
        "words": story.words,
        "us": float(bars.end_ns.max()) / 1e3,
        "queries": int((own.event == "write").sum()) if made.walked == "key" else 0,
        "needed": needed,
        "resident": pipeline_bars.resident(made, block) if needed is not None else 0.0,
        "fed": pipeline_bars.fed(made, block),
        "meanwhile": marks.during_softmax(bars, story.leader) if made.noun == "warpgroup" else {},
        "flies": not story.flight.empty,
        "rows": int(made.request.value_of(role) or 0),
        "copying": float((copies.end_ns - copies.start_ns).median()),
        "overhead": made.overhead,
        "lost": made.lost,
        "provenance": made.provenance,
        "device": made.device,
        "date": made.date,
        "mhz": made.mhz,
        "residual": made.residual_ns,
        "writers": len(made.writers),
        "blocks": made.writers.block.nunique(),
    }


def next_to(stories: list[BlockStory], other: Theirs) -> list[View]:
    """The blocks next to one of another profiler's file: some steps, and all of the first one and the other."""
    first = stories[0]
    longest = max(float(first.bars.end_ns.max()), theirs.row_of(other)["ns"])
    whole = picture(stories[:1], window=([0.0], 1.02 * longest))
    both = replace(theirs.beside(whole, first, other), id="theirs", title="Whole, next to theirs")
    return [theirs.beside(picture(stories), first, other), both]


def whole_grid(story: BlockStory, named: bool) -> View:
    """Every block of the run on its SM, with its own steps. named: whether the title has the kernel's name."""
    drawn = grid.drawn(grid.explain(story.made.request, schedules.marked(story.made), traced=False))
    return replace(drawn, id=f"grid_{story.name}", title=f"Whole grid, {story.name}") if named else drawn


def shares_tab(look: Look, runner: Runner) -> list[Block]:
    """The time of each writer, by phase."""
    blocks = list[Block]()
    for story in _stories(look):
        blocks.append(stage.heading(f"{story.name}, block {story.block}"))
        blocks += [stage.text(said) for said in WORDS.parts("shares", data_of(story))]
        caption = f"{story.name}: from a mark to the next one, with its waits."
        blocks.append(stage.table(shares_table(story), caption))
    return blocks


def shares_table(story: BlockStory) -> pd.DataFrame:
    """The shares of each writer's time."""
    table = pipeline_bars.shares(story.made, story.block)
    table = table[table.event != table.role]
    return pd.DataFrame(
        {
            story.made.noun: table.writer.astype(str) + table.role.map(lambda r: f", {r}" if r else ""),
            "at": table.event.map(lambda event: marks.title(str(event), story.words)),
            "bars": table.bars,
            "ns": table.ns.round().astype(int),
            "share": [f"{share:.1%}" for share in table.share],
        }
    )


# ---- the picture ----


def picture(stories: list[BlockStory], leaders: bool = False, window: tuple[list[float], float] | None = None) -> View:
    """Every writer of a block, or of two on one scale.

    leaders: only the leader of each, the other kernel first.
    window: the first shown ns of each step, and the length of the axis."""
    first, several = stories[0], len(stories) > 1
    spans = [step["span"] for step in first.steps]
    lasts = pd.Series([end - start for start, end in spans])
    length = max(FEW * float(lasts.median()), 1.02 * float(lasts.max()))
    last, begins = max(0.0, float(first.bars.end_ns.max()) - length), list[float]()
    for step, (start, end) in zip(first.steps, spans):  # from its copy on, if the whole step then is in sight
        begin = min(start - 0.2 * length, step["copied"][1] - 0.02 * length if step["copied"] else start)
        begins.append(min(last, max(0.0, begin, end - length)))
    begins, length = window or (begins, length)
    panels, lanes, drawn, kinds = list[scene.Group](), list[scene.Lane](), list[scene.Span](), dict[str, None]()
    row_of: dict[int, int] = {}  # of the first story's writers
    for story in reversed(stories) if leaders else stories:
        tile = f"{data_of(story)['rows']} {story.words['rows']} a tile" if leaders else ""
        title = f"{'Now' if story is first else 'Before'}: {story.name}" if leaders else story.name if several else ""
        panels.append(
            scene.Group(title=title, note=tile, begins=begins, marked=[*map(tuple, spans)] if story is first else [])
        )
        for writer in [story.leader] if leaders else story.writers:
            own = story.bars[story.bars.writer == writer]
            role = next((role for role in own.role if role), "")
            name = f"{story.made.noun} {writer}" + (f", {role}" if role else "")
            if story is first:
                row_of[writer] = len(lanes)
            flying = story.flight[story.flight.writer == writer]
            rows = [("", marks.with_waits(own)), *([] if leaders else flying.groupby("event", sort=False))]
            for event, bars in rows:
                shown = f"{marks.title(str(event), story.words)} in flight" if event else name
                datum: scene.Datum = {"kernel": story.name, "writer": writer, "row": len(lanes)}
                lanes.append(
                    scene.Lane(
                        name=shown, group=len(panels) - 1, datum=datum, tip=f"{story.name}, {name}", thin=bool(event)
                    )
                )
                for n, bar in enumerate(bars.itertuples()):
                    if marks.seen(bar.start_ns, bar.end_ns, begins, length):
                        drawn.append(_span(story, {**datum, "bar": n}, bar._asdict(), name, bool(event)))
                        kinds[str(drawn[-1].datum["kind"])] = None
    links = [
        scene.Link(
            start=(row_of[step["copied"][0]], step["copied"][1]),
            end=(row_of[step["copied"][2]], step["copied"][3]),
            text=f"{step['copied'][3] - step['copied'][1]:,.0f} ns ahead",
            now=[n],
        )
        for n, step in enumerate(first.steps)
        if step["copied"] and step["copied"][0] in row_of
    ]
    legend = WORDS.table("query_legend" if first.words["rows"] == "queries" else "key_legend")
    entries = [(kind, text) for kind, text in legend.items() if kind in kinds]
    entries += [("hatch", "waits")] if "wait" in kinds else []
    entries += [("", "bars include their waits"), ("", "→ from the start of a copy to its use")]
    counts = {"shown": len(first.steps), "all": first.all_steps, "words": first.words}
    counts["changes"] = any(step["writes"] for step in first.steps[marks.FIRST_STEPS : -marks.LAST_STEPS])
    panel = scene.Lanes(
        groups=panels,
        rows=lanes,
        spans=drawn,
        links=links,
        length=length,
        units=[(1, "ns"), (1000, "µs")],
        note=WORDS.say("left_out", counts) if first.all_steps > len(first.steps) else "",
    )
    title = f"One {first.made.noun}, before and now" if leaders else "Pipeline"
    return scene.view(BEFORE if leaders else "pipeline", title, [[panel]], legend=entries)


def _span(story: BlockStory, datum: scene.Datum, bar: Names, writer: str, flight: bool) -> scene.Span:
    """A bar of a row. flight: whether it shows work in flight."""
    event, tile = str(bar["event"]), -1 if pd.isna(bar.get("tile", pd.NA)) else int(bar["tile"])
    kind, title, ns = marks.kind(event), marks.title(event, story.words), bar["end_ns"] - bar["start_ns"]
    part = marks.PARTS.get(event.removesuffix("_done"))
    names, of = [part] if part else SHORT.get(kind, []), f" {tile}" if tile >= 0 and kind != "wait" else ""
    of_tile = f", {story.words['tile']} {tile}" if tile >= 0 else ""
    what = f"{'in flight: ' if flight else ''}{title}{of_tile}"
    times = f"{ns:,.0f} ns, {ns * story.made.mhz / 1000:,.0f} cycles, from {bar['start_ns']:,.0f} ns on"
    return scene.Span(
        row=int(datum["row"]),
        start=bar["start_ns"],
        end=bar["end_ns"],
        texts=[] if flight else [f"{title}{of}", *(f"{name}{of}" for name in names), *names[1:]],
        colour="other" if kind == "wait" else kind,
        hatch=kind == "wait",
        datum={**datum, "event": event, "kind": kind, "tile": tile},
        tip=f"{story.name}, {writer}\n{what}\n{times}",
    )


STORY = Pipelines()
