"""A trial run of a kernel with ample memory: how far it reaches into each pointer, and the size that explains it."""

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from kernels.core.expressions import evaluate
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.run import execute
from kernels.run.plain import launches

AMPLE = 2**18  # elements of each pointer in the trial
NEAR = 0.75  # of a size: a kernel that reaches so far has a memory of this size
Reach = tuple[dict[str, int], list[str], list[str]]
"""(a tensor or shared array -> the bytes up to the end of its farthest access, the stored ones, the faults)."""


def request_of(kernel: KernelSpec) -> Request:
    """The trial of a kernel, with its default problem."""
    return Request(kernel, kernel.problem_type(), (), Scope(), "cpu")


def reach(request: Request) -> Reach:
    """The Reach of a trial, in a worker. Raises RunError if it was stopped."""
    *_, probed, _ = execute.probe_plain(request)
    if probed.stopped:
        raise launches.stop(probed)
    reached = {one.name: one.reach for one in probed.regions}
    return reached, [one.name for one in probed.regions if one.written], launches.errors(probed.faults)


def size_of(count: int, sizes: Mapping[str, int], numbers: Mapping[str, int]) -> tuple[str, bool]:
    """(the simplest size of at least `count` elements and hardly more, or "", whether it is `count`).

    sizes: the fields of the trial, with different values. numbers: other names, such as those of constants."""
    found = dict[str, int]()
    for most in range(1, 5):
        for names in combinations(sizes, most):
            product = " * ".join(names)
            for said in (product, *(f"{number} * {product}" for number in (2, 3, 4))):
                found.setdefault(said, int(evaluate(said, sizes, "")))
    fitting = {said: value for said, value in found.items() if NEAR * value <= count <= value}
    exact = [said for said, value in fitting.items() if value == count]
    plain = [said for said in exact if not said[0].isdigit()]
    if not plain and (count <= 1 or count in numbers.values()):
        return str(count), True
    if exact:
        return min(exact, key=lambda said: (len(said.split()), said)), True
    return min(fitting, key=lambda said: (fitting[said], len(said))) if fitting else "", False


def of_blocks(
    entries: Iterable[Mapping[str, Any]], sizes: Mapping[str, int], numbers: Mapping[str, int], count: int
) -> str:
    """The size of a memory with as many elements for each block as a number of the text, or "".

    entries: the launches, with their grids."""
    for entry in entries:
        grid = [f"({size})" if " " in str(size) else str(size) for size in entry["grid"]]
        blocks = math.prod(int(evaluate(size, sizes, "")) for size in grid)
        for number in (1, *numbers.values()):
            if blocks > 1 and number > 0 and blocks * number == count:
                return " * ".join([*grid, *([str(number)] if number > 1 else [])])
    return ""
