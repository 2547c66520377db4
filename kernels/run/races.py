"""Races and missing waits, found on the CPU: the timed build runs in both thread orders, and its outputs must agree."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels.build import Mode
from kernels.core.dtypes import element_type, widened
from kernels.core.request import Request
from kernels.core.tensors import SUMS
from kernels.errors import RunError, RunTimeout
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.plain.faults import Fault, of_stop

LATE = "with the blocks and threads in the opposite order and late copies"


def late_outputs(request: Request) -> dict[str, np.ndarray]:
    """The arrays of the timed build on the CPU, with opposite block and thread order and late asynchronous copies.
    Raises RunError if only this order fails."""
    built, plan, arrays = execute.prepare(request, Mode.TIMED)
    try:
        cpu.launch(built, plan, arrays, request.scope, reversed_order=True)
    except RunTimeout:
        raise
    except RunError as error:
        raise RunError(f"{LATE}: {error}") from None
    return arrays


WATCHED_STEPS = 8_000_000  # of a problem whose accesses are compared


def watched(request: Request) -> tuple[Fault, ...]:
    """The first race or missing wait of a kernel with written probes, with both lines. A kernel in CUDA's own names
    has its faults from its probed run."""
    if request.problem.cpu_steps > WATCHED_STEPS:
        return ()
    built, plan, arrays = execute.prepare(request, Mode.PROBED)
    try:
        capacities = [1] * len(plan.launches)
        cpu.launch(built, plan, arrays, request.scope, capacities, reversed_order=cpu.WATCH_RACES)
    except RunTimeout:
        raise
    except RunError as error:
        fault = of_stop(str(error))
        if fault.kind not in ("race", "missing wait"):
            return ()
        said = re.sub(r"(?<!\S)\S+\.cuh?:(\d+)", r"line \1", fault.text.partition(f"{fault.kind}: ")[2])
        said = said.partition(";")[0]
        lines = tuple(dict.fromkeys(map(int, re.findall(r"\bline (\d+)", said))))
        return (replace(fault, text=f"{said}.", lines=lines),)
    return ()


def race(request: Request, arrays: Mapping[str, np.ndarray], late: Mapping[str, np.ndarray]) -> str:
    """The difference between the outputs of the two orders in a sentence, or "". If a kernel adds in any order, its
    outputs may differ by rounding. Then only float64 judges both runs."""
    if sums_in_any_order(request):
        return ""
    found = [_difference(t.name, arrays[t.name], late[t.name]) for t in request.problem.outputs]
    differences = "; ".join(filter(None, found))
    return f"{differences}. This is a race, or a wait is missing" if differences else ""


def look_for_race(request: Request) -> str:
    """`race` for the request's timed build on the CPU, in a worker, and the sentence of `watched`. If only float64
    judges, it lists the wrong outputs of the opposite order."""
    faults = () if request.kernel.plain else watched(request)
    return ". ".join(filter(None, (_of_orders(request), *(fault.text for fault in faults))))


def _of_orders(request: Request) -> str:
    try:
        late = late_outputs(request)
    except RunTimeout:
        raise
    except RunError as error:
        return str(error)
    if not sums_in_any_order(request):
        return race(request, execute.run_timed_build(request), late)
    found = execute.largest_errors(request.problem, late, plan=request.plan)
    errors = execute.judge(found, execute.yardstick(request), request.problem, request.kernel.plain)
    wrong = [f"{e.output}: {e.said}, allowed {e.allowed:.3g}" for e in errors if not e.ok]
    return f"{LATE}: {'; '.join(wrong)}" if wrong else ""


def sums_in_any_order(request: Request) -> bool:
    """Whether blocks add fractions to a tensor in any order. Two runs may then differ in the last bits."""
    return sums_of_blocks(request) and not request.kernel.adds_in_order(request.problem, request.constants)


def sums_of_blocks(request: Request) -> bool:
    return any(t.initial in SUMS and element_type(t.dtype).is_float for t in request.plan.written)


def _difference(name: str, array: np.ndarray, late: np.ndarray) -> str:
    shape = (array.size, array.itemsize)
    bytes_ = [np.ascontiguousarray(a).view(np.uint8).reshape(shape) for a in (array, late)]
    differ = np.flatnonzero((bytes_[0] != bytes_[1]).any(axis=1))
    if not len(differ):
        return ""
    at = tuple(int(i) for i in np.unravel_index(differ[0], array.shape))
    both = (widened(a)[at] for a in (array, late))
    values = " and ".join(f"{v:.6g}" if isinstance(v, (float, np.floating)) else str(v) for v in both)
    return (
        f"{name} differs between thread orders / late copies in {len(differ):,} of {array.size:,} elements, first at "
        f"{name}[{', '.join(map(str, at))}] ({values})"
    )
