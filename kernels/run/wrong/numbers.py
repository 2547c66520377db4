"""The first operation of a run without a number, such as (-inf) - (-inf), with its line."""

import re

from kernels.build import Mode, unset
from kernels.core.request import Request
from kernels.errors import RunError
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.plain import launches
from kernels.run.plain.faults import Fault, of_stop
from kernels.run.wrong.found import Reason

KIND = "no number"  # of faults.STOPS
REMEDIES = {
    "(-inf) - (-inf)": "Here no key is visible so far, so m is -inf. Take 0 in place of m for the exponents then.",
    "0 / 0": "Look for a sum l of 0: a row without a visible key.",
    "0 * inf": "Look for a factor that overflows, or a sum that starts at inf.",
}
UNSET = "No operation makes these NaN. Look for a local that is not set, or for a read of an unwritten value."


def first_invalid(request: Request) -> Fault | None:
    """The Fault of a second run on the CPU that stops at the first operation without a number. None if no operation is
    one: then the NaN comes from an unset local or from memory."""
    mode = Mode.PROBED if launches.is_automatic(request) else Mode.TIMED
    built, plan, arrays = execute.prepare(request, mode)
    if mode is Mode.PROBED:
        rows = [0] * len(plan.launches)
        stopped = launches.launch(built, plan, arrays, request.scope, rows, cpu.TRAP_INVALID).stopped
    else:
        try:
            cpu.launch(built, plan, arrays, request.scope, reversed_order=cpu.TRAP_INVALID)
            stopped = None
        except RunError as error:
            stopped = error
    fault = of_stop(str(stopped)) if stopped else None
    return fault if fault and fault.kind == KIND else None


def reason(request: Request) -> Reason:
    """The reason of an additional NaN in an output."""
    fault = first_invalid(request)
    if not fault:
        mode = Mode.PROBED if launches.is_automatic(request) else Mode.TIMED
        found = unset.named(execute.prepare(request, mode)[0].log)
        said = f"Line {found[0][1]} uses {found[0][2]}, which has no value yet. Set it first." if found else UNSET
        return Reason("nan", said, line=found[0][1] if found else 0)
    operation = re.search(r"without a number is (.*?);", fault.text)
    said = operation[1] if operation else "an operation without a result"
    where = f"Line {fault.lines[0]} makes the first NaN" if fault.lines else "The kernel makes the first NaN"
    remedy = next((text for part, text in REMEDIES.items() if part in said), "")
    return Reason("nan", f"{where}: {said}. {remedy}".strip(), line=fault.lines[0] if fault.lines else 0)
