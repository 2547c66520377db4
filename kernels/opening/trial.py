"""A trial run of a kernel with ample memory: how far it reaches into each pointer, and the size that explains it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from kernels.core.expressions import evaluate
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.run import execute

AMPLE = 2**20  # elements of each pointer in the trial
MOST_THREADS = 2**14  # of a trial with a log of all blocks. A larger one logs the last block of each launch
NEAR = 0.75  # of a size: a kernel that reaches so far has a memory of this size
Reach = tuple[dict[str, int], list[str]]
"""(a tensor or shared array -> the bytes up to the end of its farthest access, the stored ones)."""


def request_of(kernel: KernelSpec) -> Request:
    """The trial of a kernel, with its default problem."""
    texts = tuple(replace(text, item=f"block {number}") for number, text in enumerate(kernel.launch_texts))
    kernel = replace(kernel, launch_texts=texts)
    problem = kernel.problem_type()
    plan = kernel.plan(problem)
    scope = Scope.everything(plan)
    if sum(launch.blocks * launch.threads for launch in plan.launches) > MOST_THREADS:
        last = [(launch.item, launch.items - 1, 1) for launch in plan.launches]
        scope = Scope(last[0][1], 1, tuple(last[1:]))
    return Request(kernel, problem, (), scope, "cpu")


def reach(request: Request) -> Reach:
    """The Reach of a trial, in a worker. Raises RunError."""
    frame = execute.run(request).trace.frame("space", "tensor", "offset", "bytes", "event")
    frame = frame[frame.space.notna()]
    of = request.kernel.tensor_of_symbol
    names = frame.tensor.astype(str).map(lambda name: of.get(name, name))
    ends = (frame.offset + frame.bytes).groupby(names).max()
    stored = names[frame.event.isin(["store", "atomic"])].unique()
    return {str(name): int(end) for name, end in ends.items()}, [str(name) for name in stored]


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
    if exact:
        return min(exact, key=lambda said: (len(said.split()), said)), True
    if count <= 1 or count in numbers.values():
        return str(count), True
    return min(fitting, key=lambda said: (fitting[said], len(said))) if fitting else "", False
