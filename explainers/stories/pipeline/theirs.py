"""The bars of another profiler's file next to ours, on one time axis. Each side starts at its own first bar, because no
clock is common to both. The names of their bars are the file's own."""

import re
from collections import defaultdict
from dataclasses import replace

import pandas as pd

from explainers.stories.pipeline import marks
from explainers.stories.pipeline.marks import WORDS, BlockStory
from explainers.story import scene
from explainers.story.stage import View
from explainers.story.words import Row
from kernels.measure.elsewhere.packed import Block

MOST_LANES, MOST_DEEP = 16, 4  # lanes of a picture, and bars that are nested in one lane
WAITS = re.compile(r"(?i)wait|acquire|barrier|sync")  # in the name of a bar: it is hatched, as our waits are


def row_of(theirs: Block) -> Row:
    """The facts of a block of a file for sentences.

    bars, sent: all its bars, and the bars that the browser gets.
    ns: from its first bar to its last one.
    lanes, shown: all lanes, and the lanes of the picture.
    deep: the bars without room."""
    frame = theirs.frame()
    names = list(dict.fromkeys(frame.lane))
    parts = _parts(frame[frame.lane.isin(names[:MOST_LANES])])
    return {
        "file": theirs.file,
        "writer": theirs.writer,
        "clock": theirs.clock,
        "name": theirs.name,
        "bars": theirs.bars,
        "sent": len(frame),
        "ns": float(frame.end_ns.max()),
        "lanes": len(names),
        "shown": min(len(names), MOST_LANES),
        "deep": sum(part >= MOST_DEEP for part in parts),
        "left_out": theirs.left_out,
    }


def beside(ours: View, story: BlockStory, theirs: Block) -> View:
    """A picture of our bars with theirs under them."""
    (panel,) = ours.meta.lines[0]
    facts = row_of(theirs) | {"kernel": story.name, "block": story.block, "provenance": story.made.provenance}
    facts["ours"] = WORDS.say("our_clock", facts)
    names = list(dict.fromkeys(theirs.frame().lane))[:MOST_LANES]
    first, group = len(panel.rows), len(panel.groups)
    lanes = [
        scene.Lane(
            name=name,
            group=group,
            datum={"file": theirs.file, "lane": n},
            tip=f"{theirs.file}, {name}\nmeasured elsewhere, by {theirs.writer}",
        )
        for n, name in enumerate(names)
    ]
    own, begins = panel.groups[0], list(panel.groups[0].begins)
    own = own if own.title else replace(own, title=WORDS.say("our_group", facts), note=f"clock: {facts['ours']}")
    other = scene.Group(title=WORDS.say("their_group", facts), note=f"clock: {theirs.clock}", begins=begins)
    spans = [
        replace(span, row=span.row + first)
        for span in _spans(theirs, names)
        if marks.seen(span.start, span.end, begins, panel.length)
    ]
    joined = replace(
        panel,
        groups=[own, *panel.groups[1:], other],
        rows=[*panel.rows, *lanes],
        spans=[*panel.spans, *spans],
        note=" ".join(WORDS.parts("their_note", facts)),
    )
    legend = [*ours.meta.legend, ("other", "theirs: the file's names")]
    return replace(ours, meta=replace(ours.meta, lines=[[joined]], legend=legend))


def _spans(theirs: Block, names: list[str]) -> list[scene.Span]:
    """The bars of the named lanes, with rows from 0 on."""
    made = list[scene.Span]()
    places = {name: n for n, name in enumerate(names)}
    own = theirs.frame()
    own = own[own.lane.isin(names)]
    for n, (bar, part) in enumerate(zip(own.itertuples(), _parts(own))):
        if part >= MOST_DEEP:
            continue
        lane, kind, ns = str(bar.lane), str(bar.kind), bar.end_ns - bar.start_ns
        times = f"{ns:,.0f} ns, from {bar.start_ns:,.0f} ns on"
        made.append(
            scene.Span(
                row=places[lane],
                part=part,
                start=bar.start_ns,
                end=bar.end_ns,
                texts=[kind],
                colour="other",
                hatch=bool(WAITS.search(kind)),
                datum={"file": theirs.file, "lane": places[lane], "bar": n, "event": kind},
                tip=f"measured elsewhere: {theirs.file}, {lane}\n{kind}\n{times}",
            )
        )
    return made


def _parts(own: pd.DataFrame) -> list[int]:
    """The part of its lane of each bar: 0, or below the bars that it overlaps."""
    ends = defaultdict[str, list[float]](list)
    order = own.reset_index().sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable")
    found = [0] * len(own)
    for bar in order.itertuples():
        used = ends[str(bar.lane)]
        part = next((n for n, end in enumerate(used) if end <= bar.start_ns), len(used))
        used[part : part + 1] = [bar.end_ns]
        found[int(own.index.get_loc(bar.index))] = part
    return found
