"""Device time of runs on the GPU, and the state of the GPU around them."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

QUEUED = 25  # runs enqueued at a time. After about a thousand launches, a stream makes Python wait
CYCLES_PER_SECOND = 2e9  # of the GPU, at most about this
EVENTS_SECONDS = 2e-5  # Python's time for a run's two events


def time_runs(
    enqueuers: Sequence[Callable[[], object]], runs: int, before: Callable[[], object] = lambda: None
) -> list[float]:
    """Microseconds of device time of `runs` runs, in turns. before: enqueues the untimed part before each run."""
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
    """Clock (MHz), temperature (C) and power (W) of the GPU now. None for a figure that NVML does not give."""
    handle = handle_of(0)
    if handle is None:
        return None, None, None
    import pynvml

    milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    return (
        _ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        _ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        None if milliwatts is None else round(milliwatts / 1000),
    )


def under_load(device: int = 0) -> tuple[int | None, int | None]:
    """Clock (MHz) and power (W) of a GPU at this instant. None for a figure that NVML does not give.

    On Hopper, NVML's usual power is the mean of a second. It mixes two neighbours in turns of 0.4 s.
    """
    handle = handle_of(device)
    if handle is None:
        return None, None
    import pynvml

    mhz = _ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
    milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    try:
        (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn == pynvml.NVML_SUCCESS and field.value.uiVal:
            milliwatts = field.value.uiVal
    except (AttributeError, pynvml.NVMLError):  # an older NVML: the mean has to do
        pass
    return mhz, None if milliwatts is None else round(milliwatts / 1000)


def slowed(device: int) -> int | None:
    """NVML's reasons for a lower clock of a GPU now, as bits. None if NVML does not give them."""
    handle = handle_of(device)
    if handle is None:
        return None
    import pynvml

    return _ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)


@lru_cache
def handle_of(device: int) -> object:
    """NVML's handle of one of this process's GPUs. None without NVML, or for a device unknown to NVML."""
    try:
        import cupy
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(device).encode())
    except Exception:  # a time is good without clock and power
        return None


def _ask(function: Callable[..., int], *what: object) -> int | None:
    import pynvml

    try:
        return function(*what)
    except pynvml.NVMLError:
        return None
