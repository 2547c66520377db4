"""The reason of a failed check: first the order of threads, then missing writes, then the values."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from kernels.core.dtypes import element_type, poison
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Initial
from kernels.core.tolerance import OutputError
from kernels.run import execute
from kernels.run.plain.faults import Fault
from kernels.run.wrong import answers, firsts, patterns
from kernels.run.wrong.found import Found, heads
from kernels.run.wrong.reason import First, Reason

ROUNDINGS, SMALL = 8.0, 1e-4  # an error of at most so many limits, each so small, may be rounding
FEW = 8  # so few small errors fit a pattern by chance
MOST_STEPS = 4_000_000  # of a problem whose whole run is traced


def explain(
    request: Request,
    arrays: Mapping[str, np.ndarray],
    errors: Iterable[OutputError],
    faults: Iterable[Fault] = (),
    orders: str = "",
) -> Reason | None:
    """The reason of a wrong result, or None without a wrong value and without a fault of order.

    orders: the difference between the thread orders in a sentence, or "".
    """
    if reason := _of_order(faults, orders):
        return reason
    wrong = [error for error in errors if not error.ok]
    if not wrong:
        return None
    if reason := _unwritten(request, arrays):
        return reason
    rounding = _rounding(wrong)
    found = heads(request.problem, arrays, {error.output: error.allowed for error in wrong}, tight=bool(rounding))
    found = found if sum(one.wrong.sum() for one in found) > (FEW if rounding else 0) else []
    reason = (patterns.overflow(found) or answers.reason(found) or patterns.reason(found)) if found else None
    if rounding and not reason:
        return rounding
    reason = reason or _unknown(found)
    index: tuple[int, ...] = ()  # of the first wrong element, in logical order
    if one := next((one for one in found if one.wrong.any()), None):
        row, dim = np.unravel_index(int(np.argmax(one.wrong)), one.wrong.shape)
        index = (*one.head.at, *((int(row),) if len(one.wrong) > 1 else ()), int(dim))
    return replace(reason, index=index, first=_of_probes(request, found))


def _of_probes(request: Request, found: list[Found]) -> First | None:
    """The first wrong intermediate, from another run that traces all items of a small problem."""
    small = request.backend == "cpu" and request.problem.cpu_steps <= MOST_STEPS
    probed = not request.kernel.plain or request.kernel.watch
    if not small or not probed or len(found) != sum(1 for _ in request.problem.heads()):
        return None
    run = execute.run(replace(request, scope=Scope.everything(request.plan)))
    return None if run.trace.lost else firsts.first(request, run.trace, found)


def _of_order(faults: Iterable[Fault], orders: str) -> Reason | None:
    races = [fault for fault in faults if fault.level == "error" and "race" in fault.kind]
    blocks = [fault for fault in races if fault.kind == "block race"]
    if blocks:
        return Reason("atomic", f"Several blocks change one value without an atomic: {blocks[0].text}", blocks[0].index)
    if races:
        return Reason("barrier", f"A barrier is missing: {races[0].text}", races[0].index)
    if orders:
        return Reason("barrier", "The result depends on the order of the threads. A barrier or a wait is missing.")
    return None


def _rounding(wrong: list[OutputError]) -> Reason | None:
    """The reason of small errors that fit no pattern."""
    worst = max((error.share for error in wrong), default=0.0)
    if not 1 < worst <= ROUNDINGS or any(error.allowed > SMALL for error in wrong):
        return None
    text = f"The error is only {worst:.2g} times the limit and fits no known mistake. It may be rounding."
    return Reason("rounding", f"{text} Sum long rows in short parts, such as 32 terms.")


def _unwritten(request: Request, arrays: Mapping[str, np.ndarray]) -> Reason | None:
    for tensor in request.problem.outputs:
        if tensor.initial is not Initial.POISON or not element_type(tensor.dtype).is_float:
            continue
        array = arrays[tensor.name]
        before = np.full(1, poison(tensor.dtype), array.dtype).tobytes()
        bits = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1)
        same = (bits == np.frombuffer(before, np.uint8)).all(axis=1)
        if same.any():
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(same)), array.shape))
            place = f"{tensor.name}[{', '.join(map(str, index))}]"
            count = f"{int(same.sum()):,} of {array.size:,}"
            given = [
                t for t in request.problem.tensors() if t.initial is Initial.GIVEN and element_type(t.dtype).is_float
            ]
            if any(bool(np.isnan(arrays[t.name].astype(np.float32)).any()) for t in given if t.name in arrays):
                text = f"{count} values of {tensor.name} have no number. Look for a read of an input's empty place."
                return Reason("nan", text, index)
            return Reason("unwritten", f"{count} values of {tensor.name} are never written, first {place}.", index)
    return None


def _unknown(found: list[Found]) -> Reason:
    if not found:
        return Reason("unknown", "The wrong values have no known pattern.")
    if not any(one.finite.any() for one in found):
        return Reason("nan", "No row has a number. Look for a sum l of 0, or for a value that is not set.")
    share = np.mean([one.wrong.any(axis=1).mean() for one in found])
    return Reason("unknown", f"The wrong values have no known pattern. They are in {share:.0%} of the rows.")
