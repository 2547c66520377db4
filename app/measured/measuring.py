"""Measurements on this machine's GPU for readers in the browser.

The server makes one measurement at a time, point after point in the background. Each point is a task of the GPU's
worker. The results stay in memory, for all pages. `start` checks the points before the first launch. `times` and
`levels` return the results so far, as immutable values for subjects.
"""

import datetime
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kernels import catalog
from kernels.errors import FAULT, ProblemError, WarpglassError
from kernels.measure import hierarchy, protocol, sweeps
from kernels.measure.bench_rows import COLUMNS, Now, row, skipped_row
from kernels.measure.in_worker import TIME_LIMIT
from kernels.measure.protocol import Point, Timing
from kernels.measure.sweeps import Skipped
from kernels.run import workers
from kernels.run.backends import Survey

Row = Mapping[str, object]
T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """The progress of a measurement.

    of, done: the number of points, and of finished points.
    now: the present point.
    error: why the last measurement ended early.
    version: changes with the results.
    """

    running: bool = False
    what: str = ""
    done: int = 0
    of: int = 0
    now: str = ""
    seconds: float = 0.0
    error: str = ""
    version: int = 0


_lock = threading.Lock()
_found = {"sweep": Now(), "hierarchy": Now()}
_progress = Progress()
_began = 0.0
_stopping = threading.Event()
_job: workers.Job | None = None


def times() -> Now:
    return _found["sweep"]


def levels() -> Now:
    return _found["hierarchy"]


def progress() -> Progress:
    with _lock:
        seconds = time.monotonic() - _began if _progress.running else _progress.seconds
        return replace(_progress, seconds=round(seconds, 1))


def start(request: object) -> Progress:
    """Starts a measurement: {what: hierarchy}, or {what: sweep, kernels: [name], field, values: text, set: text, peers,
    warm}. With gpu: the id of the GPU, by default the first. Raises ProblemError if it cannot be measured."""
    if not isinstance(request, dict) or request.get("what") not in tuple(_found):
        raise ProblemError(f"what is {request!r:.60}. It must be one of {', '.join(_found)}.")
    survey = workers.survey()
    if "gpu" not in survey.devices:
        raise ProblemError(f"Nothing can be measured here. {survey.reasons.get('gpu', '')}")
    device, kind, gpu = survey.devices["gpu"], request["what"], _gpu(request.get("gpu"), survey)
    swept = _points(request) if kind == "sweep" else []
    places = hierarchy.sweep(device.multiprocessors) if kind == "hierarchy" else []
    global _progress, _began
    with _lock:
        if _progress.running:
            raise ProblemError(
                f"A measurement is under way: {_progress.done} of {_progress.of} points. Wait for its end, or stop it."
            )
        _stopping.clear()
        _began = time.monotonic()
        _progress = Progress(
            True, kind, of=len([*swept, *places]), now="the roofs" if swept else "", version=_progress.version
        )
        adds = kind == "sweep" and _found[kind].gpu == gpu.id  # adds to earlier results of the GPU
        today = datetime.date.today().isoformat()
        _found[kind] = replace(
            _found[kind] if adds else Now(), device=gpu.name, driver=device.driver, date=today, gpu=gpu.id
        )
    work = _sweep(swept) if kind == "sweep" else _hierarchy(places)
    threading.Thread(target=_run, args=(kind, work), daemon=True).start()
    return progress()


def stop() -> None:
    """Stops the measurement. Its results stay."""
    with _lock:
        if _progress.running:
            _stopping.set()
            if _job:
                _job.cancel()


def forget(kind: str) -> None:
    """Drops the results. Raises ProblemError during a measurement."""
    global _progress
    with _lock:
        if _progress.running:
            raise ProblemError("A measurement is under way. Stop it first.")
        if kind in _found:
            _found[kind] = Now()
            _progress = Progress(version=_progress.version + 1)


def _gpu(wanted: object, survey: Survey) -> workers.Gpu:
    """The GPU with an id, by default the first. Raises ProblemError."""
    gpus = survey.gpus or (workers.Gpu("", ""),)
    for gpu in gpus:
        if not wanted or gpu.id == wanted:
            return gpu if gpu.id else workers.Gpu("", survey.devices["gpu"].name)
    known = ", ".join(f"{gpu.id} ({gpu.name})" for gpu in gpus if gpu.id)
    raise ProblemError(
        f"gpu is {wanted!r:.60}. {f'It must be one of {known}' if known else 'No GPU has a known id here'}."
    )


