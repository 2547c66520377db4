"""Timelines: the time and the SM of each block of a run, from a build of its own on a GPU, or recorded."""

import datetime
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from kernels.build import Mode
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.measure.in_worker import in_worker
from kernels.measure.judging import check_right
from kernels.recordings.requests import RecordedRequest, Recordings
from kernels.run import execute
from kernels.run.backends import gpu


@dataclass(frozen=True)
class Timeline:
    """The time and the SM of each block of a run.

    table: launch (0, 1, ...), block, sm, start_ns, end_ns from the first start on.
    left: the blocks that ended before their first step. The table does not have them.
    multiprocessors: of the GPU.
    provenance: measured or recorded."""

    request: Request
    table: pd.DataFrame
    left: int
    multiprocessors: int
    provenance: str
    device: str
    date: str


class RecordedTimeline(RecordedRequest):
    """A recorded timeline, its table not yet read."""

    def load(self) -> Timeline:
        """The Timeline. TraceError for an unreadable file."""
        (table,) = self.read("")
        counts = self.said["left"], self.said["multiprocessors"]
        return Timeline(self.request, table, *counts, "recorded", self.device, self.date)


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
    made, plan, arrays = execute.prepare(request, Mode.TIMELINE)
    device = gpu.device()
    found = gpu.launch_timeline(made, plan, arrays)
    check_right(request, arrays, "This timeline is")
    parts = []
    for number, times in enumerate(found):
        spans = {"sm": times["sm"], "start_ns": times["start"], "end_ns": times["end"]}
        parts.append(pd.DataFrame({"launch": number, "block": np.arange(len(times)), **spans}))
    table = pd.concat(parts)
    ran = table[table.start_ns > 0].reset_index(drop=True)
    ran[["start_ns", "end_ns"]] -= ran.start_ns.min()
    today = datetime.date.today().isoformat()
    return Timeline(request, ran, len(table) - len(ran), device.multiprocessors, "measured", device.name, today)


# ---- recorded ----


RECORDINGS = Recordings(
    "timeline",
    RecordedTimeline,
    "timeline_cases",
    partial(in_worker, "Timelines", timeline),
    lambda made: ({"left": made.left, "multiprocessors": made.multiprocessors}, {"": made.table}),
    ("",),
    shared=True,
)
recorded, find = RECORDINGS.all, RECORDINGS.find
