"""The work lists of a kernel: the pages of all sequences, cut into equal ranges.

A *unit* is a piece of a sequence. A range has one unit or more.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explainers.story import axes
from kernels.core.request import Request
from kernels.kv_cache.work_list import FIELDS
from kernels.run.results import Run

LIST_AXES = ("unit", "field")
SEQ, FIRST, PAGES, NEXT, TOKENS, SLOT, PARTITION, PARTITIONS = range(len(FIELDS))


@dataclass(frozen=True)
class WorkList:
    """The list of a launch.

    launch: the launch.
    table: int [units, 8], a row of FIELDS for each unit.
    ranges: the number of ranges.
    shared: whether the units belong to prefixes. The field seq is then the first of `partitions` sharers.
    range_of: the range of each unit.
    """

    launch: int
    table: np.ndarray
    ranges: int
    shared: bool

    @cached_property
    def range_of(self) -> list[int]:
        found = [-1] * len(self.table)
        for number in range(self.ranges):
            unit = number
            while unit >= 0:
                found[unit] = number
                unit = int(self.table[unit, NEXT])
        return found

    def sequences(self, unit: int) -> list[int]:
        """Returns the sequences of a unit."""
        first = int(self.table[unit, SEQ])
        return list(range(first, first + int(self.table[unit, PARTITIONS]))) if self.shared else [first]

    @cached_property
    def in_order(self) -> list[int]:
        """Returns the units in the order of their pages."""
        return sorted(range(len(self.table)), key=lambda n: (self.table[n, SEQ], self.table[n, FIRST]))


def work_lists(run: Run) -> list[WorkList]:
    """Returns the work list of each launch. All but the last are of prefixes."""
    launches, names = run.request.plan.launches, list_names(run.request)
    last = len(launches) - 1
    return [
        WorkList(n, np.asarray(run.arrays[name]), launch.blocks // launch.blocks_per_item, n < last)
        for n, (name, launch) in enumerate(zip(names, launches))
    ]


def list_names(request: Request) -> list[str]:
    """Returns the name of each launch's work list among the arrays."""
    known = {tensor.name for tensor in axes.with_axes(request, *LIST_AXES).values()}
    return [
        next(name for name in launch.args if isinstance(name, str) and name in known)
        for launch in request.plan.launches
    ]
