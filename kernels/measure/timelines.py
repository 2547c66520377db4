"""Timelines: the time and the SM of each block of a run, from a build of its own on a GPU, or recorded."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kernels.core.request import Request
from kernels.errors import ProblemError, RunError
from kernels.measure.kept import Kept, Stored
from kernels.recordings import tables
from kernels.recordings.request_index import Recordings
from kernels.recordings.requests import RecordedRequest, name_of, requests_of
from kernels.recordings.resumable import Progress, silent
from kernels.run.backends import Device


@dataclass(frozen=True)
class Timeline:
    """The time and the SM of each block of a run.

    table: launch (0, 1, ...), block, sm, start_ns, end_ns from the first start on.
    left: the blocks that ended before their first step. The table does not have them.
    multiprocessors: of the GPU.
    provenance: measured or recorded.
    """

    request: Request
    table: pd.DataFrame
    left: int
    multiprocessors: int
    provenance: str
    device: str
    date: str


class RecordedTimeline(RecordedRequest):
    """A recorded timeline, its table not yet read."""

    @property
    def left(self) -> int:
        """Timeline.left."""
        return self.said["left"]

    @property
    def multiprocessors(self) -> int:
        """Timeline.multiprocessors."""
        return self.said["multiprocessors"]

    def load(self) -> Timeline:
        """The Timeline. TraceError for an unreadable file."""
        (table,) = self.read(name_of(self.request, self.code_hash))
        counts = self.left, self.multiprocessors
        return Timeline(self.request, table.to_pandas(), *counts, "recorded", self.device, self.date)


def timeline(request: Request) -> Timeline:
    """The Timeline of a request on the GPU, from a timeline build with a correct output, or the recorded one.
    ProblemError on the CPU, and without a recording."""
    if request.backend == "recorded":
        return find(request).load()
    if request.backend != "gpu":
        raise ProblemError(
            "A timeline consists of times, and a CPU run yields none. Choose the recorded backend, or a machine with a "
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
        raise RunError(f"This timeline is refused. {missed(request.kernel.name, error)}")
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

RECORDINGS = Recordings("timeline", RecordedTimeline, shared=True)


def recorded(device: str = "") -> list[RecordedTimeline]:
    """Every recorded timeline of the catalogue's present code, of one GPU or of all. `left_out` gives the reasons for
    others."""
    return [entry for entry in RECORDINGS.all() if not device or entry.device == device]


def left_out() -> list[str]:
    """Why recorded timelines are not shown, a sentence for each reason."""
    old = sorted(RECORDINGS.folder.rglob("*.csv"))
    earlier = [f"{path.name} has an earlier format, a CSV for each timeline. {tables.REMEDY}." for path in old]
    return RECORDINGS.left_out() + earlier


def find(request: Request) -> RecordedTimeline:
    """The recorded timeline of a request, the newest of several GPUs. ProblemError with the kernel's others."""
    return max(RECORDINGS.of(request, lambda entry: entry.label), key=lambda entry: entry.date)


def asked() -> list[Request]:
    """The requests to record: each problem's timeline_cases."""
    return requests_of("timeline_cases")


def _stored(made: Timeline) -> Stored:
    return {"left": made.left, "multiprocessors": made.multiprocessors}, {"": made.table}


KEPT = Kept(RECORDINGS, ("",), timeline, _stored)


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Makes this GPU's timelines and writes its file after each. Returns the path. Recordings of the present code
    stay, unless `anew`."""
    return [KEPT.record(device, asked(), progress, anew)]
