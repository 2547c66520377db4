"""Clock, power and limits of each GPU of this machine while runs follow each other without a pause."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from kernels.measure import clock

if TYPE_CHECKING:
    import cupy

BATCH_SECONDS, READ_SECONDS = 0.04, 0.01
POWER, HEAT = 0x4, 0x20 | 0x40  # bits of NVML's reasons for a lower clock: SwPowerCap, SwThermal and HwThermalSlowdown


@dataclass(frozen=True)
class GpuState:
    """A GPU during runs. None for a figure that NVML does not give.

    clock: MHz, the median. power: W, the median.
    capped, hot: the share of the readings at which the power cap, or heat, held the clock down.
    """

    clock: float | None
    power: float | None
    capped: float | None
    hot: float | None


Reading = tuple[int | None, int | None, int | None]  # MHz, W and the reasons for a lower clock, at one instant


def watched(enqueue: Callable[[], object], once_us: float, seconds: float, lead: float) -> list[GpuState]:
    """The GpuState of each GPU during runs of `seconds`, after `lead` seconds of the same load. Empty without NVML.

    once_us: about the time of a run.
    """
    import cupy

    devices = range(cupy.cuda.runtime.getDeviceCount())
    if any(clock.handle_of(device) is None for device in devices):
        return []
    batch = max(1, round(1e6 * BATCH_SECONDS / once_us))
    found: list[list[Reading]] = [[] for _ in devices]
    started, ends = time.perf_counter(), [_enqueued(enqueue, batch)]
    while time.perf_counter() < started + lead + seconds:
        ends.append(_enqueued(enqueue, batch))  # one batch waits, so no GPU does
        while not ends[0].done:
            if time.perf_counter() > started + lead:
                for device in devices:
                    found[device].append((*clock.under_load(device), clock.slowed(device)))
            time.sleep(READ_SECONDS)
        ends.pop(0)
    ends[0].synchronize()
    return [state_of(own) for own in found if own]


def _enqueued(enqueue: Callable[[], object], count: int) -> "cupy.cuda.Event":
    import cupy

    for _ in range(count):
        enqueue()
    end = cupy.cuda.Event()
    end.record()
    return end


def state_of(readings: Sequence[Reading]) -> GpuState:
    """The GpuState of some readings."""
    clocks, powers, reasons = ([value for value in column if value is not None] for column in zip(*readings))
    capped, hot = (
        round(sum(bool(r & bits) for r in reasons) / len(reasons), 3) if reasons else None for bits in (POWER, HEAT)
    )
    return GpuState(median(clocks) if clocks else None, median(powers) if powers else None, capped, hot)
