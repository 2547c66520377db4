"""Pipelines that are recorded: kernels/recordings/pipelines/<GPU>/, a Parquet file of marks for each, which says in its
metadata where it comes from, and one of its writers beside it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kernels import catalog
from kernels.core.request import Request
from kernels.errors import ProblemError, TraceError
from kernels.measure import pipelines, timelines
from kernels.measure.pipelines import Pipeline
from kernels.recordings import tables

KIND, FORMAT = "pipelines", 2
MOST_MARKS = 40_000  # of a recording: those of whole blocks from block 0 on, and of one block at least
TIME_LIMIT = 600.0  # seconds for one
_METADATA = b"warpglass"
_SAID = ("every", "lost", "mhz", "residual_ns", "marks_ms", "timed_ms", "device", "date")


@dataclass(frozen=True)
class RecordedPipeline:
    """A pipeline that is recorded, its tables not yet read. said: what the file says of it."""

    request: Request
    path: Path
    said: dict[str, Any]

    def load(self) -> Pipeline:
        """The Pipeline; TraceError if the files cannot be read any more."""
        try:
            marks, writers = (pq.read_table(path).to_pandas() for path in (self.path, _beside(self.path)))
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"{self.path.name} cannot be read: {error}. {tables.REMEDY}.") from None
        marks["ns"] = marks.pop("tenths") / 10
        keys = [name for name in marks.columns if name in self.said["keys"]]
        marks = marks.astype({name: "Int64" for name in keys} | {"event": object, "place": object, "role": object})
        return Pipeline(self.request, marks, writers, **{name: self.said[name] for name in _SAID})


def asked() -> list[Request]:
    """The requests whose pipelines are recorded: what each kernel's problem names (pipeline_cases)."""
    return timelines.requests_of("pipeline_cases")


def record(
    device: Any, progress: Callable[[int, int, str], None] = lambda done, of, what: None, anew: bool = False
) -> list[Path]:
    """Makes this GPU's pipelines and writes them; their paths. Those that are there already, of the present code, are
    kept, unless `anew`."""
    from kernels.run import workers

    requests, paths, there = asked(), list[Path](), {entry.path for entry in recorded()}
    for number, request in enumerate(requests):
        progress(number, len(requests), request.kernel.name)
        path = _path(request, device.name)
        if anew or path not in there:
            job = workers.submit(
                pipelines.pipeline, request, backend="gpu", what=request.kernel.name, time_limit=TIME_LIMIT
            )
            save(job.result(), path)
        paths += [path, _beside(path)]
    progress(len(requests), len(requests), "")
    return paths


def save(made: Pipeline, path: Path) -> None:
    """Writes a Pipeline: of its marks those of the first blocks, as many as MOST_MARKS."""
    counts = made.marks.groupby(["launch", "block"], sort=True).size().cumsum()
    kept = counts[counts <= MOST_MARKS].index if (counts <= MOST_MARKS).any() else counts.index[:1]
    marks = made.marks.set_index(["launch", "block"]).loc[kept].reset_index()
    problem, settings = made.request.identity
    keys = pipelines.keys_of(marks)
    said = {"format": FORMAT, "kernel": made.request.kernel.name, "code_hash": made.request.kernel.code_hash}
    said |= {"problem": problem, "settings": settings, "keys": keys, "blocks": int(marks.block.nunique())} | {
        name: getattr(made, name) for name in _SAID
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    marks["tenths"] = (10 * marks.pop("ns")).round().astype(np.int64)  # of ns: a quarter of what floats take
    packed = {"tenths": "DELTA_BINARY_PACKED"}
    for table, file, encoding in ((made.writers, _beside(path), {}), (marks, path, packed)):
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        arrow = arrow.replace_schema_metadata({_METADATA: json.dumps(said, sort_keys=True).encode()})
        words = [name for name in arrow.column_names if name not in encoding]
        pq.write_table(arrow, file, compression="zstd", use_dictionary=words, column_encoding=encoding or None)


def recorded() -> list[RecordedPipeline]:
    """Every recorded pipeline of the catalogue's present code, in the catalogue's order, a kernel's as they are asked
    for."""
    return _look()[0]


def left_out() -> list[str]:
    """Why recorded pipelines are not shown, a sentence for each."""
    return _look()[1]


def find(request: Request) -> RecordedPipeline:
    """The recorded pipeline of a request; ProblemError with those there are."""
    same = [e for e in recorded() if e.request.kernel == request.kernel]
    constants = tuple(request.constants.items())
    for entry in same:
        if entry.request.problem == request.problem and tuple(entry.request.constants.items()) == constants:
            return entry
    have = "; ".join(entry.request.problem.size for entry in same) or "none"
    raise ProblemError(
        f"No pipeline of {request.kernel.name} at {request.problem.size} with this code and these constants is "
        f"recorded. Choose one of those that are ({have}), or make them on a GPU with python -m kernels measure "
        "pipelines."
    )


def _path(request: Request, device: str) -> Path:
    return timelines.path_of(KIND, request, device, ".parquet")


def _beside(path: Path) -> Path:
    """Where the writers stand."""
    return path.with_suffix(".writers.parquet")


def _look() -> tuple[list[RecordedPipeline], list[str]]:
    found: list[RecordedPipeline] = []
    reasons: list[str] = []
    for path in sorted((tables.FOLDER / KIND).rglob("*.parquet")):
        if path.name.endswith(".writers.parquet"):
            continue
        try:
            said = json.loads(pq.read_schema(path).metadata[_METADATA])
            if said["format"] != FORMAT:
                raise ValueError(f"it has format {said['format']}, and this program reads format {FORMAT}")
            spec = catalog.KERNELS[said["kernel"]]
            if spec.code_hash != said["code_hash"]:
                reasons.append(f"The pipeline {path.name} on {said['device']} is of another code of {spec.name}.")
                continue
            problem = spec.problem_type(**said["problem"])
            request = Request(spec, problem, tuple(said["settings"].items()), backend="recorded")
            found.append(RecordedPipeline(request, path, said))
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, ProblemError) as error:
            reasons.append(f"{path.name} is no pipeline: {error}. {tables.REMEDY}.")
    kernels, first = list(catalog.KERNELS), [request.identity for request in asked()]

    def place(entry: RecordedPipeline) -> tuple[int, int]:
        identity = entry.request.identity
        return kernels.index(entry.request.kernel.name), first.index(identity) if identity in first else len(first)

    return sorted(found, key=place), reasons
