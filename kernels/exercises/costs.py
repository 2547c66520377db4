"""Counts of a run that need no GPU: sectors of global memory and wavefronts of shared memory. They are no times."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from kernels.catalog import current, load_kernel
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.exercises.exercise import FOLDER, Exercise, Limit
from kernels.run import execute
from kernels.trace.memory.traced import requests

SPACES = {"sectors": "global", "wavefronts": "shared"}
GLOBAL, SHARED, CONFLICT = KINDS = ("global memory", "shared memory", "bank conflict")
"""The kinds of evidence."""


@dataclass(frozen=True)
class Count:
    """A count of an answer on one problem.

    found, allowed: of all its requests.
    line, tensor: with the largest part.
    of_line, requests: the count and the requests of this line and tensor.
    conflicts: of all its requests of shared memory.
    """

    limit: Limit
    found: int
    allowed: int
    line: int
    tensor: str
    of_line: int
    requests: int
    conflicts: int

    @property
    def ok(self) -> bool:
        """Whether the count is allowed."""
        return self.found <= self.allowed

    @property
    def kind(self) -> str:
        """The kind of evidence, if the count is too large."""
        if self.limit.count == "sectors":
            return GLOBAL
        return CONFLICT if self.found - self.conflicts <= self.allowed else SHARED

    @property
    def said(self) -> str:
        """The count in a few words."""
        return f"{self.found:,} {self.limit.count} of {self.allowed:,}"

    @property
    def text(self) -> str:
        """The count in sentences."""
        name = f"{self.limit.count} of {SPACES[self.limit.count]} memory"
        times = f"{self.limit.times:g} times " if self.limit.times != 1 else ""
        least = f"At most {self.allowed:,} are allowed, {times}the count of {self.limit.of or 'the solution'}."
        each = f"{self.of_line / self.requests:.3g} for each request"
        line = f"Line {self.line} takes the most, for {self.tensor}: {self.of_line:,}, or {each}."
        return f"The answer takes {self.found:,} {name}. {least} {line}"


def counts(exercise: Exercise, kernel: KernelSpec, problem: Problem) -> Iterator[Count]:
    """The Counts of a right answer on a problem, one for each limit."""
    if not exercise.limits:
        return
    own = _by_line(kernel, problem)
    others: dict[str, pd.DataFrame] = {}
    for limit in exercise.limits:
        if limit.of not in others:
            solution = FOLDER / exercise.of / "solution.cu"
            others[limit.of] = _by_line(current().kernels[limit.of] if limit.of else load_kernel(solution), problem)
        name = limit.count
        sums = own[own.space == SPACES[name]].groupby(["line", "tensor"])[[name, "requests"]].sum()
        line, tensor = sums[name].idxmax() if len(sums) else (0, "")
        most, asked = map(int, sums.loc[(line, tensor)]) if len(sums) else (0, 1)
        allowed = int(limit.times * others[limit.of][name].sum())
        yield Count(limit, int(own[name].sum()), allowed, int(line), tensor, most, asked, int(own.conflicts.sum()))


def _by_line(kernel: KernelSpec, problem: Problem) -> pd.DataFrame:
    """The counts of each line of a kernel, from a trace of all its blocks."""
    run = execute.run(Request(kernel, problem, (), Scope.everything(kernel.plan(problem)), "cpu"))
    assert not run.trace.lost, "the hidden problems are small"
    return requests(run.trace).by_line
