"""The index of recordings of single requests: data/<kind>/**/*.parquet. It follows the files and the catalogue."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic

from kernels import catalog
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TraceError
from kernels.recordings import packed, tables
from kernels.recordings.requests import Entry, entry_of, requests_of

UNREADABLE = (OSError, KeyError, TypeError, ValueError, ProblemError, TraceError)
Stamp = tuple[Path, int, int]
"""A file, the time of its last change in ns, and its bytes."""


@dataclass(frozen=True)
class Recordings(Generic[Entry]):
    """The recordings of one kind.

    noun: such as pipeline. The folder has its plural as name.
    entry: the class of a recording.
    shared: whether a file has several recordings, by name, under the plural in its header.
    order: the method of problems that orders a kernel's recordings, such as pipeline_cases. Without it, files do.
    """

    noun: str
    entry: type[Entry]
    shared: bool = False
    order: str = ""

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return tables.FOLDER / f"{self.noun}s"

    def all(self) -> list[Entry]:
        """Every recording of the catalogue's present code, in the order of the catalogue."""
        return list(self._look()[0])

    def left_out(self) -> list[str]:
        """Why recordings are not shown, a sentence for each."""
        return list(self._look()[1])

    def of(self, request: Request, words: Callable[[Entry], str]) -> list[Entry]:
        """The recordings of a request, at least one. ProblemError with the kernel's others, in `words`."""
        found = self.all()
        if same := matching(found, request):
            return same
        texts = [words(entry) for entry in found if entry.request.kernel == request.kernel]
        have = "; ".join(dict.fromkeys(texts)) or "none"
        raise ProblemError(
            f"No {self.noun} of {request.kernel.name} at {request.problem.size} with this code and these constants is "
            f"recorded. Choose a recorded one ({have}), or make one on a GPU with python -m kernels measure "
            f"{self.noun}s."
        )

    def _look(self) -> tuple[list[Entry], list[str]]:
        stamps = tuple(map(_stamp, sorted(self.folder.rglob("*.parquet"))))
        return _index(self, stamps, tuple(catalog.current().kernels.values()))


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
                entry = entry_of(kind.entry, said, path, lengths)
                if isinstance(entry, str):
                    reasons.append(f"The {kind.noun} {name} on {said['device']} is of another code of {entry}.")
                else:
                    found.append(entry)
        except UNREADABLE as error:
            lacks = f"has no {kind.noun}s" if kind.shared else f"is no {kind.noun}"
            reasons.append(f"{path.name} {lacks}: {error}. {tables.REMEDY}.")
    names = [spec.name for spec in kernels]
    first = [request.identity for request in requests_of(kind.order)] if kind.order else []

    def rank(entry: Entry) -> tuple[int, int]:
        identity = entry.request.identity
        return names.index(entry.kernel), first.index(identity) if identity in first else len(first)

    return sorted(found, key=rank), reasons
