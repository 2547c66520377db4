"""Shared by tests on a GPU: a run of a timed build, judged against float64."""

from kernels.core.problem import inputs_of
from kernels.core.request import Request
from kernels.core.tolerance import OutputError
from kernels.measure import judging, protocol
from kernels.run.backends import gpu


def judged(request: Request) -> tuple[OutputError, ...]:
    """The errors of each output of one run in this process, as the timing protocol judges them before it times."""
    with gpu.errors():
        outputs = protocol.Kernel(request, inputs_of(request.problem)).first_run()
        return judging.judged(request.problem, outputs)
