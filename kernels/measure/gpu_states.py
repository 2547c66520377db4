"""Clock, power and limits of each GPU of this machine while runs follow each other without a pause."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cupy

BATCH_SECONDS, READ_SECONDS = 0.04, 0.01
POWER, HEAT = 0x4, 0x8 | 0x20 | 0x40 | 0x80  # bits of NVML's reasons for a lower clock: the power cap, slowdowns


@dataclass(frozen=True)
class GpuState:
    """A GPU during runs.

    clock: MHz, the median. power: W, the median.
    capped, hot: the share of the readings at which the power cap, or heat, held the clock down.
    """

    clock: float
    power: float
    capped: float
    hot: float


def watched(enqueue: Callable[[], object], once_us: float, seconds: float, lead: float) -> list[GpuState]:
    """The GpuState of each GPU during runs of `seconds`, after `lead` seconds of the same load. Empty without NVML.

    once_us: about the time of a run.
    """
    try:
        import cupy
        import pynvml

        pynvml.nvmlInit()
        places = [cupy.cuda.runtime.deviceGetPCIBusId(n) for n in range(cupy.cuda.runtime.getDeviceCount())]
        handles = [pynvml.nvmlDeviceGetHandleByPciBusId(place.encode()) for place in places]
    except Exception:  # a time is good without clock and power
        return []
    batch = max(1, round(1e6 * BATCH_SECONDS / once_us))
    found: list[list[tuple[int, float, int]]] = [[] for _ in handles]
    started, ends = time.perf_counter(), [_enqueued(enqueue, batch)]
    while time.perf_counter() < started + lead + seconds:
        ends.append(_enqueued(enqueue, batch))  # one batch waits, so no GPU does
        while not ends[0].done:
            if time.perf_counter() > started + lead:
                for own, handle in zip(found, handles):
                    own.append(_read(pynvml, handle))
            time.sleep(READ_SECONDS)
        ends.pop(0)
    ends[0].synchronize()
    return [_state(own) for own in found if own]


def _enqueued(enqueue: Callable[[], object], count: int) -> "cupy.cuda.Event":
    import cupy

    for _ in range(count):
        enqueue()
    end = cupy.cuda.Event()
    end.record()
    return end


def _read(nvml: ModuleType, handle: object) -> tuple[int, float, int]:
    """MHz, W and the reasons for a lower clock, now."""
    clock = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
    (field,) = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_POWER_INSTANT])
    return clock, field.value.uiVal / 1000, nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


def _state(readings: Sequence[tuple[int, float, int]]) -> GpuState:
    clocks, powers, reasons = zip(*readings)
    capped, hot = (round(sum(bool(r & bits) for r in reasons) / len(reasons), 3) for bits in (POWER, HEAT))
    return GpuState(median(clocks), round(median(powers), 1), capped, hot)
