"""Recordings of single requests, such as pipelines and timelines, in packed files: data/<kind>/**/*.parquet.

Their index follows the files and the catalogue.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd
import pyarrow as pa

from kernels import catalog
from kernels.core.cases import cases_of
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.remembered import of_recordings
from kernels.core.request import Request, identity_key
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TraceError
from kernels.recordings import packed, same_code, tables
from kernels.recordings.tables import REMEDY, Case, Progress, silent

Entry = TypeVar("Entry", bound="RecordedRequest")
Header = dict[str, Any]
Parts = Mapping[str, pd.DataFrame]
Stored = tuple[Header, Parts]
"""The fields of a recording's header, and its tables by name."""
UNREADABLE = (OSError, KeyError, TypeError, ValueError, ProblemError, TraceError)
Stamp = tuple[Path, int, int]
"""A file, the time of its last change in ns, and its bytes."""


@dataclass(frozen=True)
class RecordedRequest:
    """A recording of one request, before its tables are read.

    request: with the backend recorded.
    device, date: the GPU and the day.
    code_hash: of the measured source.
    path: the file. lengths: of its tables. prefix: of the names of this recording's tables in a shared file.
    said: the other fields of its header."""

    request: Request
    device: str
    date: str
    code_hash: str
    path: Path
    lengths: dict[str, int]
    prefix: str
    said: Header

    @property
    def kernel(self) -> str:
        return self.request.kernel.name

    @property
    def problem(self) -> Problem:
        return self.request.problem

    @property
    def settings(self) -> tuple[tuple[str, int], ...]:
        return self.request.settings

    @property
    def label(self) -> str:
        """The kernel with its other than default fields and constants, for a menu."""
        problem = self.request.problem
        defaults = {f.name: f.default for f in fields(problem)}
        constants = {c.name: c.default for c in self.request.kernel.constants}
        changed = [(name, value) for name, value in asdict(problem).items() if value != defaults[name]]
        changed += [(name, value) for name, value in self.request.settings if value != constants[name]]
        texts = [(name, write_value(value)) for name, value in changed]
        return f"{self.kernel}: " + ", ".join(f"{name} {text}" for name, text in texts if len(text) < 40)

    def read(self, *parts: str) -> list[pd.DataFrame]:
        """The tables of these names. TraceError if the file is no longer readable."""
        names = [f"{self.prefix}{part}" for part in parts]
        try:
            found = packed.read(self.path, self.lengths, names)
        except ValueError as error:
            raise TraceError(f"{self.path.name} cannot be read: {error}. {REMEDY}.") from None
        return [found[name].to_pandas() for name in names]


@dataclass(frozen=True)
class Recordings(Generic[Entry]):
    """The recordings of one kind.

    noun: such as pipeline. The folder has its plural as name.
    entry: the class of a recording.
    cases: the method of problems that gives the requests to record, such as pipeline_cases.
    turn: measures a request, in a worker. Its result has a request, a device and a date.
    stored: the fields of the header, and the tables, of a result.
    parts: the names of the tables.
    shared: whether all recordings of a GPU are in one file, by name, under the plural in its header.
    ordered: whether `all` orders a kernel's recordings as its cases. Otherwise their files do."""

    noun: str
    entry: type[Entry]
    cases: str
    turn: Callable[[Request], Any]
    stored: Callable[[Any], Stored]
    parts: tuple[str, ...]
    shared: bool = False
    ordered: bool = False

    @property
    def folder(self) -> Path:
        return tables.FOLDER / f"{self.noun}s"

    def asked(self) -> list[Request]:
        return requests_of(self.cases)

    def all(self) -> list[Entry]:
        """Every recording of the catalogue's present code, in the order of the catalogue."""
        return list(self._look(sorted(self.folder.rglob("*.parquet")))[0])

    def left_out(self) -> list[str]:
        """Why recordings are not shown, a sentence for each."""
        return list(self._look(sorted(self.folder.rglob("*.parquet")))[1])

    def of(self, request: Request) -> list[Entry]:
        """The recordings of a request, at least one. ProblemError with the kernel's others."""
        found = self.all()
        if same := matching(found, request):
            return same
        labels = [entry.label for entry in found if entry.request.kernel == request.kernel]
        have = "; ".join(dict.fromkeys(labels)) or "none"
        raise ProblemError(
            f"No {self.noun} of {request.kernel.name} at {request.problem.size} with this code and these constants is "
            f"recorded. Choose a recorded one ({have}), or make one on a GPU with python -m kernels measure "
            f"{self.noun}s."
        )

    def find(self, request: Request) -> Entry:
        """The newest recording of a request. ProblemError with the kernel's others."""
        return max(self.of(request), key=lambda entry: entry.date)

    def record(self, device: tables.Gpu, progress: Progress = silent, anew: bool = False) -> list[Path]:
        """Makes what this GPU lacks of the present code, and writes each at once. Returns the files. At the end,
        RunError names each request that failed.

        anew: makes everything. A shared file then grows next to the recorded one, and replaces it at the end."""
        place = self.folder / tables.file_name(device.name)
        path = file = place.with_name(f"{place.name}.parquet")
        known = [] if anew else [entry for entry in self.all() if entry.device == device.name]
        if self.shared and path.exists() and not known:
            file = path.with_name(f"{path.name}.anew")
            known = self._look([file] if file.exists() else [])[0]
        shared = {entry.prefix: self._read(entry) for entry in known if entry.path == file}
        asked = [r for r in self.asked() if not r.kernel.cannot_run(r.problem, r.constants, device)]

        def write() -> None:
            _write(file, {f"{self.noun}s": {name: said for name, (said, _) in sorted(shared.items())}}, shared)

        def keep(made: Any) -> None:
            name = name_of(made.request)
            if not self.shared:
                return self.save(made, place / f"{name}.parquet")
            header, parts = self.stored(made)
            own = {"device": device.name, "driver": device.driver, "date": made.date}
            shared[name] = {**header_of(made.request), **header, **own}, parts
            write()

        cases = [Case(r.kernel.name, [(name_of(r),)], lambda _, r=r: self.turn(r)) for r in asked]
        failed = tables.resume(cases, [(name_of(r),) for r in asked if matching(known, r)], keep, progress)
        if file != path and file.exists():
            made = self._look([file])[0]
            old = [entry for entry in self._look([path])[0] if not matching(made, entry.request)]
            shared.update({entry.prefix: self._read(entry) for entry in old})  # of failed requests
            write()
            file.replace(path)
        tables.check_failures(f"{self.noun}s", failed)
        return [path] if self.shared else [entry.path for entry in self.all() if entry.device == device.name]

    def save(self, made: Any, path: Path) -> None:
        header, parts = self.stored(made)
        own = {"device": made.device, "date": made.date}
        _write(path, {**header_of(made.request), **header, **own}, {"": (header, parts)})

    def _read(self, entry: Entry) -> Stored:
        header = {**header_of(entry.request), **entry.said, "code_hash": entry.code_hash}
        return {**header, "device": entry.device, "date": entry.date}, dict(zip(self.parts, entry.read(*self.parts)))

    def _look(self, paths: Iterable[Path]) -> tuple[list[Entry], list[str]]:
        return _index(self, tuple(map(_stamp, paths)), tuple(catalog.current().kernels.values()))


