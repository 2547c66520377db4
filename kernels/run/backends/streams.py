"""The order of a plan's launches and copies on a GPU: streams, events, and one CUDA graph.

Stream 0 is the current stream of CuPy. A run begins and ends there: the other streams first wait for it, and at the
end it waits for them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kernels.core.launch import Plan
from kernels.core.streams import Step, copied_bytes, steps

if TYPE_CHECKING:
    import cupy

    Arrays = Mapping[str, cupy.ndarray]

HOST_TO_DEVICE = 1  # cudaMemcpyHostToDevice
RELAXED = 2  # cudaStreamCaptureModeRelaxed
POISON = 0xFF  # each byte of a NaN, before a copy


def enqueuer(
    plan: Plan, starts: Sequence[Callable[[], None]], on_gpu: "Arrays", mark: Callable[[Step, int], None] | None = None
) -> Callable[[], None]:
    """A function that enqueues one run of the plan. starts: each enqueues its launch on the current stream.

    mark: called before (0) and after (1) each copy, on its stream.
    Tensors with a copy from host memory are poisoned here. Each run copies them anew."""
    if not plan.graph and not any(launch.stream or launch.fetch for launch in plan.launches):
        return partial(_one_after_another, starts)
    copies = _copies(plan, on_gpu)
    if mark:
        marked = {step: (partial(mark, step, 0), copy, partial(mark, step, 1)) for step, copy in copies.items()}
        copies = {step: partial(_one_after_another, calls) for step, calls in marked.items()}
    run = _Streams(plan, starts, copies).enqueue
    if not plan.graph:
        return run
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture(RELAXED)
        run()
        graph = stream.end_capture()

    def launch(keep: object = run) -> None:
        graph.launch()

    return launch


def _one_after_another(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


class _Streams:
    def __init__(self, plan: Plan, starts: Sequence[Callable[[], None]], copies: Mapping[Step, Callable[[], None]]):
        import cupy

        self.starts, self.copies, self.steps = starts, copies, list(steps(plan))
        self.others = {
            n: cupy.cuda.Stream(non_blocking=True) for n in sorted({step.stream for step in self.steps} - {0})
        }
        waited = {number for step in self.steps for number in step.waits}
        self.done = {number: _event() for number in waited}
        self.copied = {step: _event() for step in copies if step.stream != plan.launches[step.number].stream}
        self.begun, self.ended = _event(), {n: _event() for n in self.others}

    def enqueue(self) -> None:
        import cupy

        main = cupy.cuda.get_current_stream()
        streams = {0: main, **self.others}
        if self.others:
            self.begun.record(main)
        for other in self.others.values():
            other.wait_event(self.begun)
        for step in self.steps:
            with streams[step.stream]:
                self._enqueue(step, streams[step.stream])
        for number, other in self.others.items():
            self.ended[number].record(other)
            main.wait_event(self.ended[number])

    def _enqueue(self, step: Step, stream: "cupy.cuda.Stream") -> None:
        if step.tensor:
            self.copies[step]()
            if step in self.copied:
                self.copied[step].record(stream)
            return
        for number in step.waits:
            stream.wait_event(self.done[number])
        for copy, event in self.copied.items():
            if copy.number == step.number:
                stream.wait_event(event)
        self.starts[step.number]()
        if step.number in self.done:
            self.done[step.number].record(stream)


def _event() -> "cupy.cuda.Event":
    import cupy

    return cupy.cuda.Event(disable_timing=True)


def _copies(plan: Plan, on_gpu: "Arrays") -> dict[Step, Callable[[], None]]:
    found, host = dict[Step, Callable[[], None]](), dict[tuple[str, str], np.ndarray]()
    for step in steps(plan):
        fetch = plan.launches[step.number].fetch
        if step.tensor and fetch:
            key = (step.tensor, fetch.memory)
            if key not in host:
                host[key] = _on_host(on_gpu[step.tensor], fetch.memory)
            found[step] = _copy(host[key], on_gpu[step.tensor], copied_bytes(plan, step))
    for name, _ in host:
        on_gpu[name].fill(POISON)
    return found


def _on_host(array: "cupy.ndarray", memory: str) -> np.ndarray:
    """The bytes of an array in pinned or pageable host memory."""
    import cupy

    if memory == "pageable":
        return array.get()
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), np.uint8, array.nbytes)
    pinned[...] = array.get()
    return pinned


def _copy(host: np.ndarray, array: "cupy.ndarray", part: range) -> Callable[[], None]:
    import cupy

    target, source, size = array.data.ptr + part.start, host.ctypes.data + part.start, len(part)

    def copy(keep: object = (host, array)) -> None:
        stream = cupy.cuda.get_current_stream().ptr
        cupy.cuda.runtime.memcpyAsync(target, source, size, HOST_TO_DEVICE, stream)

    return copy
