"""Questions about the rounding errors of a kernel."""

import math
from collections.abc import Mapping

import numpy as np

from explainers.stories.precision.replay import STAGES, Replay
from explainers.stories.precision.replays import TITLES, Replays, short
from explainers.story import questions as made_of
from explainers.story.glossary import figure
from explainers.story.questions import Where
from explainers.story.stage import Question

OPTIONS = 4  # options of a question
WHERE: Where = {"view": "rounding", "step": len(STAGES) - 1, "veils": ("sentence", "strip", "headline", "tabs")}
GROWTHS: Mapping[float, str] = {
    1: "it stays about the same",
    8: "it grows about 8 times",
    64: "it grows about 64 times",
    1 / 8: "it shrinks to about an eighth",
    1 / 64: "it shrinks to less than a fiftieth",
}
"""Change of an error -> its words. An option stands for the nearest change."""


def questions(story: Replays) -> list[Question]:
    """The questions of the story. Their answers come from the run."""
    made = story.chosen
    at = story.all.index(made)
    other = next((r for r in (*story.all[at + 1 :], *story.all[:at][::-1]) if r.label != made.label), None)
    found = [_most(made)]
    if other:
        found.append(_type(made, other))
    return [question for question in found if question]


def _most(made: Replay) -> Question | None:
    """The step with the largest change of O."""
    sizes = made.sizes
    largest = sorted(np.argsort(-sizes)[:OPTIONS].tolist())
    if not np.isfinite(sizes).all() or not (sizes[largest] > 0).all():
        return None
    most = int(np.argmax(sizes))
    titles = {n: TITLES[STAGES[n]] for n in largest}
    wrong = {
        title: f"{title} moves O by only {short(sizes[n])}, and {titles[most]} by {short(sizes[most])}."
        for n, title in titles.items()
        if n != most
    }
    second = sizes[most] / sorted(sizes)[-2]
    return made_of.idea(
        "most",
        f"This kernel computes in {made.label}. Which step costs the most accuracy?",
        titles[most],
        wrong,
        f"{titles[most]} moves O by {short(sizes[most])}, {figure(second, 2)} times as much as the next step.",
        ordered=list(titles.values()),
        **WHERE,
    )


def _type(made: Replay, other: Replay) -> Question | None:
    """The change of the error with another type."""
    if not 0 < made.so_far[-1] < np.inf or not 0 < other.so_far[-1] < np.inf:
        return None
    change = float(other.so_far[-1] / made.so_far[-1])
    listed = [min(GROWTHS, key=lambda growth: abs(math.log(change / growth)))]
    listed += [growth for growth in GROWTHS if growth not in listed][: OPTIONS - 1]
    figures = f"{short(other.so_far[-1])} in {other.label}, {short(made.so_far[-1])} in {made.label}"
    return made_of.idea(
        "types",
        f"The same numbers go through {other.label} in place of {made.label}. How does the error change?",
        GROWTHS[listed[0]],
        {GROWTHS[growth]: f"The errors are {figures}." for growth in listed[1:]},
        f"The error is {figures}. The types differ in the bits of a number.",
        ordered=[GROWTHS[growth] for growth in sorted(listed)],
        **WHERE,
    )
