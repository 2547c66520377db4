"""The one gateway from pages to kernels.workers: results are kept, long work shows progress and can be stopped, errors become messages."""

import threading
import time
from collections import OrderedDict
from functools import lru_cache

import streamlit as st

from kernels import bench, build, disassembly, execute, inspection, measure, measurements, workers
from kernels import occupancy as occupancies
from kernels.build import Mode
from kernels.errors import ProblemError, RunCancelled, RunError, WarpglassError

PATIENCE = 1.5  # seconds a page waits for a run before it shows progress and a stop button
KEPT_BYTES = 2**30  # of results, over all sessions; the oldest go first

_results, _lock = OrderedDict(), threading.Lock()


def survey():
    """backends.Survey of this machine."""
    return workers.survey()


def run(request):
    """The Run of a Request; on an error or a wait, says so on the page and stops it there."""
    return _get("run", execute.run, request)


def baseline(request):
    """torch's own largest error on the request's problem, as `run`."""
    return _get("torch", execute.baseline, request, patience=20)


def traffic(request):
    """The Traffic of a Request, as `run`."""
    return _get("traffic", execute.traffic, request)


def cycles(problem, settings):
    """Measured cycles per access of lab_columns on this GPU (measurements.cycles_point), kept; WarpglassError if it fails."""
    return _now(measurements.cycles_point, problem, settings, backend="gpu", what="Timing the walk")


def timeline(request):
    """The Timeline of a Request, as `run`."""
    return _get("timeline", measurements.timeline, request, patience=20)


def hierarchy_point(problem):
    """One row of the memory hierarchy, measured on this GPU (measurements.hierarchy_point)."""
    return workers.submit(measurements.hierarchy_point, problem, backend="gpu", what="Measuring the memory hierarchy").result()


def roofs():
    """This GPU's roofs (measure.roofs), measured once; WarpglassError if they cannot be."""
    return _now(measure.roofs, backend="gpu", what="Measuring the roofs")


def timed(point, roofs):
    """The row (bench.row) of a measure.Point, timed on this GPU; one that fails has its reason."""
    try:
        timing = workers.submit(measure.measure, point, backend="gpu", what=point.name).result()
    except RunError as error:
        timing = measure.Timing(point, "failed", str(error))
    return bench.row(timing, roofs)


@lru_cache(maxsize=256)
def _now(function, *args, backend, what):
    return workers.submit(function, *args, backend=backend, what=what).result()


def occupancy(kernel, problem, settings, arch, multiprocessors=None):
    """What occupancy.occupancy says, compiled in a worker; WarpglassError if it cannot."""
    return _now(occupancies.occupancy, kernel, problem, settings, arch, Mode.TIMED, multiprocessors, backend="cpu", what=f"Compiling {kernel.name}")


def alternatives(kernel, problem, settings, arch, multiprocessors=None):
    """What other tile sizes would give (occupancy.alternatives), compiled in a worker."""
    return _now(occupancies.alternatives, kernel, problem, settings, arch, multiprocessors, backend="cpu", what=f"Compiling {kernel.name}")


def listing(kernel, problem, settings, mode, arch):
    """(disassembly.Listing, its width checks) of a build, compiled in a worker; WarpglassError if it cannot."""
    return _now(_listing, kernel, problem, settings, mode, arch, backend="cpu", what=f"Compiling {kernel.name}")


def _listing(*build_of):
    return disassembly.listing(*build_of), disassembly.check_widths(*build_of)


@lru_cache(maxsize=64)
def facts(kernel, problem, settings, arch=build.DEFAULT_ARCH):
    """What the compiler made of both builds (inspection.inspect), or the reason why that is not known."""
    try:
        return workers.submit(inspection.inspect, kernel, problem, settings, arch, backend="cpu", what=f"Compiling {kernel.name}").result(), None
    except WarpglassError as error:
        return None, str(error)


def _get(task, function, request, patience=PATIENCE):
    key = (task, request)
    with _lock:
        if key in _results:
            _results.move_to_end(key)
            return _results[key]
    jobs = st.session_state.setdefault("jobs", {})
    what = f"{request.kernel.name} ({task})"
    try:
        if key not in jobs:
            execute.check_possible(request, survey().pick(request.backend))
            jobs[key] = (workers.submit(function, request, backend=request.backend, what=what), time.monotonic())
        result = jobs[key][0].result(timeout=patience)
    except TimeoutError:
        _wait(key, what)
    except ProblemError as error:
        jobs.pop(key, None)
        st.error(f"**This problem cannot run.** {error}", icon=":material/block:")
        st.stop()
    except WarpglassError as error:
        title = "Stopped." if isinstance(error, RunCancelled) else "The run failed."
        st.error(f"**{title}** {error}", icon=":material/error:")
        if st.button("Run again", key=f"again-{task}"):
            del jobs[key]
            st.rerun()
        st.stop()
    del jobs[key]
    with _lock:
        _results[key] = result
        while sum(map(_size, _results.values())) > KEPT_BYTES and len(_results) > 1:
            _results.popitem(last=False)
    return result


def _size(result):
    """Bytes that a result holds: a Run's are its trace's and its arrays', others are small."""
    return result.trace.table.nbytes + sum(a.nbytes for a in result.arrays.values()) if isinstance(result, execute.Run) else 1000


def _wait(key, what):
    """Progress and a stop button until the job is done; the page goes no further."""

    @st.fragment(run_every=0.5)
    def progress():
        job, started = st.session_state.jobs[key]
        if job.done():
            st.rerun()
        st.info(f"{what} is running: {time.monotonic() - started:.0f} s so far; it is stopped after {workers.TIME_LIMIT:g} s.", icon=":material/hourglass_top:")
        if st.button("Stop", key="stop"):
            job.cancel()
            st.rerun()

    progress()
    st.stop()
