"""What is asked for: a kernel, a problem, constants, which items write a trace, and where it runs."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kernels.errors import ProblemError

if TYPE_CHECKING:
    from kernels.core.launch import Constant, ConstantRole, Launch, Plan
    from kernels.core.spec import KernelSpec


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
    def everything(cls, plan: "Plan") -> "Scope":
        """Every item of every launch of the plan."""
        others = {launch.item: plan.items_of(launch.item) for launch in plan.launches if launch.item != plan.item}
        return cls(0, plan.items_of(plan.item), tuple((item, 0, count) for item, count in others.items()))

    def range_of(self, item: str, plan: "Plan") -> tuple[int, int]:
        """First item and number of items of that kind."""
        if item == plan.item:
            return self.first, self.count
        return next(((first, count) for name, first, count in self.others if name == item), (0, 1))

    def blocks(self, launch: "Launch", plan: "Plan") -> tuple[int, int]:
        """First block and number of blocks of a launch that work for these items."""
        first, count = self.range_of(launch.item, plan)
        return first * launch.blocks_per_item, count * launch.blocks_per_item

    def check(self, plan: "Plan") -> None:
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


@dataclass(frozen=True)
class Request:
    """What to run. problem: of the kernel's problem_type. settings: pairs of compile-time constants that differ from
    the defaults, or all. backend: gpu, cpu or recorded."""

    kernel: "KernelSpec"
    problem: Any
    settings: tuple[tuple[str, int], ...] = ()
    scope: Scope = field(default_factory=Scope)
    backend: str = "cpu"

    @property
    def constants(self) -> dict[str, int]:
        """Every compile-time constant of the kernel, name -> value."""
        return self.kernel.settings(self.settings)

    def value_of(self, role: "ConstantRole") -> int | None:
        """The value of the kernel's constant with that role; None if the kernel has none."""
        constant = self.kernel.constant_of(role)
        return None if constant is None else self.constants[constant.name]

    @property
    def defines(self) -> dict[str, int]:
        """Every -D of the build: what follows from the problem, and the kernel's constants."""
        return {**self.problem.defines, **self.constants}

    @property
    def plan(self) -> "Plan":
        return self.kernel.plan(self.problem, self.constants)

    @property
    def identity(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The problem's fields and the constants as JSON holds them, tuples as lists: what a recording is found by."""
        return json.loads(json.dumps(asdict(self.problem))), self.constants

    @property
    def broken(self) -> "tuple[Constant, ...]":
        """The what-if constants that this request sets to break the kernel."""
        chosen = self.constants
        return tuple(c for c in self.kernel.constants if c.what_if and chosen[c.name] != c.default)


def identity_key(problem: Mapping[str, Any], settings: Mapping[str, int]) -> str:
    """Eight hex digits of a Request.identity, for the names of files."""
    return hashlib.sha256(json.dumps([problem, settings], sort_keys=True).encode()).hexdigest()[:8]
