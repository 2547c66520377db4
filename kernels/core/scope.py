"""The items of a run that write a trace."""

from dataclasses import dataclass

from kernels.core.launch import Launch, Plan
from kernels.errors import ProblemError


@dataclass(frozen=True)
class Scope:
    """Which of a plan's items write a trace: `count` of them from `first`, of the kind that the plan's first launch
    has.

    others: (item, first, count) for launches whose items are of another kind; a kind that is not named has its first
    item traced. For dense attention an item is a query tile, numbered row tile by row tile, head by head, batch by
    batch; for paged attention a query head of a sequence, numbered head by head, sequence by sequence.
    """

    first: int = 0
    count: int = 1
    others: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def everything(cls, plan: Plan) -> "Scope":
        """Every item of every launch of the plan."""
        others = {launch.item: plan.items_of(launch.item) for launch in plan.launches if launch.item != plan.item}
        return cls(0, plan.items_of(plan.item), tuple((item, 0, count) for item, count in others.items()))

    def range_of(self, item: str, plan: Plan) -> tuple[int, int]:
        """First item and number of items of that kind."""
        if item == plan.item:
            return self.first, self.count
        return next(((first, count) for name, first, count in self.others if name == item), (0, 1))

    def blocks(self, launch: Launch, plan: Plan) -> tuple[int, int]:
        """First block and number of blocks of a launch that work for these items."""
        first, count = self.range_of(launch.item, plan)
        return first * launch.blocks_per_item, count * launch.blocks_per_item

    def check(self, plan: Plan) -> None:
        """ProblemError if this is not within the plan's items."""
        for item, first, count in ((plan.item, self.first, self.count), *self.others):
            there = plan.items_of(item)
            if not there:
                kinds = ", ".join(dict.fromkeys(launch.item for launch in plan.launches))
                raise ProblemError(f"scope names {item!r}; this run has items of the kind {kinds}.")
            if not (0 <= first < there and 1 <= count <= there - first):
                raise ProblemError(
                    f"scope is {item}s {first} to {first + count - 1}; this run has {item}s 0 to {there - 1}."
                )
