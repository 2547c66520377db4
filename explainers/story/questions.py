"""Makes questions with options from a run's own numbers.

The wrong options are other numbers of the run, for example the bytes of a neighbour or of a kernel without sharing.
None equals the answer or another option. A question without a wrong option is left out. Its veils cover each part of
the page that gives the answer away at its step.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, Unpack

from explainers.story.stage import Question

MOST = 4  # options of a question


class Where(TypedDict, total=False):
    """The fields of Question with the place of its answer."""

    step: int
    view: str
    tolerance: float
    veils: Sequence[str]
    hides: Sequence[str]
    covers: Sequence[Mapping[str, object]]
    shows: Mapping[str, object]


class More(Where, total=False):
    """Further fields of Question."""

    unit: str


def options(
    id: str, text: str, right: str, wrong: Iterable[str], why: str, ordered: Sequence[str] = (), **more: Unpack[More]
) -> list[Question]:
    """A list of one question with options, or an empty list if there is no wrong option.

    ordered: the texts in their natural order. Other options get an order that depends on their texts only.
    more: further fields of Question.
    """
    others = [text for text in dict.fromkeys(wrong) if text != right][: MOST - 1]
    if not others:
        return []
    key = {text: n for n, text in enumerate(ordered)}
    listed = sorted([right, *others], key=lambda said: key.get(said, 0)) if ordered else _shuffled(id, [right, *others])
    return [Question(id, text, "options", listed.index(right), why, listed, **more)]


def idea(
    id: str,
    text: str,
    right: str,
    wrong: Mapping[str, str],
    why: str,
    ordered: Sequence[str] = (),
    **more: Unpack[Where],
) -> Question:
    """A question that predicts an idea.

    wrong: wrong option -> the reason against it, with the run's numbers.
    ordered: the options in their natural order, if they have one.
    more: further fields of Question.
    """
    listed = list(ordered) or _shuffled(id, [right, *wrong])
    reasons = [wrong.get(said, "") for said in listed]
    return Question(id, text, "options", listed.index(right), why, listed, reasons=reasons, **more)


def nearest(factors: Iterable[float], found: float) -> float:
    """The nearest factor to a found one, by ratio."""
    return min(factors, key=lambda factor: abs(math.log(factor / found)))


def _shuffled(id: str, texts: Iterable[str]) -> list[str]:
    """The texts in an order that depends on them only."""
    return sorted(texts, key=lambda said: hashlib.sha256((id + said).encode()).hexdigest())


def amounts(
    id: str, text: str, right: int, wrong: Iterable[int], why: str, unit: str = "", **more: Unpack[Where]
) -> list[Question]:
    """A question whose options are numbers, from low to high. more: further fields of Question."""
    others = [n for n in dict.fromkeys(int(w) for w in wrong) if n != right and n >= 0][: MOST - 1]
    said = {n: f"{n:,} {unit[:-1] if n == 1 else unit}".strip() for n in sorted({right, *others})}
    return options(id, text, said[right], [said[n] for n in others], why, list(said.values()), **more)
