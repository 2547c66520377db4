"""The host's calls of a run on one stream, or of its graph, as it goes: no call waits for the GPU, and the GPU waits
for none. From Python through CuPy, and from C++ through the driver, with the time of each call on the GPU's clock.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.build import Build, cache, cpp
from kernels.core.launch import Plan
from kernels.core.tensors import Initial
from kernels.errors import BackendUnavailable
from kernels.run.backends import driver, gpu

if TYPE_CHECKING:
    import cupy

SOURCE, CLOCK = Path(__file__).with_suffix(".cpp"), Path(__file__).with_name("host_clock.cuh")
PYTHON, CPP = "Python", "C++"
WARM_UPS = 3
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
    apart_ns: the largest possible error between the host's clock and the GPU's.
    """

    calls: np.ndarray
    spans: np.ndarray
    apart_ns: float


@dataclass(frozen=True)
class GraphCosts:
    """The host's calls before a graph can run, from C++, in ns: medians of fresh graphs.

    capture: of all launches. instantiate: of the graph. update: of a graph to another capture, without the capture.
    """

    capture_ns: float
    instantiate_ns: float
    update_ns: float


def plain(plan: Plan) -> bool:
    """Whether the host's calls are one launch for each kernel on one stream, or one graph of them."""
    launches = plan.launches
    others = any(one.stream or one.fetch or one.has_attributes or one.parent for one in launches)
    return not others and not any(tensor.initial is Initial.ZERO for tensor in plan.written)


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
    hosts: dict[str, Calls] = {PYTHON: lambda: [_timed(start) for start in starts]}
    costs = None
    try:
        host = CppHost(build, plan, on_gpu, blocks)
    except BackendUnavailable:
        return {PYTHON: _repeated(hosts[PYTHON], spans, runs)}, None
    with host:
        if plan.graph:
            costs = host.costs(runs)
        hosts[CPP] = host.run
        return {name: _repeated(run, spans, runs) for name, run in hosts.items()}, costs


def _timed(start: Callable[[], None]) -> tuple[int, int]:
    began = time.perf_counter_ns()
    start()
    return began, time.perf_counter_ns()


def _repeated(run: Calls, spans: Spans, runs: int) -> FreeRuns:
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

    return cupy.cuda.alloc_pinned_memory(3 * 8), cupy.RawKernel(CLOCK.read_text(), "answer")


@lru_cache
def _library() -> ctypes.CDLL:
    """host_calls.cpp. Raises BackendUnavailable without a C++ compiler that can make it."""

    def make(folder: Path) -> dict[str, object]:
        done = cpp.run([*command, str(SOURCE), "-o", str(folder / "host_calls.so"), "-ldl"])
        if done.returncode:
            raise BackendUnavailable(f"{SOURCE.name} does not compile: {done.stderr.strip()[:400]}")
        return {}

    command = [*cpp.cpp_compiler(), "-std=c++17", "-O2", "-fPIC", "-shared"]
    folder, _ = cache.get(cache.key_of(*command, SOURCE.read_text()), "host_calls.so", make)
    return ctypes.CDLL(str(folder / "host_calls.so"))


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
