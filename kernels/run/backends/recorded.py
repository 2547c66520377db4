"""Runs recorded on named GPUs: Parquet and JSON in kernels/recordings/runs/, a folder for each GPU, in it a folder for
each run.

A run's folder is named by the kernel, its code_hash and a hash of problem and constants. It holds recording.json (a
Recording), trace.parquet (of its scope), outputs.parquet (the problem's outputs, a list each, bfloat16 and float8
widened to float32) and traffic.parquet. Inputs are made again from the problem's seed. A changed comment keeps a
recording, also where it moves lines.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_origin

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kernels.catalog import KERNELS
from kernels.core.cases import cases_of
from kernels.core.dtypes import element_type, widened
from kernels.core.problem import Case
from kernels.core.remembered import of_recordings, recordings_changed
from kernels.core.request import Request, Scope, identity_key
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, ProblemError, TraceError
from kernels.recordings.tables import file_name
from kernels.run.backends import Device
from kernels.run.results import Run, Traffic
from kernels.trace.probes import Site, Sites, sites_of
from kernels.trace.trace import Trace

FOLDER = Path(__file__).parents[2] / "recordings" / "runs"
FORMAT = 2  # of recording.json and what lies beside it; 1 had one error for all outputs, and the .cu's lines alone
SHARED_MAX = 227 * 1024
PARTS = ("trace.parquet", "outputs.parquet", "traffic.parquet")
REMEDY = "Restore it, or remove its folder and record it anew with python -m kernels record"
T = TypeVar("T")


@dataclass(frozen=True)
class Recording:
    """A recorded run. problem: its fields; settings: every constant; errors and yardsticks: output -> the largest error
    of the kernel and of torch on that GPU; sites: (file, line) of the probes, in order, as they were then;
    traffic_whole: Traffic.whole; sha256: file beside recording.json -> its hash; folder: where it lies."""

    kernel: str
    code_hash: str
    problem: dict[str, Any]
    settings: dict[str, int]
    scope: Scope
    device: str
    driver: str
    compiler: str
    date: str
    errors: dict[str, float]
    yardsticks: dict[str, float]
    sites: tuple[tuple[str, int], ...]
    traffic_whole: bool
    folder: Path
    sha256: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT


@of_recordings(lru_cache)
def device() -> Device:
    """All recorded GPUs together; BackendUnavailable if nothing is recorded."""
    names = sorted({entry.device for entry in index()})
    if not names:
        raise BackendUnavailable(
            " ".join(left_out())
            or "There are no recordings: kernels/recordings/runs/ is empty. Make some on a GPU with python -m kernels "
            "record."
        )
    return Device("recorded", ", ".join(names), "recorded", SHARED_MAX)


def index() -> tuple[Recording, ...]:
    """Every recording that can be read."""
    return _look()[0]


def left_out() -> tuple[str, ...]:
    """Why others cannot be, a sentence for each, with what to do."""
    return _look()[1]


@of_recordings(lru_cache)
def _look() -> tuple[tuple[Recording, ...], tuple[str, ...]]:
    found, reasons = [], []
    for path in sorted(FOLDER.glob("*/*/recording.json")):
        try:
            found.append(_read(path))
        except TraceError as error:
            reasons.append(str(error))
    return tuple(found), tuple(reasons)


def _read(path: Path) -> Recording:
    name = "/".join(path.parts[-3:])
    try:
        held = json.loads(path.read_text())
        if held["format"] != FORMAT:
            raise TraceError(
                f"{name} has format {held['format']}, and this version of Warpglass reads format {FORMAT}. {REMEDY}."
            )
        scope = held.pop("scope")
        scope = Scope(scope["first"], scope["count"], tuple(map(tuple, scope["others"])))
        sites = tuple((file, line) for file, line in held.pop("sites"))
        entry = Recording(scope=scope, sites=sites, folder=path.parent, **held)
        _check_values(entry)
        return entry
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ProblemError) as error:
        raise TraceError(f"{name} cannot be read: {_said(error)}. {REMEDY}.") from None


def _check_values(entry: Recording) -> None:
    """ValueError, TypeError or ProblemError if a recording says what cannot be."""
    for f in fields(entry):
        if not isinstance(value := getattr(entry, f.name), get_origin(f.type) or f.type):  # type: ignore[arg-type]
            raise ValueError(f"{f.name} is {value!r:.60}")
    numbers = [*entry.errors.values(), *entry.yardsticks.values(), *entry.settings.values()]
    numbers += [entry.scope.first, entry.scope.count, *(line for _, line in entry.sites)]
    if wrong := [n for n in numbers if not isinstance(n, (int, float))]:
        raise ValueError(f"{wrong[0]!r:.60} is no number")
    spec = KERNELS.get(entry.kernel)
    if spec and spec.code_hash == entry.code_hash:
        spec.problem_type(**entry.problem)


def _said(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")


# ---- looking for one ----


def of(kernel: KernelSpec) -> list[Recording]:
    """The recordings of a kernel's present code, on whatever GPU."""
    return [entry for entry in index() if entry.code_hash == kernel.code_hash]


