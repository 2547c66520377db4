"""Device time of runs on the GPU, and the state of the GPU around them."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

QUEUED = 25  # runs enqueued at a time; a stream takes about a thousand launches before it makes Python wait
CYCLES_PER_SECOND = 2e9  # of the GPU, at most about this
EVENTS_SECONDS = 2e-5  # that Python takes for a run's two events


def time_runs(
    enqueuers: Sequence[Callable[[], Any]], runs: int, before: Callable[[], Any] = lambda: None
) -> list[float]:
    """Microseconds of device time of `runs` runs, taking turns. before: enqueues what goes before each, untimed."""
    import cupy
    import torch

    started = time.perf_counter()
    before()
    enqueuers[-1]()
    python_seconds = time.perf_counter() - started + EVENTS_SECONDS
    times: list[float] = []
    for first in range(0, runs, QUEUED):
        turns = range(first, min(runs, first + QUEUED))
        events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in turns]
        waiting = 2 * python_seconds * (len(turns) + 1)  # the GPU waits until all is enqueued
        torch.cuda._sleep(int(waiting * CYCLES_PER_SECOND))
        enqueuers[(first - 1) % len(enqueuers)]()  # the first timed run too follows another
        for turn, (start, end) in zip(turns, events):
            before()
            start.record()
            enqueuers[turn % len(enqueuers)]()
            end.record()
        cupy.cuda.runtime.deviceSynchronize()
        times += [1000 * cupy.cuda.get_elapsed_time(start, end) for start, end in events]
    return times


@lru_cache
def l2_bytes() -> int:
    """Bytes of the GPU's L2."""
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])


def state() -> tuple[int | None, int | None, int | None]:
    """Clock (MHz), temperature (C) and power (W) of the GPU now; None for each that NVML does not tell."""
    try:
        import cupy
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(0).encode())
    except Exception:  # no NVML, or one that does not know this device: the time is good without it
        return None, None, None

    def ask(function: Callable[..., int], *what: int) -> int | None:
        try:
            return function(handle, *what)
        except pynvml.NVMLError:
            return None

    milliwatts = ask(pynvml.nvmlDeviceGetPowerUsage)
    return (
        ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        None if milliwatts is None else round(milliwatts / 1000),
    )