def _points(request: Mapping[str, object]) -> list[Point | Skipped]:
    """The points of a sweep. ProblemError."""
    names, values = request.get("kernels"), request.get("values", "")
    if not isinstance(names, list) or not names:
        raise ProblemError("No kernel is chosen. Choose at least one.")
    kernels = tuple(catalog.current().kernels)
    unknown = [name for name in names if name not in kernels]  # only the command line takes a path
    if unknown:
        raise ProblemError(f"There is no kernel {unknown[0]!r:.60}; there are {', '.join(kernels)}.")
    held = [sweeps.set_field(part) for part in str(request.get("set", "")).split(",") if part.strip()]
    swept = [sweeps.sweep_field(f"{request.get('field', '')}={values}")]
    return sweeps.points(names, swept, held, bool(request.get("peers")), not request.get("warm"))


# ---- the measurement: yields (the next point, the row of this one) ----


def _sweep(points: list[Point | Skipped]) -> Iterator[tuple[str, Row | None]]:
    roofs = dict(times().roofs) or _in_worker(protocol.roofs, title="Measuring the roofs")
    with _lock:
        _found["sweep"] = replace(_found["sweep"], columns=COLUMNS, roofs=tuple(roofs.items()))
    for point in points:
        yield point.name, None
        if isinstance(point, Skipped):
            yield point.name, skipped_row(point)
            continue
        try:
            timing = _in_worker(protocol.measure, point, title=point.name)
        except WarpglassError as error:
            if _stopping.is_set():
                raise
            timing = Timing(point, "failed", str(error))  # its worker died or ran out of time: the others go on
        yield point.name, row(timing, roofs)


def _hierarchy(points: list[hierarchy.Place]) -> Iterator[tuple[str, Row | None]]:
    for point in points:
        yield f"{point.kind} {point.problem.space}", None
        yield "", _in_worker(hierarchy.point, point, title="Measuring the memory's levels")


def _in_worker(function: Callable[..., T], *args: object, title: str) -> T:
    global _job
    with _lock:
        gpu = _found[_progress.what].gpu
        _job = workers.submit(function, *args, backend="gpu", title=title, time_limit=TIME_LIMIT, gpu=gpu)
    found: T = _job.result()
    return found


def _run(kind: str, work: Iterator[tuple[str, Row | None]]) -> None:
    global _progress, _job
    error = ""
    try:
        for now, new_row in work:
            if new_row is not None:
                _keep(kind, new_row)
            with _lock:
                _progress = replace(_progress, now=now)
            if _stopping.is_set():
                break
    except WarpglassError as failed:
        error = "" if _stopping.is_set() else str(failed)
    except Exception as failed:  # a fault of ours must not leave it running for ever
        traceback.print_exception(failed)
        error = f"{type(failed).__name__}: {failed}. {FAULT}"
    with _lock:
        _job = None
        seconds = time.monotonic() - _began
        _progress = replace(_progress, running=False, now="", seconds=seconds, error=error)


def _keep(kind: str, new_row: Row) -> None:
    """Adds a row. It replaces a row of an equal point."""
    global _progress
    with _lock:
        now = _found[kind]
        columns = tuple(dict.fromkeys([*now.columns, *new_row]))
        before = [{**dict.fromkeys(columns), **entry} for entry in now.records()]
        after = {_point_of(entry): entry for entry in [*before, {**dict.fromkeys(columns), **new_row}]}
        rows = tuple(tuple(entry[name] for name in columns) for entry in after.values())
        _found[kind] = replace(now, columns=columns, rows=rows)
        _progress = replace(_progress, done=_progress.done + 1, version=_progress.version + 1)


def _point_of(entry: Row) -> tuple[object, ...]:
    same = ("name", "settings", "l2", "problem", "kind", "space", "working_set")
    reason = entry.get("reason") if not entry.get("problem") else None  # of a place that is no problem
    return (*(entry.get(name) for name in same), reason)
