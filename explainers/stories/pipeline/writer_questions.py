"""Questions about the phases of two writers."""

import numpy as np

from explainers.stories.pipeline.key_tile_frames import BlockStory, named
from explainers.story import stage
from explainers.story.glossary import figure
from kernels.measure import pipelines


def questions(story: BlockStory) -> list[stage.Question]:
    """The questions of the story. Their answers come from the marks."""
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


def _meanwhile(story: BlockStory, event: str) -> list[stage.Question]:
    """A question about the main phase of the next computing writer during `event` of the leader, from a third of its
    life on."""
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
