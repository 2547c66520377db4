"""The arguments of probes for the kernels that a kernel launches: a table in memory, an entry for each launch."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from kernels.core.launch import Plan

Value = TypeVar("Value")
"""An additional argument of a launch, for its probes: an array of the backend, or a number."""


def with_tables(
    plan: Plan,
    extras: Sequence[tuple[Value, ...]],
    address: Callable[[Value], np.generic],
    store: Callable[[np.ndarray], Value],
) -> list[tuple[Value, ...]]:
    """The additional arguments of each launch of a plan. Those of a parent end with its table.

    address: the address of an array. A number stays as it is.
    store: brings a table into memory of the kernel.
    """
    found = list(extras)
    for number, own in enumerate(extras):
        children = plan.children_of(number)
        if children and own:
            rows = [[address(value) for value in extras[n]] for n in children]
            layout = np.dtype([(f"f{n}", value.dtype) for n, value in enumerate(rows[0])], align=True)
            table = np.zeros(len(rows), layout)  # of ProbeChild (device/children.cuh). Its padding reaches a stranger
            for n, row in enumerate(rows):
                table[n] = tuple(row)
            found[number] = (*own, store(table.view(np.uint8)))
    return found
