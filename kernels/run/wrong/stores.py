"""The line of a .cu that last stored the first wrong element of an output."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tolerance import OutputError
from kernels.run import execute
from kernels.run.results import Run

MOST_STEPS = 2_000_000  # of a problem that is run again for this line


def line_of(request: Request, arrays: Mapping[str, np.ndarray], wrong: Iterable[OutputError]) -> int:
    """The line, or 0 if the trace does not know it. arrays, wrong: of the failed run on the CPU."""
    if request.backend != "cpu" or request.problem.cpu_steps > MOST_STEPS:
        return 0
    places = list(_first_wrong(request, arrays, wrong))
    if not places:
        return 0
    run = execute.run(replace(request, scope=Scope.everything(request.plan)))
    return next(filter(None, (line_of_store(run, output, offset) for output, offset in places)), 0)


def line_of_store(run: Run, output: str, offset: int) -> int:
    """The line of the .cu that last stored the byte of an output, or 0 if the trace does not have it."""
    frame, kernel = run.trace.frame("file", "line", "event", "space", "tensor", "offset", "bytes"), run.request.kernel
    symbols = [symbol for symbol, of in kernel.tensor_of_symbol.items() if of == output]
    hit = (
        frame.event.isin(["store", "atomic"])
        & (frame.space == "global")
        & frame.tensor.isin(symbols)
        & (frame.file == kernel.path.name)
        & (frame.offset <= offset)
        & (offset < frame.offset + frame.bytes)
    )
    return int(frame.line[hit].iloc[-1]) if hit.any() else 0


def _first_wrong(
    request: Request, arrays: Mapping[str, np.ndarray], wrong: Iterable[OutputError]
) -> Iterable[tuple[str, int]]:
    """(output, offset in bytes) of the first wrong element of each output."""
    truth = execute.truth(request.problem, request.backend)
    for error in wrong:
        array = arrays[error.output]
        with np.errstate(invalid="ignore"):
            gap = np.abs(array.astype(np.float64) - truth[error.output])
        places = np.flatnonzero(~(gap <= error.allowed))  # a NaN is never <=
        if places.size:
            yield error.output, int(places[0]) * array.itemsize
