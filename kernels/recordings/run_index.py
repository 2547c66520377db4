"""The index of recorded runs: data/runs/<GPU>/<kernel>-<code>-<problem and constants>.parquet, a file for each run.

A file holds four tables and a header (packed.py). The tables are the trace in its compact form, the trace's values,
the outputs, and the traffic. Runs of one GPU with equal values share them: one file, the holder, has them, and the
others name it. The problem's seed gives the inputs again. A changed comment keeps a recording, also if it
moves lines.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_origin

import pandas as pd
import pyarrow as pa

from kernels import catalog
from kernels.core.cases import cases_of
from kernels.core.problem import Case
from kernels.core.remembered import of_recordings, recordings_changed
from kernels.core.request import Request, identity_key
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TraceError
from kernels.recordings import DATA, packed, same_code
from kernels.recordings.requests import header_of, name_of
from kernels.recordings.tables import file_name
from kernels.trace.probes import sites_of
from kernels.trace.trace import Trace, compact, restore

FOLDER = DATA / "runs"
REMEDY = "Restore it, or remove it and record it again with python -m kernels record"
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, ProblemError,
               TraceError)  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """A recorded run, before its tables are read.

    kernel, code_hash: of the measured source.
    problem: its fields. settings: every constant.
    scope: the traced items.
    device, driver, compiler, date: of the measurement.
    errors, yardsticks: output -> the largest error of the kernel, and of torch on that GPU.
    sites: (file, line) of each probe in the measured source, in order.
    lost: records that did not fit.
    provenance: of the trace.
    traffic_whole: Traffic.whole.
    values_sha256: of the trace's values. holder: the file with these values, empty for this one.
    path: the file."""

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
    lost: int
    provenance: dict[str, Any]
    traffic_whole: bool
    values_sha256: str
    holder: str
    path: Path
    lengths: dict[str, int] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The code_hash today of the source with the measured machine code."""
        return same_code.present(self.code_hash)

    @property
    def name(self) -> str:
        """GPU and file, for a message."""
        return "/".join(self.path.parts[-2:])

    @property
    def header(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("path", "lengths")} | {
            "scope": asdict(self.scope)
        }


def entries() -> tuple[Recording, ...]:
    return _look()[0]


def left_out() -> tuple[str, ...]:
    """The reasons for unreadable recordings, a sentence for each, with the remedy."""
    return _look()[1]


@of_recordings(lru_cache)
def _look() -> tuple[tuple[Recording, ...], tuple[str, ...]]:
    found: dict[Path, Recording] = {}
    reasons = []
    for path in sorted(FOLDER.glob("*/*.parquet")):
        try:
            found[path] = read_entry(path)
        except TraceError as error:
            reasons.append(str(error))
    whole = []
    for path, entry in found.items():
        holder = found.get(path.with_name(entry.holder)) if entry.holder else entry
        if holder and not holder.holder and holder.values_sha256 == entry.values_sha256:
            whole.append(entry)
        else:
            reasons.append(f"{entry.name} has its values in {entry.holder}, which no longer has them. {REMEDY}.")
    return tuple(whole), tuple(reasons)


def read_entry(path: Path) -> Recording:
    """The Recording of a file. TraceError, with the remedy, if it is unreadable."""
    try:
        header = packed.read_header(path)
        scope = header.pop("scope")
        scope = Scope(scope["first"], scope["count"], tuple(map(tuple, scope["others"])))
        sites = tuple((file, line) for file, line in header.pop("sites"))
        entry = Recording(scope=scope, sites=sites, path=path, **header)
        _check_values(entry)
        return entry
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> TraceError:
    """The TraceError of an unreadable file, with the reason and the remedy."""
    said = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
    return TraceError(f"{'/'.join(path.parts[-2:])} cannot be read: {said}. {REMEDY}.")


def _check_values(entry: Recording) -> None:
    """ValueError, TypeError or ProblemError if a field of a recording has an impossible value."""
    for f in fields(entry):
        value = getattr(entry, f.name)
        if not isinstance(value, get_origin(f.type) or f.type):  # type: ignore[arg-type]
            raise ValueError(f"{f.name} is {value!r:.60}")
    numbers = [*entry.errors.values(), *entry.yardsticks.values(), *entry.settings.values()]
    numbers += [entry.scope.first, entry.scope.count, *(line for _, line in entry.sites)]
    wrong = [number for number in numbers if not isinstance(number, (int, float))]
    if wrong:
        raise ValueError(f"{wrong[0]!r:.60} is no number")
    spec = catalog.current().kernels.get(entry.kernel)
    if spec and spec.code_hash == entry.code:
        spec.problem_type(**entry.problem)


# ---- finding one ----


def of(kernel: KernelSpec) -> list[Recording]:
    """The recordings of a kernel's present code, on any GPU."""
    return [entry for entry in entries() if entry.code == kernel.code_hash]


def find(request: Request) -> Recording:
    """The recording for the request: one with its whole scope before one without, then the newest. ProblemError with
    the recordings of the kernel if none fits."""
    found = [entry for entry in of(request.kernel) if (entry.problem, entry.settings) == request.identity]
    if not found:
        same = []
        for entry in entries():
            if entry.kernel == request.kernel.name:
                short = {key: value for key, value in entry.problem.items() if len(str(value)) < 40} | entry.settings
                same.append(", ".join(f"{key} {value}" for key, value in short.items()))
        have = "; ".join(dict.fromkeys(same)) or "none"
        here = [reason for reason in left_out() if f"/{request.kernel.name}-" in reason]
        missing = f"No recording of {request.kernel.name} has this code, this problem and these constants."
        raise ProblemError(" ".join([missing, f"Recorded: {have}.", *here]))
    return max(found, key=lambda entry: (outside(entry, request) is None, entry.date, entry.device))


