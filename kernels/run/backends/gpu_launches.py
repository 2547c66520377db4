"""Times of whole launches and copies of a run on a GPU, on one clock: the GPU's global timer.

A launch lasts from its first block's start to its last block's end, from a timeline build. A kernel of one thread
reads the timer before and after each copy, on the copy's stream.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.build import Build, cpp
from kernels.core.launch import Plan
from kernels.core.streams import Step, steps
from kernels.core.tensors import SET
from kernels.errors import BackendUnavailable, RunError
from kernels.run.backends import driver, gpu
from kernels.run.backends.gpu import BLOCK_TIME, enqueuer, errors
from kernels.run.backends.gpu_arrays import bring_back, to_gpu

if TYPE_CHECKING:
    import cupy

HOST_SOURCE = Path(__file__).with_name("host_calls.cpp")
HOST_CLOCK = Path(__file__).with_name("host_clock.cuh")
PYTHON, CPP = "Python", "C++"
PINGS, PATIENCE_NS = 40, 1_000_000_000
Calls = Callable[[], list[tuple[int, int]]]  # makes the calls of a run: the start and the end of each
Spans = Callable[[], list[tuple[int, int]]]


class _Call(ctypes.Structure):
    """struct Call of host_calls.cpp."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class FreeRuns:
    """Repeated runs as they go, from one host.

    calls: ns of each run, [runs, calls, 2], from the start to the end of each call of the host.
    spans: ns of each run, [runs, launches, 2], from the first block's start to the last block's end of each launch.
    Both are on the GPU's clock, and 0 is the start of the first call.
    apart_ns: the largest possible error between the host's clock and the GPU's."""

    calls: np.ndarray
    spans: np.ndarray
    apart_ns: float


@dataclass(frozen=True)
class GraphCosts:
    """The host's calls before a graph can run, from C++, in ns: medians of fresh graphs.

    capture: of all launches. instantiate: of the graph. update: of a graph to another capture, without the capture."""

    capture_ns: float
    instantiate_ns: float
    update_ns: float


def plain(plan: Plan) -> bool:
    """Whether the host's calls are one launch for each kernel on one stream, or in one graph."""
    launches = plan.launches
    others = any(one.stream or one.fetch or one.has_attributes or one.parent for one in launches)
    return not others and not any(tensor.initial in SET for tensor in plan.written)


def free_runs(
    build: Build,
    plan: Plan,
    on_gpu: Mapping[str, "cupy.ndarray"],
    blocks: Sequence["cupy.ndarray"],
    spans: Spans,
    runs: int,
) -> tuple[dict[str, FreeRuns], GraphCosts | None]:
    """The FreeRuns from each host, and the costs of a graph. No C++ without a compiler.

    build: of the timeline. blocks: for the times of each launch's blocks. spans: the start and the end of each launch.
    """
    starts = [gpu.launcher(build, plan, one, on_gpu, (block,)) for one, block in zip(plan.launches, blocks)]
    if plan.graph:
        starts = [gpu.enqueuer(build, plan, on_gpu, [(block,) for block in blocks])]
    hosts: dict[str, Calls] = {PYTHON: lambda: [_timed_call(start) for start in starts]}
    costs = None
    try:
        host = CppHost(build, plan, on_gpu, blocks)
    except BackendUnavailable:
        return {PYTHON: _free(hosts[PYTHON], spans, runs)}, None
    with host:
        if plan.graph:
            costs = host.costs(runs)
        hosts[CPP] = host.run
        return {name: _free(run, spans, runs) for name, run in hosts.items()}, costs


def _timed_call(start: Callable[[], None]) -> tuple[int, int]:
    began = time.perf_counter_ns()
    start()
    return began, time.perf_counter_ns()


def _free(run: Calls, spans: Spans, runs: int) -> FreeRuns:
    """Each run starts on an idle GPU."""
    import cupy

    calls, found, apart = [], [], []
    for number in range(WARM_UPS + runs):
        offset, error = clocks_apart_ns()
        cupy.cuda.runtime.deviceSynchronize()
        at = np.array(run())
        cupy.cuda.runtime.deviceSynchronize()
        if number < WARM_UPS:
            continue
        first = at[0, 0]
        calls.append(at - first)
        found.append(np.array(spans()) - (first + offset))
        apart.append(error)
    return FreeRuns(np.array(calls, float), np.array(found, float), float(np.median(apart)))


