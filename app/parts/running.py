"""Runs in a worker, each made once: a story is a lens on a run, and the next story looks at the same one."""

import math
from collections import OrderedDict
from functools import lru_cache

import numpy as np

from explainers.story import stage
from explainers.story.glossary import short
from kernels.core.request import Request
from kernels.core.tolerance import OutputError
from kernels.errors import BackendUnavailable, WarpglassError
from kernels.run import execute, races
from kernels.run.backends import gpu
from kernels.run.results import Run, Traffic

KEPT_BYTES = 2**23  # of the runs that a worker holds
LEAST, MOST = 2, 12  # runs that it holds, at least and at most: a comparison looks at two
_runs: OrderedDict[Request, Run] = OrderedDict()  # the last ones used come last


def run(request: Request) -> Run:
    if request not in _runs:
        _runs[request] = execute.run(request)
    _runs.move_to_end(request)
    while len(_runs) > MOST or len(_runs) > LEAST and sum(map(_bytes_of, list(_runs.values()))) > KEPT_BYTES:
        _runs.popitem(last=False)
    return _runs[request]


run_to_fault = execute.run_to_fault


def forget() -> None:
    _runs.clear()


def _bytes_of(run: Run) -> int:
    return run.trace.table.nbytes + sum(array.nbytes for array in run.arrays.values())


def outputs_again(request: Request) -> dict[str, np.ndarray]:
    """The arrays of a second run: on the CPU with blocks and threads in the opposite order."""
    return races.late_outputs(request) if request.backend == "cpu" else execute.run_timed_build(request)


@lru_cache(maxsize=256)
def traffic(request: Request) -> Traffic:
    return execute.traffic(request)


@lru_cache(maxsize=1)
def live_gpu() -> tuple[int, str] | None:
    """Multiprocessors and name of this machine's GPU, whatever the backend of a run. None without a GPU."""
    try:
        found = gpu.device()
    except BackendUnavailable:
        return None
    return found.multiprocessors, found.name


def traffic_of_each(requests: list[Request]) -> tuple[list[tuple[Request, Traffic]], list[str]]:
    """((request, Traffic) of each request, and a sentence for each request without). A fault of one kernel does not
    end the page."""
    found, absent = [], []
    for request in requests:
        try:
            found.append((request, traffic(request)))
        except WarpglassError as error:
            absent.append(not_compared(request, error))
    return found, absent


def not_compared(request: Request, error: WarpglassError) -> str:
    return f"{request.kernel.name} is not compared. {error.brief}"


@lru_cache(maxsize=256)
def _yardstick(request: Request) -> dict[str, float]:
    return execute.yardstick(request)


def errors(run: Run) -> tuple[OutputError, ...]:
    """Each output's error beside torch's own on the same problem."""
    return execute.judge(run.max_abs_errors, _yardstick(run.request), run.request.problem, run.request.kernel.plain)


def broken(run: Run) -> tuple[str, str]:
    """The fault in the outputs of a what-if build, in a sentence, and its tone. Two empty texts for other builds."""
    if not run.request.broken:
        return "", ""
    effects = " ".join(f"{constant.what_if}: {constant.effect}" for constant in run.request.broken)
    wrong = [error for error in errors(run) if not error.ok]
    if not wrong:
        return f"{effects} On this problem the output is right all the same.", "info"
    worst = max(wrong, key=lambda error: error.share)
    if not math.isfinite(worst.largest):
        return f"{effects} The output holds NaN or infinity.", "bad"
    return (
        f"{effects} The output {worst.output} is off by up to {short(worst.largest, 3)}. Rounding explains "
        f"{short(worst.allowed, 2)}.",
        "bad",
    )


def provenance(run: Run) -> stage.Provenance:
    return stage.provenance(run, errors(run))
