"""The orders of a ring side by side: the pairs of each GPU in each round, and the share of the time that it waits.

Every order is a run of its own. A step ends with its busiest GPU, and a pair counts as one unit of time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from explainers.stories.ring.rounds import Round, rounds
from explainers.story.base import Runner
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import WarpglassError

EQUAL = "All GPUs have equal work in every round, so none waits."
THIS = "this"  # the name of the only order


class Against(TypedDict):
    """The recorded time of all products and of all copies of a ring. us: of the products, of the copies."""

    tokens: int
    us: list[float]


class Hiding(TypedDict):
    """Products against copies.

    said, place, date: what was recorded, on which GPUs, and when.
    equal: tokens at which both take equal time, by the rule.
    orders: name of an order under a causal mask -> us of the whole ring with most tokens.
    """

    said: str
    place: str
    date: str
    lengths: list[Against]
    equal: int
    orders: dict[str, float]


class ShownOrder(TypedDict):
    """An order in the picture. own: of this run. pairs: of each GPU, step by step. ends, waits: of Order."""

    name: str
    own: bool
    pairs: list[list[int]]
    ends: list[int]
    waits: list[float]


@dataclass(frozen=True)
class Order:
    """The rounds of an order. own: of the run of the page. said: what it means, in a sentence."""

    name: str
    rounds: Sequence[Round]
    own: bool
    said: str = ""

    @property
    def ends(self) -> list[int]:
        """The end of each step, in pairs of its busiest GPU."""
        return [sum(one.most for one in self.rounds[: n + 1]) for n in range(len(self.rounds))]

    @property
    def waits(self) -> list[float]:
        """For each GPU, the share of the time without work."""
        devices = range(len(self.rounds[0].works))
        return [1 - sum(one.works[device].pairs for one in self.rounds) / self.ends[-1] for device in devices]

    @property
    def shown(self) -> ShownOrder:
        pairs = [[work.pairs for work in one.works] for one in self.rounds]
        return {"name": self.name, "own": self.own, "pairs": pairs, "ends": self.ends, "waits": self.waits}


class OrdersMeta(TypedDict):
    """The meta of the view `ring_orders`. rounds: the round of each frame, from 0. hiding: None without a recording."""

    orders: list[ShownOrder]
    rounds: list[int]
    hiding: Hiding | None


def orders(subject: Request, own: Sequence[Round], runner: Runner) -> list[Order]:
    """The order of a run and the other orders of its problem, the slowest first. An order without a run is left out."""
    found = list[Order]()
    for name, (problem, said) in subject.problem.orders().items():
        if problem == subject.problem:
            found.append(Order(name, own, True, said))
            continue
        request = replace(subject, problem=problem)
        try:
            run = runner.run(replace(request, scope=Scope.everything(request.plan)))
        except WarpglassError:  # for example, not recorded
            continue
        found.append(Order(name, rounds(run), False, said))
    return sorted(found, key=lambda order: -order.ends[-1]) or [Order(THIS, own, True)]


def result(found: Sequence[Order]) -> str:
    """The summary of the page."""
    worst, best = found[0], found[-1]
    waits = max(worst.waits)
    if not waits:
        return EQUAL
    idle = f"GPU {worst.waits.index(waits)} waits {waits:.0%} of the time"
    if worst is best:
        return f"Under the causal mask, late queries meet more keys: {idle}, if each pair takes equal time (computed)."
    gain, rest = worst.ends[-1] / best.ends[-1], max(best.waits)
    there = f"a GPU waits at most {rest:.0%} of it" if rest else "no GPU waits"
    said = f"K and V move from GPU to GPU, and the queries stay. Under the causal mask, {idle} in {worst.name} order."
    return (
        f"{said} In {best.name} order {there}: {gain:.2f} times as fast as {worst.name} (counted in query-key pairs)."
    )
