"""Times of whole launches and copies of a run on a GPU, on one clock: the GPU's global timer.

A launch lasts from its first block's start to its last block's end, from a timeline build. A kernel of one thread
reads the timer before and after each copy, on the copy's stream.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kernels.build import Build
from kernels.core.launch import Plan
from kernels.core.streams import Step, steps
from kernels.errors import RunError
from kernels.run.backends import host_calls
from kernels.run.backends.gpu import BLOCK_TIME, enqueuer, errors
from kernels.run.backends.gpu_arrays import bring_back, to_gpu

if TYPE_CHECKING:
    import cupy

AHEAD_NS = 400_000  # of work before a run: shorter calls of the host end before the run starts
WARM_UPS = 3
STEPS = 4096  # reads of the timer, to find its smallest step
CLOCK = r"""
__device__ long long now() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
extern "C" __global__ void mark(long long* at) { *at = now(); }
extern "C" __global__ void spin(long long ns) { const long long end = now() + ns; while (now() < end) {} }
extern "C" __global__ void read_often(long long* at, int count) { for (int i = 0; i < count; ++i) at[i] = now(); }
"""


@dataclass(frozen=True)
class LaunchRuns:
    """Repeated runs after the host's calls, and as many framed ones: between two kernels of one thread, which read the
    timer.

    spans: ns of each run, [runs, steps, 2], from the start to the end of each launch and copy (streams.steps).
    events_ns: of each run, between two events.
    host_ns: of each run, the host's calls.
    framed_ns: of each framed run, from one reading to the other.
    framed_events_ns: of each framed run, between two events round its frame.
    after_ns: of each framed run, from its last end to the next kernel's reading.
    free: the runs as they go, by host (host_calls.free_runs). None unless the plan is plain.
    graph: its costs before a run.
    """

    spans: np.ndarray
    events_ns: np.ndarray
    host_ns: np.ndarray
    framed_ns: np.ndarray
    framed_events_ns: np.ndarray
    after_ns: np.ndarray
    free: dict[str, host_calls.FreeRuns]
    graph: host_calls.GraphCosts | None


def timer_step_ns() -> int:
    """The smallest step of the global timer."""
    import cupy

    found = cupy.zeros(STEPS, np.int64)
    _kernel("read_often")((1,), (1,), (found, np.int32(STEPS)))
    changes = np.diff(found.get())
    return int(changes[changes > 0].min())


def events_overhead_ns(runs: int) -> float:
    """The median time between two events round two marks, less the time between the marks."""
    import cupy

    at = cupy.zeros(2, np.int64)
    found = []
    for _ in range(runs):
        _kernel("spin")((1,), (1,), (np.int64(AHEAD_NS),))
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for number in (0, 1):
            _kernel("mark")((1,), (1,), (at[number:],))
        end.record()
        end.synchronize()
        marks = at.get()
        found.append(cupy.cuda.get_elapsed_time(begin, end) * 1e6 - float(marks[1] - marks[0]))
    return float(np.median(found))


def launch_times(build: Build, plan: Plan, arrays: dict[str, np.ndarray], runs: int) -> LaunchRuns:
    """Repeats a run of a timeline build. The GPU works for AHEAD_NS before each run, so the host's calls of short runs
    end before the run starts."""
    import cupy

    with errors():
        on_gpu = {name: to_gpu(array) for name, array in arrays.items()}
        listed = list(steps(plan))
        marks = cupy.zeros((len(listed), 2), np.int64)
        blocks = [cupy.zeros(launch.blocks * BLOCK_TIME.itemsize, cupy.uint8) for launch in plan.launches]

        def mark(step: Step, at: int) -> None:
            _kernel("mark")((1,), (1,), (marks[listed.index(step), at:],))

        def spans() -> list[tuple[int, int]]:
            copied = marks.get()
            return [
                copied[n] if step.tensor else _span(blocks[step.number], plan.launches[step.number].entry)
                for n, step in enumerate(listed)
            ]

        enqueue = enqueuer(build, plan, on_gpu, [(block,) for block in blocks], mark)
        found = [(*timed(enqueue), spans()) for _ in range(WARM_UPS + runs)][WARM_UPS:]
        frame = cupy.zeros(2, np.int64)

        def framed() -> None:
            _kernel("mark")((1,), (1,), (frame,))
            enqueue()
            _kernel("mark")((1,), (1,), (frame[1:],))

        frames = []
        for _ in range(WARM_UPS + runs):
            event, _ = timed(framed)
            first, last = frame.get()
            frames.append((last - first, event, last - np.max(spans())))
        free, graph = dict[str, host_calls.FreeRuns](), None
        if host_calls.plain(plan):
            free, graph = host_calls.free_runs(build, plan, on_gpu, blocks, spans, runs)
        bring_back(plan, arrays, on_gpu)
    events, host, each = zip(*found)
    framed_ns, framed_events_ns, after_ns = np.array(frames[WARM_UPS:], float).T
    of_frames = framed_ns, framed_events_ns, after_ns
    return LaunchRuns(np.array(each), np.array(events), np.array(host), *of_frames, free, graph)


def timed_run(build: Build, plan: Plan, arrays: dict[str, np.ndarray]) -> Callable[[], None]:
    """A function that enqueues a run of a timed build."""
    with errors():
        return enqueuer(build, plan, {name: to_gpu(array) for name, array in arrays.items()})


def event_times(enqueue: Callable[[], None], runs: int) -> np.ndarray:
    """ns between two events of each run."""
    with errors():
        return np.array([timed(enqueue)[0] for _ in range(WARM_UPS + runs)][WARM_UPS:])


def timed(enqueue: Callable[[], None]) -> tuple[float, float]:
    """ns of a run between two events, and ns of the host's calls, which come before it."""
    import cupy

    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    cupy.cuda.runtime.deviceSynchronize()
    _kernel("spin")((1,), (1,), (np.int64(AHEAD_NS),))
    begin.record()
    started = time.perf_counter_ns()
    enqueue()
    took = time.perf_counter_ns() - started
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) * 1e6, took


def _span(block: "cupy.ndarray", entry: str) -> tuple[int, int]:
    times = block.get().view(BLOCK_TIME)
    ran = times[times["start"] > 0]
    if not ran.size:
        raise RunError(
            f"No block of {entry} ran. Does its parent launch each child of the opening comment? "
            "A run on the cpu backend names the one that is missing."
        )
    return int(ran["start"].min()), int(ran["end"].max())


@lru_cache
def _kernel(name: str) -> "cupy.RawKernel":
    import cupy

    return cupy.RawKernel(CLOCK, name)
