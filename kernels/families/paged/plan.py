"""The problem of the kernel that makes the work list of paged_v3 on the GPU (kernels/ops/plan_ranges.cu)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from kernels.core.call import Call
from kernels.core.fields import problem_field
from kernels.core.problem import Case, Problem
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.paged.fields import RANGE_BLOCK_SIZES
from kernels.kv_cache.work_list import FIELDS, WorkList, padded, work_list

SHORTEST = 128  # tokens: a range is not cut shorter
CASES = ((40, 5, 70), (1,), (0, 0), (70000,), (2,) * 300, (16, 0, 17, 15, 0, 5000), (1, 16384, 3), (4096,) * 64)


def ranges_of(tokens: int, most_ranges: int) -> int:
    """The number of ranges for the pages of so many tokens."""
    return min(most_ranges, max(1, tokens // SHORTEST))


@dataclass(frozen=True)
class PlanProblem(Problem):
    """The work list of a decoding step from its contexts' lengths, with a fixed number of rows.

    A sequence of length 0 has no unit. The list has no rounding, so any difference is a miss.
    """

    context_lens: tuple = problem_field((40, 5, 70), "tokens of each sequence", low=0, high=2**24)
    most_ranges: int = problem_field(16, "blocks for each KV head", low=1, high=65535)
    block_size: int = problem_field(16, "slots per page", allowed=RANGE_BLOCK_SIZES)
    window: int = problem_field(0, "the last tokens, visible to a query, or 0 for all", low=0, high=2**24)

    title: ClassVar[str] = "Work list of decoding"
    operator: ClassVar[str] = "plan_ranges"
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.context_lens:
            raise ProblemError("context_lens is empty. It must give at least one sequence's length.")

    @property
    def rows(self) -> int:
        return self.most_ranges + len(self.context_lens)

    def tensors(self) -> tuple[Tensor, ...]:
        lengths = Tensor("context_lens", (len(self.context_lens),), "int32", ("sequence",))
        return lengths, Tensor("units", (self.rows, len(FIELDS)), "int32", ("unit", "field"), Role.OUTPUT)

    @property
    def sizes(self) -> dict[str, object]:
        return {"sequences": len(self.context_lens), "shortest": SHORTEST}

    @property
    def cpu_steps(self) -> int:
        """The accesses: about eight for a row."""
        return 8 * self.rows

    @property
    def size(self) -> str:
        return f"{len(self.context_lens)} sequences, {self.most_ranges} ranges"

    def inputs(self) -> dict[str, np.ndarray]:
        return {"context_lens": np.array(self.context_lens, np.int32)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        lengths, size = np.array(self.context_lens, np.int64), self.block_size
        firsts = np.maximum(0, lengths - self.window) // size if self.window else np.zeros_like(lengths)
        pages = -(-lengths // size) - firsts
        total = int(pages.sum())
        made = (
            work_list(firsts, pages, lengths, ranges_of(total * size, self.most_ranges))
            if total
            else WorkList(np.zeros((0, len(FIELDS)), np.int32), 0, 0)
        )
        return {"units": padded(made, self.most_ranges, len(lengths)).astype(np.float64)}

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """The lengths only have the right number. The kernel reads the lengths of the call."""
        lengths = (1,) * call.given("context_lens").size("sequence")
        options = {name: int(str(call.option(name, 0))) for name in ("most_ranges", "block_size", "window")}
        return cls(lengths, **options)

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Empty and long contexts, more sequences than threads, every page size, with and without a window."""
        made = []
        for number, lengths in enumerate(CASES):
            for most_ranges in (1, 7, 132):
                size = RANGE_BLOCK_SIZES[(number + most_ranges) % 4]
                made.append(Case(cls(lengths, most_ranges, size, (0, 40)[(number + most_ranges) % 2])))
        return made
