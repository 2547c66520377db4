"""Runs in a worker, each made once: a story is a lens on a run, and the next story looks at the same one."""

from functools import lru_cache

from explainers import stage
from kernels.core.request import Request
from kernels.core.tolerance import OutputError
from kernels.errors import BackendUnavailable, WarpglassError
from kernels.run import execute
from kernels.run.backends import gpu
from kernels.run.results import Run, Traffic

KEPT = 12  # runs that a worker holds


@lru_cache(maxsize=KEPT)
def run(request: Request) -> Run:
    """The Run of a Request."""
    return execute.run(request)


@lru_cache(maxsize=256)
def traffic(request: Request) -> Traffic:
    """The Traffic of a Request."""
    return execute.traffic(request)


@lru_cache(maxsize=1)
def live_gpu() -> tuple[int, str] | None:
    """Multiprocessors and name of the GPU that is here, whatever a run is on; None where there is none."""
    try:
        found = gpu.device()
    except BackendUnavailable:
        return None
    return found.multiprocessors, found.name


def traffic_of_each(requests: list[Request]) -> tuple[list[tuple[Request, Traffic]], list[str]]:
    """((request, its Traffic) of each that has one, and for the others a sentence that says why not). One kernel's
    fault is not the page's."""
    found, absent = [], []
    for request in requests:
        try:
            found.append((request, traffic(request)))
        except WarpglassError as error:
            absent.append(not_compared(request, error))
    return found, absent


def not_compared(request: Request, error: WarpglassError) -> str:
    return f"{request.kernel.name} is not compared. {str(error).split('. ')[0].rstrip('.')}."


@lru_cache(maxsize=256)
def _yardstick(request: Request) -> dict[str, float]:
    return execute.yardstick(request)


def errors(made: Run) -> tuple[OutputError, ...]:
    """Each output's error beside torch's own on the same problem."""
    return execute.judge(made.max_abs_errors, _yardstick(made.request), made.request.problem)


def provenance(made: Run) -> stage.Provenance:
    """Where a run's values come from, and how far its worst output is from float64."""
    return stage.provenance(made, errors(made))