def clocks_apart_ns() -> tuple[int, float]:
    """The GPU's clock less the host's, and the largest possible error: from the shortest of PINGS round trips."""
    import cupy

    memory, answer = _answering()
    at = np.frombuffer(memory, np.int64, 3)
    at[:] = 0
    answer((1,), (1,), (np.uint64(memory.ptr), np.int32(PINGS), np.int64(PATIENCE_NS)))
    found = []
    for number in range(1, PINGS + 1):
        began = time.perf_counter_ns()
        at[0] = number
        while at[2] < number and time.perf_counter_ns() - began < PATIENCE_NS:
            pass
        ended = time.perf_counter_ns()
        found.append((ended - began, int(at[1]) - (began + ended) // 2))
    cupy.cuda.runtime.deviceSynchronize()
    trip, offset = min(found[1:])
    return offset, trip / 2


@lru_cache
def _answering() -> tuple["cupy.cuda.PinnedMemoryPointer", "cupy.RawKernel"]:
    import cupy

    return cupy.cuda.alloc_pinned_memory(3 * 8), cupy.RawKernel(HOST_CLOCK.read_text(), "answer")


@lru_cache
def _library() -> ctypes.CDLL:
    """host_calls.cpp. Raises BackendUnavailable without a C++ compiler that can make it."""
    return ctypes.CDLL(str(cpp.own_library(HOST_SOURCE, ["-std=c++17", "-O2"], HOST_SOURCE.name, ["-ldl"])))


class CppHost:
    """The calls of a plain plan from C++. It owns a graph until its end."""

    def __init__(
        self, build: Build, plan: Plan, on_gpu: Mapping[str, "cupy.ndarray"], blocks: Sequence["cupy.ndarray"]
    ):
        import cupy

        self.library, self.graph = _library(), ctypes.c_void_p()
        given = [(*gpu.arguments(plan, one, on_gpu), block) for one, block in zip(plan.launches, blocks)]
        self.held = [driver.pointers(one) for one in given], given
        self.calls = (_Call * len(given))()
        for call, one, (pointers, _) in zip(self.calls, plan.launches, self.held[0]):
            call.function, call.shared_bytes = gpu.function_of(build, one), one.shared_bytes
            call.grid[:], call.block[:], call.arguments = one.grid, one.block, ctypes.addressof(pointers)
        self.at = np.zeros((1 if plan.graph else len(given), 2), np.int64)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def __enter__(self) -> "CppHost":
        return self

    def __exit__(self, *_: object) -> None:
        if self.graph:
            self._asked(self.library.destroy_graph, self.graph)

    def costs(self, runs: int) -> GraphCosts:
        """The costs of `runs` graphs. The last graph stays, for `run`."""
        took = np.zeros((runs, 3), np.int64)
        for row in took:
            self.__exit__()
            self._asked(
                self.library.make_graph,
                self.calls,
                len(self.calls),
                ctypes.c_void_p(self.stream.ptr),
                ctypes.byref(self.graph),
                ctypes.c_void_p(row.ctypes.data),
            )
        return GraphCosts(*np.median(took, axis=0).tolist())

    def run(self) -> list[tuple[int, int]]:
        """Makes the calls on the default stream."""
        at = ctypes.c_void_p(self.at.ctypes.data)
        if self.graph:
            self._asked(self.library.launch_graph, self.graph, None, at)
        else:
            self._asked(self.library.launch_all, self.calls, len(self.calls), None, at)
        return [(int(began), int(ended)) for began, ended in self.at]

    @staticmethod
    def _asked(function: Callable[..., int], *given: object) -> None:
        error = function(*given)
        if error:
            raise driver.failure(error, f"CUDA error {error}")


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
    free: the runs as they go, by host (free_runs). None unless the plan is plain."""

    spans: np.ndarray
    events_ns: np.ndarray
    host_ns: np.ndarray
    framed_ns: np.ndarray
    framed_events_ns: np.ndarray
    after_ns: np.ndarray
    free: dict[str, FreeRuns]
    graph: GraphCosts | None


def timer_step_ns() -> int:
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
        free, graph = dict[str, FreeRuns](), None
        if plain(plan):
            free, graph = free_runs(build, plan, on_gpu, blocks, spans, runs)
        bring_back(plan, arrays, on_gpu)
    events, host, each = zip(*found)
    framed_ns, framed_events_ns, after_ns = np.array(frames[WARM_UPS:], float).T
    of_frames = framed_ns, framed_events_ns, after_ns
    return LaunchRuns(np.array(each), np.array(events), np.array(host), *of_frames, free, graph)


def timed_run(build: Build, plan: Plan, arrays: dict[str, np.ndarray]) -> Callable[[], None]:
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