def find(request: Request) -> Recording:
    """The recording that answers the request: one that holds its scope before one that does not, then the newest.
    ProblemError with what is recorded if there is none."""
    found = [entry for entry in of(request.kernel) if (entry.problem, entry.settings) == request.identity]
    if not found:
        have = (
            "; ".join(dict.fromkeys(_brief(entry) for entry in index() if entry.kernel == request.kernel.name))
            or "none"
        )
        here = [said for said in left_out() if f"/{request.kernel.name}-" in said]
        said = f"No recording of {request.kernel.name} has this code, this problem and these constants."
        raise ProblemError(" ".join([said, f"Recorded: {have}.", *here]))
    return max(found, key=lambda entry: (_outside(entry, request) is None, entry.date, entry.device))


def cases(kernels: Iterable[KernelSpec]) -> list[tuple[KernelSpec, Case]]:
    """What is worth recording of these kernels: Problem.recorded_cases, without those that a kernel's conditions
    refuse."""
    return [(spec, case) for spec in kernels for case in cases_of(spec, "recorded_cases").possible]


def missing(kernels: Iterable[KernelSpec], device: str = "") -> list[tuple[KernelSpec, Case]]:
    """Of these cases those that have no recording of the kernel's present code, on the GPU of that name or on any."""
    there = {(e.code_hash, identity_key(e.problem, e.settings)) for e in index() if device in ("", e.device)}
    return [
        (spec, case)
        for spec, case in cases(kernels)
        if (spec.code_hash, identity_key(*request_of(spec, case).identity)) not in there
    ]


def request_of(kernel: KernelSpec, case: Case, backend: str = "recorded") -> Request:
    """The Request of a case to record, with the scope that it names, or everything."""
    request = Request(kernel, case.problem, tuple(case.settings), backend=backend)
    return replace(request, scope=case.scope or Scope.everything(request.plan))


def _outside(entry: Recording, request: Request) -> str | None:
    """What of the request's scope a recording does not hold, in words; None if it holds all."""
    plan = request.plan
    for item in dict.fromkeys(launch.item for launch in plan.launches):
        (have, many), (first, count) = entry.scope.range_of(item, plan), request.scope.range_of(item, plan)
        if not have <= first <= first + count <= have + many:
            return f"traced {item}s {have} to {have + many - 1}; {item}s {first} to {first + count - 1} were asked for"
    return None


def _brief(entry: Recording) -> str:
    problem = ", ".join(f"{key} {value}" for key, value in entry.problem.items() if len(str(value)) < 40)
    changed = ", ".join(f"{key} {value}" for key, value in entry.settings.items())
    return f"{problem}, {changed}"


# ---- reading and writing ----


def load(request: Request) -> Run:
    """The recorded Run, its trace cut to the request's scope, its probes where they stand in the kernel's text now."""
    entry = find(request)
    outside = _outside(entry, request)
    if outside:
        raise ProblemError(f"The recording on {entry.device} {outside}. Choose among those.")
    plan = request.plan
    trace = _where_they_stand(_part(entry, "trace.parquet", Trace.load), entry.sites, sites_of(request))
    launch, block = (trace.table[name].to_numpy() for name in ("launch", "block"))
    first, count = np.array([request.scope.blocks(step, plan) for step in plan.launches])[launch].T
    trace = replace(trace, table=trace.table.filter(pa.array((first <= block) & (block < first + count))))
    arrays = {**request.problem.inputs(), **_part(entry, "outputs.parquet", lambda path: _outputs(path, request))}
    return Run(request, "recorded", entry.device, entry.compiler, entry.date, arrays, trace, entry.errors)


