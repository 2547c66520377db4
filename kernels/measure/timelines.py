"""Timelines: when, and on which multiprocessor, each block of a run ran. Measured by a build of its own on a GPU, or
recorded."""

import datetime
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.cases import cases_of
from kernels.core.fields import write_value
from kernels.core.request import Request, identity_key
from kernels.errors import ProblemError, RunError, TraceError
from kernels.recordings import tables

KIND = "timelines"
TIME_LIMIT = 600.0  # seconds for one


@dataclass(frozen=True)
class Timeline:
    """When and where each block of a run ran. table: launch (0, 1, ...), block, sm, start_ns, end_ns from the first
    start on; blocks that left at once, before their first step, are not in it but counted in `left`. provenance:
    measured or recorded."""

    request: Request
    table: pd.DataFrame
    left: int
    multiprocessors: int
    provenance: str
    device: str
    date: str


@dataclass(frozen=True)
class RecordedTimeline:
    """A timeline that is recorded, its table not yet read. kernel: its name; settings: every constant, as pairs."""

    kernel: str
    code_hash: str
    problem: Any
    settings: tuple[tuple[str, int], ...]
    device: str
    date: str
    left: int
    multiprocessors: int
    path: Path

    @property
    def request(self) -> Request:
        """What `timeline` answers with it."""
        return Request(catalog.KERNELS[self.kernel], self.problem, self.settings, backend="recorded")

    @property
    def label(self) -> str:
        """The kernel, and the fields of the problem and the constants that are not the defaults, for a menu."""
        defaults = {f.name: f.default for f in fields(self.problem)}
        constants = {c.name: c.default for c in catalog.KERNELS[self.kernel].constants}
        said = [(name, value) for name, value in asdict(self.problem).items() if value != defaults[name]]
        said += [(name, value) for name, value in self.settings if value != constants[name]]
        short = [(name, write_value(value)) for name, value in said]
        return f"{self.kernel}: " + ", ".join(f"{name} {text}" for name, text in short if len(text) < 40)

    def load(self) -> Timeline:
        """The Timeline; TraceError if the file cannot be read any more."""
        table, _ = tables.load(self.path)
        return Timeline(self.request, table, self.left, self.multiprocessors, "recorded", self.device, self.date)


def timeline(request: Request) -> Timeline:
    """The Timeline of a request on the GPU, of a timeline build whose output passed; or the recorded one. ProblemError
    on the CPU, which has no time, and where none is recorded."""
    if request.backend == "recorded":
        return find(request).load()
    if request.backend != "gpu":
        raise ProblemError(
            "A timeline is made of times, and a CPU run yields none. Choose the recorded backend, or a machine with a "
            "GPU."
        )
    return _measured(request)


def _measured(request: Request) -> Timeline:
    from kernels.build import Mode
    from kernels.core.tolerance import worst
    from kernels.measure.judging import missed
    from kernels.run import execute
    from kernels.run.backends import gpu

    made, plan, arrays = execute.prepare(request, Mode.TIMELINE)
    device = gpu.device()
    found = gpu.launch_timeline(made, plan, arrays)
    errors = execute.largest_errors(request.problem, arrays, "gpu")
    error = worst(execute.judge(errors, execute.yardstick(request), request.problem))
    if not error.ok:
        raise RunError(f"No timeline is shown. {missed(request.kernel.name, error)}")
    columns = ("start", "end")
    parts = [
        pd.DataFrame(
            {"launch": number, "block": np.arange(len(times)), "sm": times["sm"]}
            | {f"{c}_ns": times[c] for c in columns}
        )
        for number, times in enumerate(found)
    ]
    table = pd.concat(parts)
    ran = table[table.start_ns > 0].reset_index(drop=True)
    ran[["start_ns", "end_ns"]] -= ran.start_ns.min()
    today = datetime.date.today().isoformat()
    return Timeline(request, ran, len(table) - len(ran), device.multiprocessors, "measured", device.name, today)


# ---- recorded ----


def recorded(device: str = "") -> list[RecordedTimeline]:
    """Every recorded timeline of the catalogue's present code, of one GPU or of all of them. Others are left out
    (`left_out`)."""
    return [entry for entry in _look()[0] if not device or entry.device == device]


