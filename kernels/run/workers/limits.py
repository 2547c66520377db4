"""What a worker may take: writable memory, and CPU time for each task. Its children get the same limits.

The limit is RLIMIT_DATA, not RLIMIT_AS: V8, which makes the page's chart library, reserves 67 GB of address space that
it never writes.
"""

import os
import resource

from kernels.errors import TooLargeError
from kernels.run.backends.cpu import data_bytes

SHARE = 4  # two workers of the CPU take at most half of the memory
LEAST_MOST = 4 * 2**30  # bytes: threads and allocators reserve more than they use
SLACK = 60.0  # seconds of CPU time beyond the limit of a task


def most_bytes() -> int:
    """The memory that a worker of the CPU may take beyond its imports: a quarter of this machine's memory."""
    return max(LEAST_MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE)


def bound_memory(most: int) -> None:
    """Limits this process's writable memory to `most` bytes beyond its present ones."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = data_bytes() + most
    limit = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def bound_seconds(seconds: float) -> None:
    """Limits this process's CPU time until its next task, which may keep each core busy for so many seconds. The server
    ends a late task earlier. This limit is for a process that left the worker's group."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used + seconds * (os.cpu_count() or 1) + SLACK)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def too_large(error: MemoryError) -> TooLargeError:
    """The error of a task that reached the limit of memory."""
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    said = "this machine has" if most == resource.RLIM_INFINITY else f"its worker may take ({most / 2**30:.1f} GiB)"
    return TooLargeError(f"The run needs more memory than {said}: {error}. Choose a smaller problem.")
