"""The one gateway from pages to run.workers: results are kept, long work shows progress and can be stopped, errors
become messages.

Only answers are kept. What failed, perhaps because its worker died, is tried again when it is asked for again.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import streamlit as st

from app.choices import link
from kernels.build import DEFAULT_ARCH, Mode, disassembly, inspection
from kernels.build import occupancy as occupancies
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.errors import ProblemError, RunCancelled, WarpglassError
from kernels.run import execute, workers
from kernels.run.backends import Survey
from kernels.run.results import Run, Traffic
from kernels.timing import bench, hierarchy, timelines
from kernels.timing.protocol import Point
from kernels.timing.sweeps import Skipped

PATIENCE = 1.5  # seconds a page waits for a run before it shows progress and a stop button
KEPT_BYTES = 2**30  # of results, over all sessions; the oldest go first
Settings = tuple[tuple[str, int], ...]

_results: OrderedDict[Any, Any] = OrderedDict()
_lock = threading.Lock()


def survey() -> Survey:
    """What this machine can run on."""
    return workers.survey()


def run(request: Request) -> Run:
    """The Run of a Request; on an error or a wait, says so on the page and stops it there."""
    return _get("run", execute.run, request)


def errors(run: Run) -> tuple[OutputError, ...]:
    """Each output's error beside torch's own on the same problem, as `run`."""
    yardstick = _get("torch", execute.yardstick, run.request, patience=20)
    return execute.judge(run.max_abs_errors, yardstick, run.request.problem)


def traffic(request: Request) -> Traffic:
    """The Traffic of a Request, as `run`."""
    return _get("traffic", execute.traffic, request)


def traffic_of_each(requests: list[Request]) -> tuple[list[tuple[Request, Traffic]], list[str]]:
    """((request, its Traffic) of each that has one, and for the others a sentence that says why not). One kernel's
    fault is not the page's."""
    found, absent = [], []
    for request in requests:
        key = ("traffic", request)
        try:
            found.append((request, _answer(key, execute.traffic)))
        except WarpglassError as error:
            _jobs().pop(key, None)
            absent.append(f"{request.kernel.name} is not compared. {str(error).split('. ')[0].rstrip('.')}.")
    return found, absent


def timeline(request: Request) -> timelines.Timeline:
    """The Timeline of a Request, as `run`."""
    return _get("timeline", timelines.timeline, request, patience=20)


def cycles(request: Request) -> dict[str, Any]:
    """Measured cycles per access of a walk on this GPU (timing.hierarchy.cycles_point), kept; WarpglassError if it
    fails."""
    return _now(hierarchy.cycles_point, request.problem, request.settings, backend="gpu", what="Timing the walk")


def hierarchy_point(place: hierarchy.Place) -> dict[str, Any]:
    """One row of the memory hierarchy, measured on this GPU."""
    return workers.submit(hierarchy.point, place, backend="gpu", what="Measuring the memory hierarchy").result()


@lru_cache(maxsize=1)
def roofs() -> dict[str, float]:
    """This GPU's roofs (timing.protocol.roofs), measured once; WarpglassError if they cannot be, and then again."""
    return bench.measured_roofs()


def timed(point: Point | Skipped) -> dict[str, Any]:
    """A point's row of a table of times, timed on this GPU; one that fails has its reason."""
    return bench.time_point(point, roofs())


def occupancy(
    kernel: KernelSpec, problem: Any, settings: Settings, arch: str, multiprocessors: int | None = None
) -> tuple[occupancies.Occupancy, ...]:
    """What build.occupancy says of each launch, compiled in a worker; WarpglassError if it cannot."""
    return _compiled(kernel, occupancies.occupancy, kernel, problem, settings, arch, Mode.TIMED, multiprocessors)


def alternatives(
    kernel: KernelSpec, problem: Any, settings: Settings, arch: str, multiprocessors: int | None = None
) -> list:
    """What other sizes of a block would give (build.occupancy.alternatives), compiled in a worker."""
    return _compiled(kernel, occupancies.alternatives, kernel, problem, settings, arch, multiprocessors)