def matching(found: Iterable[Entry], request: Request) -> list[Entry]:
    """The recordings of a request's kernel, problem and constants."""
    constants = tuple(request.constants.items())
    return [
        entry
        for entry in found
        if entry.request.kernel == request.kernel
        and entry.request.problem == request.problem
        and tuple(entry.request.constants.items()) == constants
    ]


def name_of(request: Request) -> str:
    """The name of a request's recording: kernel, code, and a hash of problem and constants."""
    return f"{request.kernel.name}-{request.kernel.code_hash[:8]}-{identity_key(*request.identity)}"


def header_of(request: Request) -> Header:
    """The fields of a header for `_entry_of`."""
    problem, settings = request.identity
    kernel = request.kernel
    return {"kernel": kernel.name, "code_hash": kernel.code_hash, "problem": problem, "settings": settings}


def requests_of(cases: str) -> list[Request]:
    """The requests of each kernel's problem from a method such as timeline_cases, with every constant, on a GPU. Cases
    against a kernel's conditions are left out."""
    return [
        Request(spec, case.problem, tuple(spec.settings(case.settings).items()), backend="gpu")
        for spec in catalog.current().kernels.values()
        for case in cases_of(spec, cases).possible
    ]


def _write(path: Path, header: Mapping[str, object], held: Mapping[str, tuple[object, Parts]]) -> None:
    columns = {
        f"{prefix}{part}": {name: _array(table[name]) for name in table.columns}
        for prefix, (_, parts) in sorted(held.items())
        for part, table in parts.items()
    }
    packed.write(path, columns, header)


def _array(column: pd.Series) -> pa.Array:
    made = pa.Array.from_pandas(column)
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _stamp(path: Path) -> Stamp:
    try:
        state = path.stat()
    except OSError:  # removed at this moment, or a broken link
        return path, 0, 0
    return path, state.st_mtime_ns, state.st_size


@of_recordings(lru_cache(maxsize=8))
def _index(
    kind: Recordings[Entry], stamps: tuple[Stamp, ...], kernels: tuple[KernelSpec, ...]
) -> tuple[list[Entry], list[str]]:
    """The recordings in the files, and why others are not shown. They depend on the files' stamps and on `kernels`."""
    found: list[Entry] = []
    reasons: list[str] = []
    for path, _, _ in stamps:
        try:
            header = packed.read_header(path)
            lengths = header.pop("lengths")
            for name, said in (header[f"{kind.noun}s"] if kind.shared else {path.name: header}).items():
                entry = _entry_of(kind.entry, said, path, lengths, name if kind.shared else "")
                if isinstance(entry, str):
                    reasons.append(f"The {kind.noun} {name} on {said['device']} is of another code of {entry}.")
                else:
                    found.append(entry)
        except UNREADABLE as error:
            lacks = f"has no {kind.noun}s" if kind.shared else f"is no {kind.noun}"
            reasons.append(f"{path.name} {lacks}: {error}. {REMEDY}.")
    names = [spec.name for spec in kernels]
    first = [request.identity for request in kind.asked()] if kind.ordered else []

    def rank(entry: Entry) -> tuple[int, int]:
        identity = entry.request.identity
        return names.index(entry.kernel), first.index(identity) if identity in first else len(first)

    return sorted(found, key=rank), reasons


def _entry_of(kind: type[Entry], header: Header, path: Path, lengths: dict[str, int], prefix: str) -> Entry | str:
    """The recording of a header, or the name of its kernel if its code changed. KeyError, TypeError or ProblemError if
    the header is not one of `header_of`."""
    said = dict(header)
    kernel, code_hash, device, date = (said.pop(name) for name in ("kernel", "code_hash", "device", "date"))
    spec = catalog.current().kernels[kernel]
    if spec.code_hash != same_code.present(code_hash):
        return kernel
    problem = spec.problem_type(**said.pop("problem"))
    request = Request(spec, problem, tuple(said.pop("settings").items()), backend="recorded")
    return kind(request, device, date, code_hash, path, lengths, prefix, said)
