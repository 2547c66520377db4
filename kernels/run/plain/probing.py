"""The probed run of a plain kernel on the CPU. Its log grows until it holds all rows of the scope, if memory allows."""

from collections.abc import Callable

import numpy as np

from kernels.build import Build
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.errors import RunError, RunTimeout
from kernels.run.plain import launches
from kernels.run.plain.faults import Fault
from kernels.run.plain.launches import LOG, Probed

FIRST_ROWS = 1 << 18  # of each launch's log at first


def is_automatic(request: Request) -> bool:
    """Whether the request's probes are automatic: a plain kernel on the CPU."""
    return request.kernel.plain and request.backend == "cpu"


def probe(
    request: Request, built: Build, plan: Plan, fresh: Callable[[], dict[str, np.ndarray]], most_bytes: int
) -> tuple[Probed, dict[str, np.ndarray]]:
    """A run with its log, and the arrays after it.

    fresh: gives the arrays before a run.
    most_bytes: of all logs. The log counts the rows beyond.
    """
    room = most_bytes // LOG.itemsize // len(plan.launches)
    late = bool(request.broken)  # so that a what-if build's missing wait shows
    rows = [min(FIRST_ROWS, room)] * len(plan.launches)
    arrays = fresh()
    found = launches.launch(built, plan, arrays, request.scope, rows, late)
    if any(log.lost for log in found.logs) and not found.stopped:
        rows = [min(len(log.rows) + log.lost, room) for log in found.logs]
        arrays = fresh()
        found = launches.launch(built, plan, arrays, request.scope, rows, late)
    return found, arrays


def errors(found: tuple[Fault, ...]) -> list[str]:
    """The sentences of the faults that make a kernel wrong."""
    return [fault.text for fault in found if fault.level == "error"]


def stop(found: Probed) -> RunError:
    """The error of a stopped run, with the faults before it."""
    assert found.stopped is not None
    said = [*errors(found.faults[:-1]), str(found.stopped)]
    return (RunTimeout if isinstance(found.stopped, RunTimeout) else RunError)(" ".join(said))