def outside(entry: Recording, request: Request) -> str | None:
    """The part of the request's scope outside a recording, in words. None if the recording has everything."""
    plan = request.plan
    for item in dict.fromkeys(launch.item for launch in plan.launches):
        (have, many), (first, count) = entry.scope.range_of(item, plan), request.scope.range_of(item, plan)
        if not have <= first <= first + count <= have + many:
            return (
                f"traced {item}s {have} to {have + many - 1}. The request is for {item}s {first} to {first + count - 1}"
            )
    return None


def cases(kernels: Iterable[KernelSpec]) -> list[tuple[KernelSpec, Case]]:
    """The cases of these kernels to record: Problem.recorded_cases, without those against a kernel's conditions."""
    return [(spec, case) for spec in kernels for case in cases_of(spec, "recorded_cases").possible]


def missing(kernels: Iterable[KernelSpec], device: str = "") -> list[tuple[KernelSpec, Case]]:
    """The cases without a recording of the kernel's present code, on the GPU of that name or on any."""
    known = {(e.code, identity_key(e.problem, e.settings)) for e in entries() if device in ("", e.device)}
    return [
        (spec, case)
        for spec, case in cases(kernels)
        if (spec.code_hash, identity_key(*request_of(spec, case).identity)) not in known
    ]


def request_of(kernel: KernelSpec, case: Case, backend: str = "recorded") -> Request:
    """The Request of a case to record, with the case's scope, or everything."""
    request = Request(kernel, case.problem, tuple(case.settings), backend=backend)
    return replace(request, scope=case.scope or Scope.everything(request.plan))


def read_trace(entry: Recording, request: Request) -> Trace:
    """The recorded trace, with its probes at their lines in the kernel's text now. TraceError if it is damaged."""
    sites = sites_of(request)
    probes = same_code.probes_now(entry.code_hash, len(entry.sites))
    if sum(probe >= 0 for probe in probes) != len(sites):
        raise TraceError(
            f"The recording has {len(entry.sites)} probes, the kernel {len(sites)}. Record it again with "
            "python -m kernels record."
        )
    columns = _table(entry, "trace")
    held = read_entry(entry.path.with_name(entry.holder)) if entry.holder else entry
    values = _table(held, "values")["value"].combine_chunks()
    try:
        return Trace(restore(columns, values, probes, sites), entry.lost, entry.provenance)
    except UNREADABLE as error:
        raise unreadable(entry.path, error) from None


def read_outputs(entry: Recording) -> dict[str, pa.Array]:
    """Output -> its numbers, flat. bfloat16 and float8 are widened to float32."""
    names = [name for name in entry.lengths if name.startswith("outputs.")]
    return {name.removeprefix("outputs."): _table(entry, name)["value"].combine_chunks() for name in names}


def read_traffic(entry: Recording) -> pd.DataFrame:
    """The table of a Traffic."""
    return _table(entry, "traffic").to_pandas()


def _table(entry: Recording, name: str) -> pa.Table:
    try:
        return packed.read(entry.path, entry.lengths, [name])[name]
    except UNREADABLE as error:
        raise unreadable(entry.path, error) from None


def write(
    request: Request,
    trace: Trace,
    outputs: Mapping[str, pa.Array],
    traffic: pd.DataFrame,
    base: Path | None = None,
    **said: Any,
) -> Path:
    """Writes a recording, its values included, and returns the file. said: the other fields of Recording."""
    sites = sites_of(request)
    columns, values = compact(trace, sites)
    entry = Recording(
        **header_of(request),
        scope=request.scope,
        sites=tuple((site.file, site.line) for site in sites),
        lost=trace.lost,
        provenance=trace.provenance,
        values_sha256=hashlib.sha256(values.to_numpy(zero_copy_only=False).tobytes()).hexdigest(),
        holder="",
        path=(base or FOLDER) / file_name(said["device"]) / f"{name_of(request)}.parquet",
        **said,
    )
    table = pa.Table.from_pandas(traffic, preserve_index=False)
    counts = {name: table[name].combine_chunks() for name in table.column_names}
    parts = {f"outputs.{name}": {"value": numbers} for name, numbers in outputs.items()}
    packed.write(entry.path, {"trace": columns, "values": {"value": values}, "traffic": counts, **parts}, entry.header)
    recordings_changed()
    return entry.path


def share_values() -> None:
    """Keeps equal values of a GPU's recordings in one file: the holder of the others, or the first."""
    everything = entries()
    for entry in everything:
        same = [e for e in everything if (e.device, e.values_sha256) == (entry.device, entry.values_sha256)]
        named = {e.holder for e in same}
        holder = next((e for e in same if e.path.name in named), same[0])
        if entry is not holder and not entry.holder and entry.lengths["values"]:
            tables = packed.read(entry.path, entry.lengths, [name for name in entry.lengths if name != "values"])
            parts = {name: {c: table[c].combine_chunks() for c in table.column_names} for name, table in tables.items()}
            packed.write(entry.path, parts, replace(entry, holder=holder.path.name).header)
    recordings_changed()
