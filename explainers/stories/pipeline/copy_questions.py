"""Questions about the copies of tiles. Their answers come from the marks."""

import pandas as pd

from explainers.stories.pipeline import overlaps, producer_waits
from explainers.stories.pipeline.key_tile_frames import COPIES, BlockStory
from explainers.story import questions as ask
from explainers.story.glossary import count, figure
from explainers.story.stage import Question

ASKED = 2  # the tile of the questions: the first copies fill empty stages
FEW = 4  # copies for a question about their pace


def questions(story: BlockStory) -> list[Question]:
    """The questions of a block with copies ahead: by a producer, or by the computing writers."""
    copies = story.bars[story.bars.event.isin(COPIES)]
    if (copies.role == "producer").any():
        return [*_who_copies(story, copies), *_held_back(story, copies)]
    return _ahead(story, copies[copies.writer == story.leader])


def _ahead(story: BlockStory, copies: pd.DataFrame) -> list[Question]:
    """The start of a copy, and the work until its tile is needed."""
    own, noun, who = story.bars[story.bars.writer == story.leader], story.made.noun, story.leader
    key_tile, last = story.words.tile, story.words.last
    found = [_start_of(own, "tile_begin", ASKED - 1), _start_of(own, "scores", ASKED)]
    copy = copies[copies.tile == ASKED] if "tile" in copies else copies[:0]
    if len(copy) != 1 or None in found:
        return []
    begun, needed = (float(at or 0) for at in found)
    start, end = float(copy.start_ns.iloc[0]), float(copy.end_ns.iloc[0])
    before = own[(own.tile == ASKED - 1) & own.event.map(overlaps.activity).ne(overlaps.OTHER)]
    if not begun <= start <= end < before.end_ns.max() <= needed:
        return []
    step = next(n for n, frame in enumerate(story.frames) if frame["span"][0] <= needed < frame["span"][1])
    ahead, left = figure(needed - end, 3), figure(float(before.end_ns.max()) - end, 3)
    since = before[before.end_ns > end]
    work = figure(float((since.end_ns - since.start_ns.clip(lower=end)).sum()), 3)
    copied = figure(end - start, 3)
    where: ask.Where = {"step": step, "view": "pipeline", "hides": [ahead], "veils": ("tabs", "headline")}
    shows = {"event": str(copy.event.iloc[0]), "tile": ASKED, "writer": who, "kernel": story.name}
    covers = [{"event": event, "kernel": story.name} for event in COPIES]
    at_copy: ask.Where = {**where, "covers": covers, "shows": shows}
    copy_ahead = ask.idea(
        "copy_ahead",
        f"When does {noun} {who} start the copy of {key_tile} {ASKED}?",
        f"Before the scores of {key_tile} {ASKED - 1}",
        {
            f"After the {last} of {key_tile} {ASKED - 1}": f"They end {left} ns after the start of the copy."
            if last.endswith("s")
            else f"That {last} ends {left} ns after the start of the copy.",
            f"With the scores of {key_tile} {ASKED}": f"The copy has started {ahead} ns before these scores.",
            "At the start of the block": f"Earlier {key_tile}s fill the shared memory first.",
        },
        f"The copy has started {ahead} ns before the scores of {key_tile} {ASKED}. Shared memory has room for "
        f"more than one {key_tile}. Until then, the {noun} works on {key_tile} {ASKED - 1}.",
        **at_copy,
    )
    # its products and softmax (kinds O to S), and not the start of a copy
    own_tile = {"writer": who, "tile": ASKED - 1, "kernel": story.name, "kind": ["O", "S"]}
    return [copy_ahead, _until_needed(story, own_tile, ahead, work, copied, where)]


