"""A plan over several devices: copies from one device to another, and repeated launches with their order.

A plan on the CPU or on one GPU runs the same launches and copies in order. Its devices are then virtual.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from kernels.core.expressions import evaluate, whole
from kernels.core.fields import show_value
from kernels.core.launch import Copy, Plan, Repeat
from kernels.core.tensors import Role
from kernels.errors import FrontMatterError

MOST_STEPS = 4096  # launches, copies and scratch tensors of a plan. Our largest has 40
Made = TypeVar("Made")


@dataclass(frozen=True)
class Waits:
    """The earlier steps of a plan for which a copy waits. launches, copies: their numbers."""

    launches: tuple[int, ...] = ()
    copies: tuple[int, ...] = ()


def check_steps(tables: Iterable[tuple[str, Repeat]], names: Mapping[str, object], place: str) -> None:
    """Raises FrontMatterError if all tables together, each with its repeats, make too many steps.

    tables: (key, repeat) of each table. place: the file, for messages.
    """
    total = 0
    for key, repeat in tables:
        counts = [whole(count, names, f"{place}: {key}.repeat.{name}") for name, count in repeat]
        total += math.prod(max(1, count) for count in counts)  # a count of 0 must not hide a huge one
        if total > MOST_STEPS:
            raise FrontMatterError(
                f"{place}: the tables up to {key} make {total:,} steps. A plan has at most {MOST_STEPS:,}. "
                "Repeat less, or write fewer tables."
            )


def repeated(repeat: Repeat, when: str, names: Mapping[str, object], where: str) -> Iterator[dict[str, object]]:
    """The names of each repeat of a table: `names` and the counters. `when` leaves repeats out. See check_steps."""
    counts = [whole(count, names, f"{where}.repeat.{name}") for name, count in repeat]
    for values in product(*map(range, counts)):
        own = {**names, **{name: value for (name, _), value in zip(repeat, values)}}
        if not when or evaluate(when, own, f"{where}.when"):
            yield own


def named(text: str, names: Mapping[str, object], where: str) -> str:
    """A tensor's name, with the value of each expression in braces, such as k_{gpu}."""
    parts = text.replace("}", "{").split("{")  # text, expression, text, ..., text
    parts[1::2] = [show_value(evaluate(part, names, where)) for part in parts[1::2]]
    return "".join(parts)


def in_order(launches: Iterable[tuple[int, Made]], copies: Iterable[Copy]) -> tuple[tuple[Made, ...], tuple[Copy, ...]]:
    """The launches and copies of a plan, step by step. launches: (step, launch) pairs. A step's launches come first."""
    first = sorted(launches, key=lambda pair: pair[0])
    placed = [
        Copy(copy.source, copy.target, copy.step, max(1, sum(step <= copy.step for step, _ in first)))
        for copy in sorted(copies, key=lambda copy: copy.step)
    ]
    return tuple(launch for _, launch in first), tuple(placed)


def waits_of_launch(plan: Plan, number: int) -> tuple[int, ...]:
    """The copies for which a launch waits: the last one into each of its tensors, and all from its scratch and outputs.

    The launch may write its scratch and its outputs, so earlier copies must have read them.
    """
    own = {*plan.launches[number].tensors}
    written = {name for name in own if plan.tensor(name).role is not Role.INPUT}
    before = [(n, copy) for n, copy in enumerate(plan.copies) if copy.place <= number]
    into = {copy.target: n for n, copy in before if copy.target in own}
    return tuple(sorted({*into.values(), *(n for n, copy in before if copy.source in written)}))


def waits_of_copy(plan: Plan, number: int) -> Waits:
    """The launches and copies for which a copy waits. Launches only read the inputs and targets of copies.

    A copy waits for the writers of its source, and for the launches and copies that read its target.
    """
    copy, targets = plan.copies[number], {copy.target for copy in plan.copies}
    written = plan.tensor(copy.source).role is not Role.INPUT and copy.source not in targets
    used = {copy.target, copy.source} if written else {copy.target}
    launches = tuple(n for n in range(copy.place) if used & {*plan.launches[n].tensors})
    earlier = enumerate(plan.copies[:number])
    ends = {n for n, other in earlier if copy.source == other.target or copy.target in (other.source, other.target)}
    return Waits(launches, tuple(sorted(ends)))
