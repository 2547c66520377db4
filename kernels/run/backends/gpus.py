"""Runs a plan over several real GPUs in one process: a stream of launches and a stream of copies on each, and events.

Devices push their copies (cudaMemcpyPeerAsync). Launches and copies wait for each other as core/planning.py states.
Nothing else orders the devices within a run.
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from kernels.build import Build
from kernels.core.launch import Copy, Plan
from kernels.core.planning import waits_of_copy, waits_of_launch
from kernels.core.tensors import Initial, Role
from kernels.errors import BackendUnavailable
from kernels.run.backends import gpu, gpu_arrays

if TYPE_CHECKING:
    import cupy

Span = tuple[float, float]  # microseconds from the start of the run on the step's own device


def count() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def connect(devices: int) -> None:
    """Lets each GPU reach the memory of the others. Raises BackendUnavailable if a pair cannot."""
    if count() < devices:
        raise BackendUnavailable(
            f"The plan needs {devices} GPUs, and this machine has {count()}. Choose a problem with fewer GPUs."
        )
    for own, other in permutations(range(devices), 2):
        _reach(own, other)


@cache
def _reach(own: int, other: int) -> None:
    """Lets a GPU reach the memory of another one. CUDA refuses a second time."""
    import cupy

    runtime = cupy.cuda.runtime
    if not runtime.deviceCanAccessPeer(own, other):
        raise BackendUnavailable(f"GPU {own} cannot reach the memory of GPU {other}. Choose GPUs with NVLink.")
    with cupy.cuda.Device(own):
        runtime.deviceEnablePeerAccess(other)


class ReadyPlan:
    """A plan on real GPUs, ready to run. arrays: tensor -> its bytes on its GPU."""

    def __init__(self, build: Build, plan: Plan, inputs: Mapping[str, np.ndarray]) -> None:
        import cupy

        self.plan, self.devices = plan, range(plan.devices)
        connect(plan.devices)
        self.arrays: dict[str, cupy.ndarray] = {}
        for tensor in plan.tensors:
            with cupy.cuda.Device(tensor.device):
                given = tensor.initial is Initial.GIVEN
                made = gpu_arrays.to_gpu(inputs[tensor.name]) if given else gpu_arrays.fresh(tensor)
                self.arrays[tensor.name] = made
        self.launching, self.copying = ([self._stream(device) for device in self.devices] for _ in range(2))
        self.starts = [self._launcher(build, number) for number in range(len(plan.launches))]
        self.of_copy = [plan.tensor(copy.source).device for copy in plan.copies]
        self.fork, self.joins = self._event(0), [self._event(device) for device in (*self.devices, *self.devices)]
        self.zero = [self._event(device, True) for device in self.devices]
        self.launched = [(self._event(s.device, True), self._event(s.device, True)) for s in plan.launches]
        self.copied = [(self._event(device, True), self._event(device, True)) for device in self.of_copy]
        self._wait()  # the streams of a run do not wait for the default streams, which filled the arrays

    def _wait(self) -> None:
        import cupy

        for device in self.devices:
            cupy.cuda.Device(device).synchronize()

    def _stream(self, device: int) -> "cupy.cuda.Stream":
        import cupy

        with cupy.cuda.Device(device):
            return cupy.cuda.Stream(non_blocking=True)

    def _event(self, device: int, timed: bool = False) -> "cupy.cuda.Event":
        import cupy

        with cupy.cuda.Device(device):
            return cupy.cuda.Event(disable_timing=not timed)

    def _launcher(self, build: Build, number: int) -> Callable[[], None]:
        import cupy

        step = self.plan.launches[number]
        with cupy.cuda.Device(step.device):
            return gpu.launcher(build, self.plan, step, self.arrays)

    def enqueue(self, launches: bool = True, copies: bool = True) -> None:
        """Enqueues a run between two points of the current stream of GPU 0. Without its copies, a run is wrong."""
        import cupy

        current = cupy.cuda.get_current_stream()
        self.fork.record(current)
        for device, streams in enumerate(zip(self.launching, self.copying)):
            with cupy.cuda.Device(device):
                for stream in streams:
                    stream.wait_event(self.fork)
                self.zero[device].record(streams[0])
        places = {id(copy): number for number, copy in enumerate(self.plan.copies)}
        number = 0
        for step in self.plan.steps:
            if isinstance(step, Copy):
                if copies:
                    self._copy(places[id(step)], launches)
                continue
            if launches:
                self._launch(number, copies)
            number += 1
        for join, stream, device in zip(self.joins, (*self.launching, *self.copying), (*self.devices, *self.devices)):
            with cupy.cuda.Device(device):
                join.record(stream)
            current.wait_event(join)

    def _launch(self, number: int, copies: bool) -> None:
        import cupy

        device = self.plan.launches[number].device
        stream, (begin, end) = self.launching[device], self.launched[number]
        with cupy.cuda.Device(device), stream:
            for copy in waits_of_launch(self.plan, number) if copies else ():
                stream.wait_event(self.copied[copy][1])
            begin.record(stream)
            self.starts[number]()
            end.record(stream)

    def _copy(self, number: int, launches: bool) -> None:
        import cupy

        copy, waits = self.plan.copies[number], waits_of_copy(self.plan, number)
        device, target = self.of_copy[number], self.plan.tensor(copy.target).device
        stream, (begin, end) = self.copying[device], self.copied[number]
        with cupy.cuda.Device(device):
            for launch in waits.launches if launches else ():
                stream.wait_event(self.launched[launch][1])
            for earlier in waits.copies:
                stream.wait_event(self.copied[earlier][1])
            begin.record(stream)
            source, to = self.arrays[copy.source].data, self.arrays[copy.target].data
            cupy.cuda.runtime.memcpyPeerAsync(
                to.ptr, target, source.ptr, device, self.arrays[copy.source].nbytes, stream.ptr
            )
            end.record(stream)

    def spans(self) -> tuple[list[Span], list[Span]]:
        """The spans of the launches and of the copies of the last run, which had both."""
        import cupy

        self._wait()

        def span(device: int, events: "tuple[cupy.cuda.Event, cupy.cuda.Event]") -> Span:
            with cupy.cuda.Device(device):
                begin, end = (1000 * cupy.cuda.get_elapsed_time(self.zero[device], event) for event in events)
            return round(begin, 1), round(end, 1)

        launches = [span(step.device, pair) for step, pair in zip(self.plan.launches, self.launched)]
        return launches, [span(device, pair) for device, pair in zip(self.of_copy, self.copied)]

    def outputs(self) -> dict[str, np.ndarray]:
        import cupy

        self._wait()
        found = {}
        for tensor in self.plan.tensors:
            if tensor.role is Role.OUTPUT:
                with cupy.cuda.Device(tensor.device):
                    found[tensor.name] = gpu_arrays.to_numpy(self.arrays[tensor.name], tensor)
        return found
