"""Recorded pipelines: kernels/recordings/data/pipelines/<GPU>/, a packed file for each.

A mark is stored with the number of its probe. Its event and its line therefore follow the kernel's source, also after a
comment moved the lines.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from kernels.core.request import Request
from kernels.errors import TraceError
from kernels.measure import pipeline_bars, pipelines
from kernels.measure.pipelines import Pipeline
from kernels.recordings import packed, same_code, tables
from kernels.recordings.request_index import Recordings, matching
from kernels.recordings.requests import RecordedRequest, header_of, name_of, requests_of
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device
from kernels.trace.probes import sites_of

MOST_MARKS = 40_000  # of a recording: whole blocks from block 0 on, and at least one block
TIME_LIMIT = 600.0  # seconds for one
_SAID = ("every", "lost", "mhz", "residual_ns", "marks_ms", "timed_ms")


class RecordedPipeline(RecordedRequest):
    """A recorded pipeline, its tables not yet read."""

    def load(self) -> Pipeline:
        """The Pipeline. TraceError for an unreadable file."""
        stored, writers = (table.to_pandas() for table in self.read("marks", "writers"))
        sites = sites_of(self.request)
        probes = same_code.probes_now(self.code_hash, self.said["probes"])
        if sum(probe >= 0 for probe in probes) != len(sites):
            raise TraceError(
                f"{self.path.name} has {self.said['probes']} probes, the kernel {len(sites)}. {tables.REMEDY}."
            )
        probe = np.array(probes).take(stored.probe)
        marks = stored[["launch", "block", "writer", "seq"]].copy()
        marks["event"] = pd.Series(np.array([site.event for site in sites], object)[probe], dtype=object)
        marks["place"] = pd.Series(np.array([site.place for site in sites], object)[probe], dtype=object)
        marks["role"] = stored.role.astype(object)
        for key in self.said["keys"]:
            marks[key] = stored[key].astype("Int64")
        marks["ns"] = stored.tenths / 10
        said = {name: self.said[name] for name in _SAID}
        return Pipeline(self.request, marks, writers, device=self.device, date=self.date, **said)


RECORDINGS = Recordings("pipeline", RecordedPipeline, order="pipeline_cases")


def asked() -> list[Request]:
    """The requests to record: each problem's pipeline_cases."""
    return requests_of("pipeline_cases")


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Makes this GPU's pipelines and writes a file for each. Returns the files. Recordings of the present code stay,
    unless `anew`."""
    known = [] if anew else [entry for entry in recorded() if entry.device == device.name]
    paths = {request: _path(request, device.name) for request in asked()}
    kept = {request: same[0].path for request in paths if (same := matching(known, request))}
    groups = [Group(r.kernel.name, [r], partial(_measure, r, path)) for r, path in paths.items()]
    resume(groups, kept, lambda found: None, progress)
    return list((paths | kept).values())


def _measure(request: Request, path: Path) -> dict[Request, Path]:
    from kernels.run import workers

    job = workers.submit(pipelines.pipeline, request, backend="gpu", title=request.kernel.name, time_limit=TIME_LIMIT)
    save(job.result(), path)
    return {request: path}


def save(made: Pipeline, path: Path) -> None:
    """Writes a Pipeline, with the marks of the picture's launch.

    It keeps its first blocks, at most MOST_MARKS, and at least one block.
    """
    own = made.marks[made.marks.launch == made.launch]
    counts = own.groupby(["launch", "block"], sort=True).size().cumsum()
    kept = counts[counts <= MOST_MARKS].index if (counts <= MOST_MARKS).any() else counts.index[:1]
    marks = own.set_index(["launch", "block"]).loc[kept].reset_index()
    sites = sites_of(made.request)
    number = {(site.place, site.event): number for number, site in enumerate(sites)}
    keys = pipeline_bars.keys_of(marks)
    columns = {name: _array(marks[name]) for name in ("launch", "block", "writer", "seq", "role", *keys)}
    columns["probe"] = pa.array([number[place] for place in zip(marks.place, marks.event)], pa.int64())
    columns["tenths"] = pa.array((10 * marks.ns).round().astype(np.int64))  # of ns
    writers = {name: _array(made.writers[name]) for name in made.writers.columns}
    header = header_of(made.request) | {name: getattr(made, name) for name in (*_SAID, "device", "date")}
    header |= {"keys": keys, "blocks": int(marks.block.nunique()), "probes": len(sites)}
    packed.write(path, {"marks": columns, "writers": writers}, header)


def _array(column: pd.Series) -> pa.Array:
    made = pa.Array.from_pandas(column)
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def recorded() -> list[RecordedPipeline]:
    """Every recorded pipeline of the catalogue's present code, in the order of the catalogue and of `asked`."""
    return RECORDINGS.all()


def left_out() -> list[str]:
    """Why recorded pipelines are not shown, a sentence for each."""
    return RECORDINGS.left_out()


def find(request: Request) -> RecordedPipeline:
    """The recorded pipeline of a request. ProblemError with the kernel's others."""
    return RECORDINGS.of(request, lambda entry: entry.problem.size)[0]


def _path(request: Request, device: str) -> Path:
    return RECORDINGS.folder / tables.file_name(device) / f"{name_of(request)}.parquet"
