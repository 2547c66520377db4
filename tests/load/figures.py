"""What load tests print: percentiles, a fitted slope, the memory of a process and of those below it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psutil


def percentiles(seconds: Sequence[float]) -> str:
    """p50, p95 and max in milliseconds."""
    if not seconds:
        return "none"
    p50, p95, most = np.percentile(seconds, [50, 95, 100]) * 1000
    return f"p50 {p50:,.0f} ms, p95 {p95:,.0f} ms, max {most:,.0f} ms, of {len(seconds)}"


def slope(minutes: Sequence[float], megabytes: Sequence[float]) -> str:
    """MB a minute, with the standard error of the fit, which leaves out the first tenth: what is imported and first
    cached is no leak."""
    rest = len(minutes) // 10
    if len(minutes) - rest < 4:
        return "too short to tell"
    (fitted, _), covariance = np.polyfit(minutes[rest:], megabytes[rest:], 1, cov=True)
    return f"{fitted:+.2f} ± {np.sqrt(covariance[0, 0]):.2f} MB a minute"


@dataclass(frozen=True)
class Memory:
    """Resident megabytes. web: of the process that serves pages; below: of its workers together.

    processes: all these."""

    web: float
    below: float
    processes: int


def memory(pid: int) -> Memory:
    web = psutil.Process(pid)
    below = []
    for child in web.children(recursive=True):
        try:
            if child.name().startswith("python"):  # a compiler comes and goes
                below.append(child.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return Memory(web.memory_info().rss / 2**20, sum(below) / 2**20, 1 + len(below))


def cpu_seconds(pid: int) -> float:
    """Of that process alone, since it began."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def zombies(pid: int) -> int:
    """Ended processes below a server that nobody has waited for."""
    below = psutil.Process(pid).children(recursive=True)
    return sum(child.is_running() and child.status() == psutil.STATUS_ZOMBIE for child in below)
