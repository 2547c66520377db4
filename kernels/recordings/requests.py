"""Recordings of single requests, such as pipelines and timelines: names and headers."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from kernels import catalog
from kernels.core.cases import cases_of
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.request import Request, identity_key
from kernels.errors import TraceError
from kernels.recordings import packed, same_code
from kernels.recordings.tables import REMEDY

Entry = TypeVar("Entry", bound="RecordedRequest")


@dataclass(frozen=True)
class RecordedRequest:
    """A recording of one request, before its tables are read.

    request: with the backend recorded.
    device, date: the GPU and the day.
    code_hash: of the measured source.
    path: the file. lengths: of its tables.
    said: the other fields of its header.
    """

    request: Request
    device: str
    date: str
    code_hash: str
    path: Path
    lengths: dict[str, int]
    said: dict[str, Any]

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.request.kernel.name

    @property
    def problem(self) -> Problem:
        """The request's problem."""
        return self.request.problem

    @property
    def settings(self) -> tuple[tuple[str, int], ...]:
        """Every constant, as pairs."""
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

    def read(self, *names: str) -> list[pa.Table]:
        """The tables of these names. TraceError if the file is no longer readable."""
        try:
            found = packed.read(self.path, self.lengths, names)
        except ValueError as error:
            raise TraceError(f"{self.path.name} cannot be read: {error}. {REMEDY}.") from None
        return [found[name] for name in names]


def name_of(request: Request, code_hash: str = "") -> str:
    """The name of a request's recording: kernel, code, and a hash of problem and constants. code_hash: of the measured
    source, by default the present one."""
    code = code_hash or request.kernel.code_hash
    return f"{request.kernel.name}-{code[:8]}-{identity_key(*request.identity)}"


def header_of(request: Request) -> dict[str, Any]:
    """The fields of a header for `entry_of`."""
    problem, settings = request.identity
    kernel = request.kernel
    return {"kernel": kernel.name, "code_hash": kernel.code_hash, "problem": problem, "settings": settings}


def entry_of(kind: type[Entry], header: dict[str, Any], path: Path, lengths: dict[str, int]) -> Entry | str:
    """The recording of a header, or the name of its kernel if its code changed. KeyError, TypeError or ProblemError if
    the header is not one of `header_of`."""
    said = dict(header)
    kernel, code_hash, device, date = (said.pop(name) for name in ("kernel", "code_hash", "device", "date"))
    spec = catalog.current().kernels[kernel]
    if spec.code_hash != same_code.present(code_hash):
        return kernel
    problem = spec.problem_type(**said.pop("problem"))
    request = Request(spec, problem, tuple(said.pop("settings").items()), backend="recorded")
    return kind(request, device, date, code_hash, path, lengths, said)


def requests_of(cases: str) -> list[Request]:
    """The requests of each kernel's problem from a method such as timeline_cases, with every constant, on a GPU. Cases
    against a kernel's conditions are left out."""
    return [
        Request(spec, case.problem, tuple(spec.settings(case.settings).items()), backend="gpu")
        for spec in catalog.current().kernels.values()
        for case in cases_of(spec, cases).possible
    ]
