"""Launch times: the start and the end of each launch and copy of a run, and the host's calls, on a GPU or recorded."""

import contextlib
import datetime
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from kernels.build import Mode
from kernels.core.request import Request
from kernels.core.streams import steps
from kernels.errors import ProblemError
from kernels.measure import load
from kernels.measure.in_worker import in_worker
from kernels.measure.judging import check_right
from kernels.measure.load import Sustained
from kernels.recordings.requests import RecordedRequest, Recordings, Stored
from kernels.run import execute
from kernels.run.backends import gpu, gpu_launches
from kernels.run.backends.gpu_launches import AHEAD_NS

RUNS = 31
PARTS = ("/steps", "/runs", "/free")
FREE = {"cpp": bool, "call": bool, "run": int, "step": int, "start_ns": float, "end_ns": float}
COLUMNS = ("events_ns", "host_ns", "framed_ns", "framed_events_ns", "after_ns")


@dataclass(frozen=True)
class LaunchTimes:
    """The times of a run's launches and copies, repeated. The host starts its calls AHEAD_NS before each run.

    table: a row for each launch and copy (core.streams.steps) of each repeat: run, step, start_ns, end_ns. Each run
        starts at 0.
    runs: a row for each repeat: run, events_ns between two events, host_ns of the host's calls, timed_ns between two
        events of a timed build. Also framed_ns, framed_events_ns and after_ns of a framed run, see
        gpu_launches.LaunchRuns.
    free: runs as they go, without AHEAD_NS. A row for each call of the host and for each launch: cpp (whether the host
        is C++, else Python), call (whether it is a call), run, step, start_ns, end_ns. Each run's first call starts at
        0. Empty without a plain plan (gpu_launches.plain).
    graph: the host's ns before a graph can run (gpu_launches.GraphCosts), else {}.
    clocks_ns: the largest possible error between the host's clock and the GPU's, by host.
    processor: of the host.
    timer_step_ns: the step of the GPU's timer. overhead_ns: of two events.
    sustained: of the timed build.
    provenance: measured or recorded."""

    request: Request
    table: pd.DataFrame
    runs: pd.DataFrame
    free: pd.DataFrame
    graph: dict[str, float]
    clocks_ns: dict[str, float]
    processor: str
    timer_step_ns: int
    overhead_ns: float
    sustained: Sustained
    provenance: str
    device: str
    date: str

    @property
    def median(self) -> pd.DataFrame:
        """step, start_ns and end_ns of the run with the median time from its first start to its last end."""
        return median_run(self.table).set_index("step")[["start_ns", "end_ns"]]

    @property
    def lasts_ns(self) -> float:
        return float(self.median.end_ns.max())

    def as_it_goes(self, cpp: bool) -> pd.DataFrame:
        """call, step, start_ns and end_ns of the run as it goes with the median end. Empty if none was measured."""
        own = self.free[self.free.cpp == cpp]
        return median_run(own)[["call", "step", "start_ns", "end_ns"]] if len(own) else own

    @property
    def apart(self) -> float:
        """How far the timer and two events (less their overhead) are apart, as a share. Medians of framed runs."""
        return float(self.runs.framed_ns.median() / (self.runs.framed_events_ns.median() - self.overhead_ns)) - 1

    @property
    def after_ns(self) -> float:
        """The median time from the last end to the first reading of the next kernel in the stream."""
        return float(self.runs.after_ns.median())

    @property
    def host_ns(self) -> float:
        return float(self.runs.host_ns.median())

    @property
    def clocks_apart_ns(self) -> float:
        """The largest possible error between the host's clock and the GPU's. 0 without calls as they go."""
        return max(self.clocks_ns.values(), default=0.0)

    @property
    def late(self) -> bool:
        """Whether the host, though ahead, was still enqueuing during the run."""
        return self.host_ns > AHEAD_NS