def load_yardsticks(request: Request) -> dict[str, float]:
    """torch's errors on the GPU of the recording."""
    return find(request).yardsticks


def load_traffic(request: Request) -> Traffic:
    """The recorded Traffic."""
    entry = find(request)
    return Traffic(_part(entry, "traffic.parquet", pd.read_parquet), entry.traffic_whole)


def _part(entry: Recording, name: str, read: Callable[[Path], T]) -> T:
    """What `read` makes of a file of a recording. TraceError if it is not there, or not as it was written."""
    path = entry.folder / name
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if entry.sha256.get(name, found) != found:
            raise ValueError("its bytes are not those that were recorded")
        return read(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, pa.ArrowException, TraceError) as e:
        raise TraceError(f"{'/'.join(path.parts[-3:])} cannot be read: {_said(e)}. {REMEDY}.") from None


def _outputs(path: Path, request: Request) -> dict[str, np.ndarray]:
    held = pq.read_table(path)
    return {t.name: _as_tensor(held[t.name], t) for t in request.problem.outputs}


def save(run: Run, traffic: Traffic, yardsticks: Mapping[str, float], base: Path | None = None) -> Path:
    """Writes a recording of a Run, its Traffic and torch's errors on the same problem; returns its folder."""
    request = run.request
    problem, settings = request.identity
    name = f"{request.kernel.name}-{request.kernel.code_hash[:8]}-{identity_key(problem, settings)}"
    folder = (base or FOLDER) / file_name(run.device) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recording.json").unlink(missing_ok=True)  # written last: what is broken off is no recording
    run.trace.save(folder / "trace.parquet")
    outputs = {t.name: [widened(run.arrays[t.name]).ravel()] for t in request.problem.outputs}
    pq.write_table(pa.table(outputs), folder / "outputs.parquet", compression="zstd")
    traffic.table.to_parquet(folder / "traffic.parquet", compression="zstd")
    entry = Recording(
        kernel=request.kernel.name,
        code_hash=request.kernel.code_hash,
        problem=problem,
        settings=settings,
        scope=request.scope,
        device=run.device,
        driver=run.trace.provenance["driver"],
        compiler=run.compiler,
        date=run.date,
        errors=run.max_abs_errors,
        yardsticks=dict(yardsticks),
        sites=tuple((site.file, site.line) for site in sites_of(request)),
        traffic_whole=traffic.whole,
        sha256={part: hashlib.sha256((folder / part).read_bytes()).hexdigest() for part in PARTS},
        folder=folder,
    )
    said = {f.name: getattr(entry, f.name) for f in fields(entry) if f.name != "folder"} | {
        "scope": asdict(entry.scope)
    }
    (folder / "recording.json").write_text(json.dumps(said, indent=1) + "\n")
    recordings_changed()
    return folder


def _as_tensor(column: pa.ChunkedArray, tensor: Any) -> np.ndarray:
    """The one list of a column, as the tensor's type and shape."""
    return (
        column[0].values.to_numpy(zero_copy_only=False).astype(element_type(tensor.dtype).numpy).reshape(tensor.shape)
    )


def _where_they_stand(trace: Trace, then: tuple[tuple[str, int], ...], now: Sites) -> Trace:
    """The trace with the k-th probe of then at the place of the k-th probe now: comments may have moved it."""
    if then == tuple((site.file, site.line) for site in now):
        return trace
    if len(then) != len(now):
        raise TraceError(
            f"The recording has {len(then)} probes, the kernel {len(now)}. Record it anew with python -m kernels "
            "record."
        )
    place = Sites(tuple(Site(file, line, "mark", "") for file, line in then)).index(trace.table)
    files = list(dict.fromkeys(site.file for site in now))
    codes = np.array([files.index(site.file) for site in now], np.int32).take(place)
    lines = np.array([site.line for site in now], np.int32).take(place)
    table = trace.table
    at = table.column_names.index
    table = table.set_column(
        at("file"),
        table.schema.field("file"),
        pa.DictionaryArray.from_arrays(codes, files).cast(table.schema.field("file").type),
    )
    return replace(trace, table=table.set_column(at("line"), table.schema.field("line"), pa.array(lines)))
