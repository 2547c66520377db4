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
from kernels.trace.automatic import BARRIER
from kernels.trace.memory.traced import requests
from kernels.trace.trace import Trace

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


def traced(kernel: KernelSpec, problem: Problem) -> Trace:
    """The trace of all blocks."""
    trace = execute.run(Request(kernel, problem, (), Scope.everything(kernel.plan(problem)), "cpu")).trace
    assert not trace.lost, "the hidden problems are small"
    return trace


def shared_words(trace: Trace) -> tuple[str, int, int] | None:
    """Tensor, word and line of the first word that several blocks of a launch use, and not only by atomics or loads.

    The check of races takes a fence and an atomic for an order. No exercise needs one.
    """
    frame = trace.frame("launch", "block", "space", "tensor", "event", "offset", "bytes", "line")
    frame = frame[frame.space == "global"]
    words = frame.loc[frame.index.repeat((frame.bytes.astype(int) + 3) // 4)]
    words = words.assign(word=words.offset.astype(int) // 4 + words.groupby(level=0).cumcount())
    words = words.assign(plain=words.event != "atomic", writes=words.event != "load").sort_values("word")
    found = words.groupby(["launch", "tensor", "word"], observed=True)
    sums = found.agg(
        blocks=("block", "nunique"), plain=("plain", "any"), writes=("writes", "any"), line=("line", "max")
    )
    mixed = sums[(sums.blocks > 1) & sums.plain & sums.writes]
    if mixed.empty:
        return None
    _, tensor, word = mixed.index[0]
    return str(tensor), int(word), int(mixed.line.iloc[0])


def counts(exercise: Exercise, trace: Trace, problem: Problem) -> Iterator[Count]:
    """The Counts of a right answer on a problem, one for each limit. trace: of the answer."""
    if not exercise.limits:
        return
    own = _by_line(trace)
    others: dict[str, dict[str, pd.DataFrame]] = {}
    for limit in exercise.limits:
        if limit.of not in others:
            solution = FOLDER / exercise.of / "solution.cu"
            kernel = current().kernels[limit.of] if limit.of else load_kernel(solution)
            others[limit.of] = _by_line(traced(kernel, problem))
        name = limit.count
        table = own[name]
        sums = table[table.space == SPACES[name]].groupby(["line", "tensor"])[[name, "requests"]].sum()
        line, tensor = sums[name].idxmax() if len(sums) else (0, "")
        most, asked = map(int, sums.loc[(line, tensor)]) if len(sums) else (0, 1)
        allowed = int(limit.times * others[limit.of][name][name].sum())
        yield Count(limit, int(table[name].sum()), allowed, int(line), tensor, most, asked, int(table.conflicts.sum()))


def _by_line(trace: Trace) -> dict[str, pd.DataFrame]:
    """Count -> Requests.by_line. Records on two sides of a barrier never pair.

    Lanes that pass a probe unequally often pair from their first records or from their last ones. A loop of each lane
    before the real one would shift the pairs, so wavefronts are the larger of both counts.
    """
    frame = trace.frame("launch", "block", "warp", "lane", "seq", "event").sort_values("seq")
    lane = [frame[name] for name in ("launch", "block", "warp", "lane")]
    apart = (frame.event == BARRIER).groupby(lane, observed=True).cumsum().sort_index().to_numpy()
    both = [requests(trace, apart=apart, from_last=from_last).by_line for from_last in (False, True)]
    return {"sectors": both[0], "wavefronts": max(both, key=lambda table: table.wavefronts.sum())}