def listing(
    kernel: KernelSpec, problem: Any, settings: Settings, mode: Mode, arch: str
) -> tuple[disassembly.Listing, Any]:
    """(disassembly.Listing, its width checks) of a build, compiled in a worker; WarpglassError if it cannot."""
    return _compiled(kernel, _listing, kernel, problem, settings, mode, arch)


def _listing(*build_of: Any) -> tuple[disassembly.Listing, Any]:
    return disassembly.listing(*build_of), disassembly.check_widths(*build_of)


def facts(
    kernel: KernelSpec, problem: Any, settings: Settings, arch: str = DEFAULT_ARCH
) -> tuple[dict[str, Any] | None, str | None]:
    """(what the compiler made of both builds (build.inspection.inspect), None), or (None, the reason why that is not
    known)."""
    try:
        return _compiled(kernel, inspection.inspect, kernel, problem, settings, arch), None
    except WarpglassError as error:
        return None, str(error)


def _compiled(kernel: KernelSpec, function: Callable, *args: Any) -> Any:
    return _now(function, *args, backend="cpu", what=f"Compiling {kernel.name}")


@lru_cache(maxsize=512)
def _now(function: Callable, *args: Any, backend: str, what: str) -> Any:
    """The function's answer, computed in a worker and kept. An error is raised, and lru_cache keeps none."""
    return workers.submit(function, *args, backend=backend, what=what).result()


def _get(task: str, function: Callable, request: Request, patience: float = PATIENCE) -> Any:
    """The answer of a task. While it runs the page shows progress and ends there; so it does after an error, which it
    says."""
    key = (task, request)
    try:
        return _answer(key, function, patience)
    except ProblemError as error:
        _jobs().pop(key, None)
        st.error(f"**This problem cannot run.** {error}", icon=":material/block:")
    except WarpglassError as error:
        title = "Stopped." if isinstance(error, RunCancelled) else "The run failed."
        st.error(f"**{title}** {error}", icon=":material/error:")
        if st.button("Run again", key=f"again-{task}"):
            _jobs().pop(key, None)
            st.rerun()
    st.stop()


def _answer(key: tuple[str, Request], function: Callable, patience: float = PATIENCE) -> Any:
    """The answer of a task, shared by all sessions; WarpglassError if it cannot be had."""
    task, request = key
    with _lock:
        if key in _results:
            _results.move_to_end(key)
            return _results[key]
    jobs, what = _jobs(), f"{request.kernel.name} ({task})"
    if key not in jobs:
        execute.check_possible(request, survey().pick(request.backend))
        jobs[key] = (workers.submit(function, request, backend=request.backend, what=what), time.monotonic())
    try:
        result = jobs[key][0].result(timeout=patience)
    except TimeoutError:
        _wait(key, what)
    del jobs[key]
    with _lock:
        _results[key] = result
        while sum(map(_size, _results.values())) > KEPT_BYTES and len(_results) > 1:
            _results.popitem(last=False)
    return result


def _jobs() -> dict[Any, Any]:
    """This session's jobs that have not been answered: (task, request) -> (future, when it was submitted)."""
    return st.session_state.setdefault("jobs", {})


def _size(result: Any) -> int:
    """Bytes that a result holds: a Run's are its trace's and its arrays', others are small."""
    return (
        result.trace.table.nbytes + sum(a.nbytes for a in result.arrays.values()) if isinstance(result, Run) else 1000
    )


def _wait(key: Any, what: str) -> None:
    """Progress and a stop button until the job is done; the page goes no further."""

    @st.fragment(run_every=0.5)
    def progress() -> None:
        if key not in _jobs():  # of a page that was left while it waited: another page has had the answer
            return
        job, started = _jobs()[key]
        if job.done():
            st.rerun()
        seconds = time.monotonic() - started
        st.info(
            f"{what} is running: {seconds:.0f} s so far; it is stopped after {workers.TIME_LIMIT:g} s.",
            icon=":material/hourglass_top:",
        )
        if st.button("Stop", key="stop"):
            job.cancel()
            st.rerun()

    progress()
    link.tell_again()
    st.stop()