def _until_needed(
    story: BlockStory, tile: dict[str, object], ahead: str, work: str, copied: str, where: ask.Where
) -> Question:
    """The work during the copy.

    tile: the tile before.
    ahead, work, copied: ns in words.
    """
    named, words = f"{story.made.noun} {story.leader}", story.words
    key_tile, many = words.tile, " and " in words.kept
    at_tile: ask.Where = {**where, "covers": [tile], "shows": tile}
    return ask.idea(
        "until_needed",
        f"The copy of {key_tile} {ASKED} takes a while. How does {named} use the time until it needs that tile?",
        f"It works on {key_tile} {ASKED - 1}",
        {
            "It waits for the copy": f"It multiplies and does its {words.between} for {work} of {ahead} ns.",
            "It copies number by number": f"It only starts the copy, in at most {copied} ns.",
            f"It writes {words.kept} of {key_tile} {ASKED - 1}": f"{words.kept} stay{'' if many else 's'} in registers "
            f"until the last {key_tile}.",
        },
        f"It works on {key_tile} {ASKED - 1} for {work} of these {ahead} ns. In the rest, it starts copies and waits.",
        **at_tile,
    )


def _start_of(own: pd.DataFrame, event: str, tile: int) -> float | None:
    found = own[(own.event == event) & (own.tile == tile)] if "tile" in own else own[:0]
    return float(found.start_ns.iloc[0]) if len(found) else None


def _who_copies(story: BlockStory, copies: pd.DataFrame) -> list[Question]:
    """The writer of all copies."""
    noun, who = story.made.noun, int(copies.writer.iloc[0])
    all_tiles = f"all {len(copies):,} {story.words.tile}s"
    others = [n for n in story.writers if n != who]
    if copies.writer.nunique() > 1 or not others:
        return []
    rest = " and ".join(str(n) for n in others[:2])
    return [
        ask.idea(
            "who_copies",
            f"{count(len(story.writers), noun)} share this block. Which ones copy tiles of {story.words.copied}?",
            f"Only {noun} {who}",
            {
                "Each copies its own part": f"{noun.capitalize()}s {rest} start no copy in this run.",
                "They take turns": f"The roles are fixed: {noun}s {rest} never start a copy.",
                "The first one that is free": f"{noun.capitalize()} {who} brings {all_tiles}.",
            },
            f"{noun.capitalize()} {who} brings {all_tiles} of this block. The others only compute.",
            step=min(ASKED, len(story.frames) - 1),
            view="pipeline",
            covers=[{"writer": who}],
            shows={"writer": who},
            hides=["producer", "consumer", "Prefetch tile"],
            veils=("tabs",),
        )
    ]


def _held_back(story: BlockStory, copies: pd.DataFrame) -> list[Question]:
    """The reason for the pace of the producer."""
    noun, key_tile = story.made.noun, story.words.tile
    own = story.bars[(story.bars.writer == story.leader) & story.bars.event.isin(["softmax", "weights"])]
    lasts = (copies.end_ns - copies.start_ns).to_numpy()
    period, who = float(own.start_ns.diff().median()), int(copies.writer.iloc[0])
    if len(lasts) < FEW or not period > 0:
        return []
    first, later = float(lasts[0]), float(pd.Series(lasts[FEW - 1 :]).median())
    return [
        ask.idea(
            "held_back",
            f"The producer starts its first copies at once, and later only one copy per {key_tile}. Why not more?",
            "It waits for free shared memory",
            {
                "Global memory is too slow": f"{figure(first, 3)} ns is the time to start a copy. Then the producer "
                "waits for a free place in shared memory.",
                "It copies number by number": "One thread asks the copy engine (TMA) for a box of many numbers.",
                f"It computes {story.words.between} in between": f"{noun.capitalize()} {who} has no mark of a product.",
            },
            f"Later, it copies a {key_tile} every {figure(later, 3)} ns: when the consumers have read one and freed "
            f"its place. They need {figure(period, 3)} ns for a {key_tile}.",
            step=min(FEW, len(story.frames) - 1),
            view="pipeline",
            covers=[{"writer": who, "event": producer_waits.WAIT}],
            shows={"writer": who},
            veils=("tabs",),
        )
    ]
