"""Times of a chip at work: runs follow each other without a pause, so clock and power settle first.

A *rested* time comes from short turns at a high clock. A *sustained* time comes from turns of SECONDS after LEAD
seconds of the same load. The program reads clock and power while the runs of a turn are still under way.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])


def state() -> tuple[int | None, int | None, int | None]:
    """Clock (MHz), temperature (C) and power (W) of the GPU now. None for a figure that NVML does not give."""
    milliwatts = _ask(0, "nvmlDeviceGetPowerUsage")
    return (
        _ask(0, "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        _ask(0, "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        None if milliwatts is None else round(milliwatts / 1000),
    )


def under_load(device: int = 0) -> tuple[int | None, int | None]:
    """Clock (MHz) and power (W) of a GPU at this instant. None for a figure that NVML does not give. On Hopper, NVML's
    usual power is the mean of a second. It mixes two neighbours in turns of 0.4 s."""
    handle = handle_of(device)
    if handle is None:
        return None, None
    import pynvml

    mhz = _ask(device, "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")
    milliwatts = _ask(device, "nvmlDeviceGetPowerUsage")
    try:
        (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn == pynvml.NVML_SUCCESS and field.value.uiVal:
            milliwatts = field.value.uiVal
    except (AttributeError, pynvml.NVMLError):  # an older NVML: the mean has to do
        pass
    return mhz, None if milliwatts is None else round(milliwatts / 1000)


def slowed(device: int) -> int | None:
    """NVML's reasons for a lower clock of a GPU now, as bits. None if NVML does not give them."""
    return _ask(device, "nvmlDeviceGetCurrentClocksThrottleReasons")


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


def _ask(device: int, function: str, *constants: str) -> int | None:
    """The answer of an NVML function about a GPU. None if NVML does not give it."""
    handle = handle_of(device)
    if handle is None:
        return None
    import pynvml

    try:
        return getattr(pynvml, function)(handle, *(getattr(pynvml, name) for name in constants))
    except pynvml.NVMLError:
        return None


SECONDS, LEAD = 0.4, 0.1
WARM_UP = 0.0125  # seconds of untimed runs before each turn of a round robin
LEAST_RUNS, TRIED_RUNS = 3, 10
TRIED_SECONDS = 0.05  # of the runs for the estimate of a run's time
AHEAD = 1.3  # a run that takes so many times as long as Python needs to enqueue it keeps the GPU busy
POLL_SECONDS = 0.005
State = tuple[int | None, int | None]
Enqueue = Callable[[], object]


@dataclass(frozen=True)
class Sustained:
    """A run's times on a chip at work.

    median_us, p10_us, p90_us: of the runs, in microseconds.
    clock: MHz during the runs, None if NVML does not say.
    power: W during the runs, None if NVML does not say."""

    median_us: float
    p10_us: float
    p90_us: float
    clock: int | None = None
    power: int | None = None


def sustained(enqueuers: Sequence[Enqueue], before: Enqueue, once_us: float) -> Sustained:
    """The Sustained of a run.

    enqueuers: functions that enqueue a run. They take turns.
    before: enqueues the untimed part before each run.
    once_us: about the time of a run.

    If Python enqueues runs more slowly than the GPU finishes them, the chip waits between batches of runs. Clock and
    power then stay empty."""
    import cupy

    runs = max(2, min(TRIED_RUNS, math.ceil(1e6 * TRIED_SECONDS / max(once_us, 1.0))))
    started = time.perf_counter()
    for n in range(runs):
        before()
        enqueuers[n % len(enqueuers)]()
    enqueued = time.perf_counter()
    cupy.cuda.runtime.deviceSynchronize()
    period, enqueuing = (time.perf_counter() - started) / runs, (enqueued - started) / runs + EVENTS_SECONDS
    if period >= AHEAD * enqueuing:
        times, (mhz, watts) = _without_pause(enqueuers, before, period)
    else:
        times, end = [], time.perf_counter() + LEAD + SECONDS
        while time.perf_counter() < end or len(times) < LEAST_RUNS:
            times += time_runs(enqueuers, QUEUED, before)
        mhz = watts = None  # between batches the chip waits, and a reading would be of the pause
        times = times[len(times) // 5 :]  # the first fifth is the load before
    low, median, high = (round(float(v), 3) for v in np.percentile(times, (10, 50, 90)))
    return Sustained(median, low, high, mhz, watts)


def _without_pause(enqueuers: Sequence[Enqueue], before: Enqueue, period: float) -> tuple[list[float], State]:
    """Microseconds of each run of SECONDS, after LEAD seconds of the same load, with clock and power."""
    import cupy

    for n in range(max(2, math.ceil(LEAD / period))):
        before()
        enqueuers[n % len(enqueuers)]()
    runs = max(LEAST_RUNS, math.ceil(SECONDS / period))
    events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(runs)]
    for n, (start, end) in enumerate(events):
        before()
        start.record()
        enqueuers[n % len(enqueuers)]()
        end.record()
    state = watched(events[-1][1])
    events[-1][1].synchronize()
    return [1000 * cupy.cuda.get_elapsed_time(start, end) for start, end in events], state


def watched(end: Any) -> State:
    """Clock (MHz) and power (W) of a GPU at work: the last reading before `end`, an event of CuPy."""
    last = under_load()
    while not end.done:
        time.sleep(POLL_SECONDS)
        now = under_load()
        if not end.done:
            last = now
    return last


def in_turns(
    each: Sequence[Sequence[Enqueue]], seconds: float, rounds: int, lead: float = 0.0, before: float = WARM_UP
) -> tuple[np.ndarray, list[list[State]]]:
    """(microseconds of device time of a run of each [each, rounds], [each][round] clock and power).

    Each round has the reverse order of the last: a turn after a hot neighbour is slower, by up to 7 % in the middle.

    each: for each participant, functions that enqueue a run.
    seconds: of a turn. lead: seconds of load before the first round. before: seconds of untimed runs before a turn."""
    counts = [max(3, round(1e6 * seconds / min(time_runs(functions, 2)))) for functions in each]
    times = np.zeros((len(each), rounds))
    states: list[list[State]] = [[] for _ in each]
    _enqueue(each[0], math.ceil(counts[0] * lead / seconds))
    for turn in range(rounds):
        for which in range(len(each)) if turn % 2 == 0 else reversed(range(len(each))):
            functions, count = each[which], counts[which]
            untimed = max(2, math.ceil(count * before / seconds))
            times[which, turn], state = _turn(functions, untimed, count)
            states[which].append(state)
    return times, states


def _turn(functions: Sequence[Enqueue], untimed: int, count: int) -> tuple[float, State]:
    """The mean of `count` runs in microseconds after `untimed` runs, with clock and power."""
    import cupy

    _enqueue(functions, untimed)
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    _enqueue(functions, count)
    end.record()
    state = watched(end)
    end.synchronize()
    return 1000 * cupy.cuda.get_elapsed_time(start, end) / count, state


def _enqueue(functions: Sequence[Enqueue], count: int) -> None:
    for n in range(count):
        functions[n % len(functions)]()
