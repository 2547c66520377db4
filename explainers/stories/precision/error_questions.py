"""Questions about the rounding errors of a kernel."""

from collections.abc import Mapping

import numpy as np

from explainers.stories.precision.replay import STAGES, Replay
from explainers.stories.precision.replays import ASKED, Replays, short
from explainers.story import questions as made_of
from explainers.story.glossary import figure
from explainers.story.questions import Where
from explainers.story.stage import Question
from kernels.core.dtypes import DTYPES

OPTIONS = 4  # options of a question
AGAINST = {
    "scores": "The scores are computed in 32 bits. They move O by only {}.",
    "weights": "Weights lose digits too, but the errors of many keys partly cancel: {}.",
    "write": "O is rounded once, at the end. This moves it by only {}.",
}
"""Step -> the reason against it, with the change of O."""
WHERE: Where = {"view": "rounding", "step": len(STAGES) - 1, "veils": ("sentence", "strip", "headline", "tabs")}
GROWTHS: Mapping[float, str] = {
    1: "It stays about the same",
    8: "It grows about 8 times",
    64: "It grows about 64 times",
    1 / 8: "It shrinks to about an eighth",
    1 / 64: "It shrinks to less than a fiftieth",
}
"""Change of an error -> its words. An option stands for the nearest change."""


def questions(story: Replays) -> list[Question]:
    """The questions of the story. Their answers come from the run."""
    made = story.chosen
    at = story.all.index(made)
    other = next((r for r in (*story.all[at + 1 :], *story.all[:at][::-1]) if r.label != made.label), None)
    first = _where(0, len(story.all) - 1, len(STAGES) - 1)
    found: list[Question | None] = []
    if other:
        n = story.all.index(other)
        second = _where(n, n, len(STAGES))
        first["covers"] = [*first["covers"], *second["covers"]]  # the next answer, too
        found.append(_type(made, other, second))
    found.insert(0, _most(made, first))
    return [question for question in found if question]


def _where(first: int, last: int, end: int) -> Where:
    """The end of the replay, with covers over runs in the picture.

    first, last: the runs. end: the last covered column, of a step or of the error in the end.
    """
    return {**WHERE, "covers": [{"run": [first, last], "stage": [1, end]}]}


def _most(made: Replay, where: Where) -> Question | None:
    """The step with the largest change of O."""
    sizes = made.sizes
    largest = sorted(np.argsort(-sizes)[:OPTIONS].tolist())
    if not np.isfinite(sizes).all() or not (sizes[largest] > 0).all():
        return None
    most = int(np.argmax(sizes))
    titles = {n: ASKED[STAGES[n]] for n in largest}
    wrong = {
        title: AGAINST.get(STAGES[n], "This step moves O by only {}.").format(short(sizes[n]))
        for n, title in titles.items()
        if n != most
    }
    second = sizes[most] / sorted(sizes)[-2]
    return made_of.idea(
        "most",
        f"This kernel multiplies {made.label} numbers. Which step costs the most accuracy?",
        titles[most],
        wrong,
        f"\u201c{titles[most]}\u201d moves O by {short(sizes[most])}, "
        f"{figure(second, 2)} times as much as any other step."
        + (
            f" Every kernel in {made.label} rounds its inputs. Scores and sums have 32 bits."
            if STAGES[most] == "inputs"
            else ""
        ),
        ordered=list(titles.values()),
        **where,
    )


def _type(made: Replay, other: Replay, where: Where) -> Question | None:
    """The change of the error with another type."""
    if not 0 < made.so_far[-1] < np.inf or not 0 < other.so_far[-1] < np.inf:
        return None
    right = made_of.nearest(GROWTHS, float(other.so_far[-1] / made.so_far[-1]))
    listed = [right, *[growth for growth in GROWTHS if growth != right][: OPTIONS - 1]]
    figures = f"{short(other.so_far[-1])} in {other.label}, {short(made.so_far[-1])} in {made.label}"
    return made_of.idea(
        "types",
        f"The same numbers go through {other.label} in place of {made.label}. How does the error change?",
        GROWTHS[right],
        {GROWTHS[growth]: f"{_size(growth, right)} The errors are {figures}." for growth in listed[1:]},
        f"The error is {figures}. {_digits(made.label, other.label)}",
        ordered=[GROWTHS[growth] for growth in sorted(listed)],
        **where,
    )


def _size(growth: float, right: float) -> str:
    """The fault of a wrong change."""
    return "The error is larger than that." if growth < right else "The error is smaller than that."


def _digits(label: str, other: str) -> str:
    """The reason for different errors of two types."""
    if label not in DTYPES or other not in DTYPES or DTYPES[label].digits == DTYPES[other].digits:
        return "The types differ in the bits of a number."
    bits, own = DTYPES[other].digits, DTYPES[label].digits
    size = f"{2 ** (own - bits)} times as large" if bits < own else f"{2 ** (bits - own)} times smaller"
    return f"{other} keeps {bits} bits of a number, and {label} keeps {own}. So each rounding is {size}."