def left_out() -> list[str]:
    """Why recorded timelines are not shown, a sentence for each reason."""
    return _look()[1]


def find(request: Request) -> RecordedTimeline:
    """The recorded timeline of a request, the newest if several GPUs have one; ProblemError with those there are."""
    same = [
        entry
        for entry in recorded()
        if entry.kernel == request.kernel.name and entry.code_hash == request.kernel.code_hash
    ]
    constants = tuple(request.constants.items())
    found = [entry for entry in same if entry.problem == request.problem and entry.settings == constants]
    if not found:
        have = "; ".join(dict.fromkeys(entry.label for entry in same)) or "none"
        raise ProblemError(
            f"No timeline of {request.kernel.name} at {request.problem.size} with this code and these constants "
            f"is recorded. Choose one of those that are ({have}), or make them on a GPU "
            "with python -m kernels measure timelines."
        )
    return max(found, key=lambda entry: entry.date)


def asked() -> list[Request]:
    """The requests whose timelines are recorded: what each kernel's problem names (timeline_cases)."""
    return requests_of("timeline_cases")


def requests_of(cases: str) -> list[Request]:
    """What each kernel's problem names by a method such as timeline_cases, with every constant, on a GPU. A case that
    the kernel's conditions refuse is left out."""
    return [
        Request(spec, case.problem, tuple(spec.settings(case.settings).items()), backend="gpu")
        for spec in catalog.KERNELS.values()
        for case in cases_of(spec, cases).possible
    ]


def record(
    device: Any, progress: Callable[[int, int, str], None] = lambda done, of, what: None, anew: bool = False
) -> list[Path]:
    """Makes this GPU's timelines and writes them; their paths. Those that are there already, of the present code, are
    kept, unless `anew`."""
    from kernels.run import workers

    requests, paths = asked(), []
    for number, request in enumerate(requests):
        progress(number, len(requests), request.kernel.name)
        path = path_of(KIND, request, device.name, ".csv")
        if anew or not _is_there(path):
            job = workers.submit(timeline, request, backend="gpu", what=request.kernel.name, time_limit=TIME_LIMIT)
            _save(job.result(), path, device)
        paths.append(path)
    progress(len(requests), len(requests), "")
    return paths


def path_of(kind: str, request: Request, device: str, suffix: str) -> Path:
    """The file in which what a GPU of that name made of a request is recorded."""
    spec = request.kernel
    name = f"{spec.name}-{spec.code_hash[:8]}-{identity_key(*request.identity)}{suffix}"
    return tables.FOLDER / kind / tables.file_name(device) / name


def _save(made: Timeline, path: Path, device: Any) -> Path:
    request = made.request
    problem, settings = request.identity
    identity = {"kernel": request.kernel.name, "problem": problem, "settings": settings}
    counts = {"left": made.left, "multiprocessors": made.multiprocessors}
    where = tables.provenance(device, {request.kernel.name: request.kernel.code_hash}, **identity, **counts)
    return tables.save(made.table, path, where)


def _is_there(path: Path) -> bool:
    try:
        tables.load(path)
    except TraceError:
        return False
    return True


def _look() -> tuple[list[RecordedTimeline], list[str]]:
    """What is recorded, in the catalogue's order, and why the rest is not shown."""
    found, reasons = [], []
    for path in sorted((tables.FOLDER / KIND).rglob("*.csv")):
        try:
            _, where = tables.load(path)
            kernel = where.more["kernel"]
            if tables.changed_code(where.codes, [kernel]):
                reasons.append(f"The timeline {path.name} on {where.device} is of another code of {kernel}.")
                continue
            problem = catalog.KERNELS[kernel].problem_type(**where.more["problem"])
            settings = tuple(where.more["settings"].items())
            counts = where.more["left"], where.more["multiprocessors"]
            code = where.codes[kernel]
            found.append(RecordedTimeline(kernel, code, problem, settings, where.device, where.date, *counts, path))
        except (TraceError, ProblemError) as error:
            reasons.append(str(error))
        except (KeyError, TypeError) as error:
            reasons.append(f"{path.name} is not a timeline: {error!r}.")
    order = list(catalog.KERNELS)
    return sorted(found, key=lambda entry: order.index(entry.kernel)), reasons
