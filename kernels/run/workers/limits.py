"""What a worker may take: address space, and CPU time for each task. Its children get the same limits."""

import os
import resource
from pathlib import Path

from kernels.errors import TooLargeError

SHARE = 4  # two workers of the CPU take at most half of the memory
LEAST_MOST = 4 * 2**30  # bytes of address space: threads and allocators reserve more than they use
SLACK = 60.0  # seconds of CPU time beyond the limit of a task


def most_bytes() -> int:
    """The address space that a worker of the CPU may take beyond its imports: a quarter of this machine's memory."""
    return max(LEAST_MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE)


def bound_memory(most: int) -> None:
    """Limits this process's address space to `most` bytes beyond those that it has."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = _address_space() + most
    limit = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def bound_seconds(seconds: float) -> None:
    """Limits this process's CPU time until its next task, which may keep each core busy for so many seconds. The server
    ends a late task earlier. This limit is for a process that left the worker's group."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used + seconds * (os.cpu_count() or 1) + SLACK)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def too_large(error: MemoryError) -> TooLargeError:
    """The error of a task that reached the limit of memory."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    said = "this machine has" if most == resource.RLIM_INFINITY else f"its worker may take ({most / 2**30:.1f} GiB)"
    return TooLargeError(f"The run needs more memory than {said}: {error}. Choose a smaller problem.")


def _address_space() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
