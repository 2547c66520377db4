"""Times of a chip at work: runs follow each other without a pause, so clock and power settle first.

A *rested* time comes from short turns at a high clock. A *sustained* time comes from turns of SECONDS after LEAD
seconds of the same load. The program reads clock and power while the runs of a turn are still under way.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.measure import clock

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
    power: W during the runs, None if NVML does not say.
    """

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
    power then stay empty.
    """
    period, enqueuing = _paces(enqueuers, before, once_us)
    if period >= AHEAD * enqueuing:
        times, (mhz, watts) = _without_pause(enqueuers, before, period)
    else:
        times, end = [], time.perf_counter() + LEAD + SECONDS
        while time.perf_counter() < end or len(times) < LEAST_RUNS:
            times += clock.time_runs(enqueuers, clock.QUEUED, before)
        mhz = watts = None  # between batches the chip waits, and a reading would be of the pause
        times = times[len(times) // 5 :]  # the first fifth is the load before
    low, median, high = (round(float(v), 3) for v in np.percentile(times, (10, 50, 90)))
    return Sustained(median, low, high, mhz, watts)


def _paces(enqueuers: Sequence[Enqueue], before: Enqueue, once_us: float) -> tuple[float, float]:
    """(seconds of a run with its untimed part, Python's seconds to enqueue both with two events)."""
    import cupy

    runs = max(2, min(TRIED_RUNS, math.ceil(1e6 * TRIED_SECONDS / max(once_us, 1.0))))
    started = time.perf_counter()
    for n in range(runs):
        before()
        enqueuers[n % len(enqueuers)]()
    enqueued = time.perf_counter()
    cupy.cuda.runtime.deviceSynchronize()
    return (time.perf_counter() - started) / runs, (enqueued - started) / runs + clock.EVENTS_SECONDS


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
    last = clock.under_load()
    while not end.done:
        time.sleep(POLL_SECONDS)
        now = clock.under_load()
        if not end.done:
            last = now
    return last


def in_turns(
    each: Sequence[Sequence[Enqueue]], seconds: float, rounds: int, lead: float = 0.0, before: float = WARM_UP
) -> tuple[np.ndarray, list[list[State]]]:
    """(microseconds of device time of a run of each [each, rounds], [each][round] clock and power).

    Each round has the reverse order of the last: a turn after a hot neighbour is slower, by up to 7 % in the middle.

    each: for each participant, functions that enqueue a run.
    seconds: of a turn. lead: seconds of load before the first round. before: seconds of untimed runs before a turn.
    """
    counts = [max(3, round(1e6 * seconds / min(clock.time_runs(functions, 2)))) for functions in each]
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
