"""Questions about warpgroups that share the tensor cores. Their answers come from the marks and from the model."""

import pandas as pd

from explainers.stories.pipeline import overlaps, schedule
from explainers.stories.pipeline.key_tile_frames import BlockStory
from explainers.story import questions as ask
from explainers.story.glossary import figure
from explainers.story.stage import Question

NEAR = 3  # the step of a question, if there are so many


def questions(story: BlockStory) -> list[Question]:
    """The questions of a block with several computing warpgroups."""
    model = schedule.model_of(story)
    if model is None:
        return []
    return [*_meanwhile(story), *_why_turns(story, model), *_own_product(story, model)]


def _meanwhile(story: BlockStory) -> list[Question]:
    """The main work of the partner during the leader's softmax."""
    shares, other = overlaps.during_softmax(story.bars, story.leader), overlaps.partner(story.bars, story.leader)
    if not shares or other is None:
        return []
    noun, leader = story.made.noun, story.leader
    said = {name: f"{share:.0%}" for name, share in shares.items()}
    options = {
        "It multiplies": overlaps.PRODUCTS,
        "It is in its softmax, too": overlaps.SOFTMAX,
        "It waits for its turn": overlaps.OTHER,
    }
    right = max(options, key=lambda text: shares[options[text]])
    wrong = {text: f"It does so for only {said[name]} of that time." for text, name in options.items() if text != right}
    producer = (story.bars.role == "producer").any()
    wrong["It copies the next tile"] = (
        f"{'The producer' if producer else 'A thread'} only starts a copy. The copy engine (TMA) does the rest."
    )
    row = sorted(story.bars[story.bars.event == overlaps.SOFTMAX].writer.unique()).index(other)
    return [
        ask.idea(
            "meanwhile",
            f"Over the whole block: what does {noun} {other} mostly do while {noun} {leader} is in its softmax?",
            right,
            wrong,
            f"In {noun} {leader}'s softmax, {noun} {other} multiplies for {said[overlaps.PRODUCTS]} of the time. "
            f"Both are in softmax for {said[overlaps.SOFTMAX]}.",
            step=_typical(story, options[right]),
            view="schedule",
            covers=[{"panel": [0, 2], "row": row}, {"writer": other}],
            shows={"panel": 2, "row": row},
            hides=["multiplies"],
            veils=("tabs",),
        )
    ]


def _typical(story: BlockStory, work: str) -> int:
    """The first step near the beginning whose softmax has the same main work of the partner as the whole block."""
    near = min(NEAR, len(story.frames) - 1)
    for step in range(near, min(near + NEAR, len(story.frames))):
        start, end = story.frames[step]["span"]
        inside = story.bars[(story.bars.end_ns > start) & (story.bars.start_ns < end)]
        shares = overlaps.during_softmax(inside, story.leader)
        if shares and max(shares, key=lambda name: shares[name]) == work and shares[work] > 0.5:
            return step
    return near


def _why_turns(story: BlockStory, model: schedule.Model) -> list[Question]:
    """The cost of a softmax that all warpgroups do at once."""
    apart, turns = schedule.period(model.without_turns()), schedule.period(model.in_turns())
    idle = figure(model.softmax, 3)
    return [
        ask.idea(
            "why_turns",
            "Suppose that all warpgroups did their softmax at the same time. How would that hurt?",
            "The tensor cores would rest during the softmax",
            {
                "The softmax would take half the time": "Each still has as many exponentials to compute.",
                "Nothing: they share no data": f"They share the tensor cores. A key tile would take {figure(apart, 3)} "
                f"ns in place of {figure(turns, 3)} ns (modelled).",
                "Shared memory would be full": "A softmax works in registers only.",
            },
            f"The tensor cores would rest for {idle} ns of each key tile. In the model, turns cut a key tile from "
            f"{figure(apart, 3)} to {figure(turns, 3)} ns.",
            step=min(NEAR, len(story.frames) - 1),
            view="schedule",
            covers=[{"panel": 0, "row": model.groups}],
            shows={"panel": 0, "row": model.groups},
            veils=("tabs",),
        )
    ]


def _own_product(story: BlockStory, model: schedule.Model) -> list[Question]:
    """The product of a warpgroup that is in flight during its own softmax."""
    softmax = overlaps.softmax_of(story.bars, story.leader)
    flight = story.flight[story.flight.writer == story.leader]
    for bar in softmax.iloc[NEAR:].itertuples():
        under = flight[(flight.start_ns < bar.start_ns) & (flight.end_ns >= bar.end_ns)]
        if len(under) == 1 and under.event.iloc[0] == "output" and under.tile.iloc[0] == bar.tile - 1:
            cut = [figure(schedule.period(bars), 3) for bars in (model.in_turns(), model.with_turns())]
            saved = f"In the model, this cuts a key tile from {cut[0]} to {cut[1]} ns."
            return [_asked_product(story, bar.tile, float(bar.start_ns), under, saved, model.groups)]
    return []


def _asked_product(
    story: BlockStory, tile: int, start: float, under: pd.DataFrame, saved: str, groups: int
) -> Question:
    """The question. start: of the softmax. under: the product in flight. saved: its use, in a
    sentence. groups: the warpgroups of the model."""
    noun, leader = story.made.noun, story.leader
    step = next(n for n, frame in enumerate(story.frames) if frame["span"][0] <= start < frame["span"][1])
    ahead = figure(start - float(under.start_ns.iloc[0]), 3)
    why = f"The output of key tile {tile - 1} started {ahead} ns before. The wait for it comes after the softmax."
    return ask.idea(
        "own_product",
        f"{noun.capitalize()} {leader} is in the softmax of key tile {tile}. Which of its own products is in flight?",
        f"The output of key tile {tile - 1}",
        {
            f"The scores of key tile {tile}": "The softmax needs these scores, so they are ready.",
            f"The output of key tile {tile}": "It needs the weights of this softmax.",
            "None: it waits for each product": why,
        },
        f"{why} {saved}",
        step=step,
        view="own_output",
        covers=[{"panel": 1, "row": groups}, {"panel": 2, "row": groups}],
        shows={"panel": 1, "row": groups},
        veils=("tabs",),
    )
