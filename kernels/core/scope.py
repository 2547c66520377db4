"""The items of a run that write a trace."""

from dataclasses import dataclass

from kernels.core.launch import Launch, Plan
from kernels.errors import ProblemError


@dataclass(frozen=True)
class Scope:
    """The traced items of a plan.

    first, count: items of the first launch's kind.
    others: (item, first, count) for other kinds. The default for a kind is its first item with work.

    An item of dense attention is a query tile. The order is row tiles, heads, batches. An item of paged attention is a
    query head of a sequence. The order is heads, sequences."""

    first: int = 0
    count: int = 1
    others: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def everything(cls, plan: Plan) -> "Scope":
        others = {launch.item: plan.items_of(launch.item) for launch in plan.launches if launch.item != plan.item}
        return cls(0, plan.items_of(plan.item), tuple((item, 0, count) for item, count in others.items()))

    def range_of(self, item: str, plan: Plan) -> tuple[int, int]:
        if item == plan.item:
            return self.first, self.count
        return next(((first, count) for name, first, count in self.others if name == item), (plan.first_of(item), 1))

    def blocks(self, launch: Launch, plan: Plan) -> tuple[int, int]:
        """The first block and the number of blocks of a launch for these items."""
        first, count = self.range_of(launch.item, plan)
        return first * launch.blocks_per_item, count * launch.blocks_per_item

    def check(self, plan: Plan) -> None:
        """Raises ProblemError unless the plan has these items."""
        for item, first, count in ((plan.item, self.first, self.count), *self.others):
            items = plan.items_of(item)
            if not items:
                kinds = ", ".join(dict.fromkeys(launch.item for launch in plan.launches))
                raise ProblemError(f"scope names {item!r}. This run has items of the kind {kinds}.")
            if not (0 <= first < items and 1 <= count <= items - first):
                raise ProblemError(
                    f"scope is {item}s {first} to {first + count - 1}. This run has {item}s 0 to {items - 1}."
                )