def median_run(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the run with the median last end."""
    lasts = table.groupby("run").end_ns.max()
    chosen = lasts.sort_values(kind="stable").index[len(lasts) // 2]
    return table[table.run == chosen]


class RecordedLaunchTimes(RecordedRequest):
    """Recorded launch times, not yet read."""

    def load(self) -> LaunchTimes:
        """The LaunchTimes. TraceError for an unreadable file."""
        steps, runs, free = self.read(*PARTS)
        host = self.said["graph"], self.said["clocks_ns"], self.said["processor"]
        clock = self.said["timer_step_ns"], self.said["overhead_ns"], Sustained(**self.said["sustained"])
        return LaunchTimes(self.request, steps, runs, free, *host, *clock, "recorded", self.device, self.date)


def launch_times(request: Request) -> LaunchTimes:
    """The LaunchTimes of a request on the GPU, from a timeline build with a correct output, or the recorded ones.
    ProblemError on the CPU, and without a recording."""
    if request.backend == "recorded":
        return find(request).load()
    if request.backend != "gpu":
        raise ProblemError(
            "Launch times are times, and a CPU run yields none. Choose the recorded backend, or a machine with a GPU."
        )
    made, plan, arrays = execute.prepare(request, Mode.TIMELINE)
    timed = gpu_launches.timed_run(*execute.prepare(request, Mode.TIMED))
    found = gpu_launches.launch_times(made, plan, arrays, RUNS)
    check_right(request, arrays, "These launch times are")
    table = _rows(found.spans - found.spans[:, :, 0].min(axis=1)[:, None, None])
    numbers = {name: getattr(found, name).astype(float) for name in COLUMNS}
    numbers["timed_ns"] = gpu_launches.event_times(timed, RUNS)
    runs = pd.DataFrame({"run": range(RUNS), **numbers})
    free = [
        _rows(spans, cpp=host == gpu_launches.CPP, call=call)
        for host, one in found.free.items()
        for call, spans in ((True, one.calls), (False, one.spans))
    ]
    none = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in FREE.items()})
    tables = table, runs, pd.concat(free) if free else none
    graph = asdict(found.graph) if found.graph else {}
    processor = ""  # unless Linux reports its name
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    host = graph, {name: one.apart_ns for name, one in found.free.items()}, processor
    sustained = load.sustained([timed], lambda: None, float(np.median(numbers["timed_ns"])) / 1000)
    clock = gpu_launches.timer_step_ns(), gpu_launches.events_overhead_ns(RUNS), sustained
    today = datetime.date.today().isoformat()
    return LaunchTimes(request, *tables, *host, *clock, "measured", gpu.device().name, today)


def _rows(spans: np.ndarray, **more: object) -> pd.DataFrame:
    """A row for each step of each run. spans: ns, [runs, steps, 2]."""
    run, step = np.indices(spans.shape[:2]).reshape(2, -1)
    starts, ends = spans.reshape(-1, 2).T
    return pd.DataFrame({**more, "run": run, "step": step, "start_ns": starts, "end_ns": ends})


def names(request: Request) -> list[tuple[str, int]]:
    """(name, stream) of each step: a launch's entry, with a number if it repeats, or "copy of TENSOR"."""
    launches = request.plan.launches
    entries = [launch.entry for launch in launches]
    found = []
    for step in steps(request.plan):
        name = f"copy of {step.tensor}" if step.tensor else entries[step.number]
        if not step.tensor and launches[step.number].parent and entries.count(name) > 1:
            name = f"{name} {entries[: step.number].count(name)}"
        found.append((name, step.stream))
    return found


# ---- recorded ----


def _stored(made: LaunchTimes) -> Stored:
    header = {"timer_step_ns": made.timer_step_ns, "overhead_ns": made.overhead_ns, "sustained": asdict(made.sustained)}
    header |= {"graph": made.graph, "clocks_ns": made.clocks_ns, "processor": made.processor}
    return header, dict(zip(PARTS, (made.table, made.runs, made.free)))


RECORDINGS = Recordings(
    "launch_time",
    RecordedLaunchTimes,
    "launch_cases",
    partial(in_worker, "Launch times", launch_times),
    _stored,
    PARTS,
    shared=True,
)
recorded, find = RECORDINGS.all, RECORDINGS.find
