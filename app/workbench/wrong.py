"""The line that wrote the first wrong element of a result."""

import numpy as np

from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.run import execute
from kernels.run.results import Run


def line_of_wrong(kernel: KernelSpec, case: Case) -> int:
    """The line of the .cu that last wrote the first wrong element of an output, or 0 if the trace does not know it."""
    settings = tuple(case.settings)
    request = Request(kernel, case.problem, settings, Scope.everything(kernel.plan(case.problem, settings)), "cpu")
    run = execute.run(request)
    truth = execute.truth(case.problem, "cpu")
    for error in execute.judge(run.max_abs_errors, execute.yardstick(request), case.problem):
        array = run.arrays[error.output]
        gap = np.abs(array.astype(np.float64) - truth[error.output])
        wrong = np.flatnonzero(~(gap <= error.allowed))  # a NaN is never <=
        if wrong.size:
            return _last_write(run, error.output, int(wrong[0]) * array.itemsize)
    return 0


def _last_write(run: Run, tensor: str, offset: int) -> int:
    kernel = run.request.kernel
    frame = run.trace.frame("file", "line", "event", "space", "tensor", "offset", "bytes")
    symbols = [symbol for symbol, of in kernel.tensor_of_symbol.items() if of == tensor]
    hit = (
        frame.event.isin(["store", "atomic"])
        & (frame.space == "global")
        & frame.tensor.isin(symbols)
        & (frame.file == kernel.path.name)
        & (frame.offset <= offset)
        & (offset < frame.offset + frame.bytes)
    )
    lines = frame.line[hit]
    return int(lines.iloc[-1]) if len(lines) else 0
