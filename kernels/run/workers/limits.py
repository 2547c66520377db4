"""Limits of a worker: writable memory, and CPU time for each task. Its children inherit them.

The limit is RLIMIT_DATA, not RLIMIT_AS: V8, used by the page's chart library, reserves 67 GB of address space without
writing there.
"""

import ctypes
import os
import resource

import pyarrow

from kernels.errors import TooLargeError
from kernels.run.backends.calls import data_bytes

SHARE = 4  # two workers of the CPU take at most half of the memory
LEAST_MOST = 4 * 2**30  # bytes: threads and allocators reserve more than they use
SLACK = 60.0  # seconds of CPU time beyond a task's limit


def most_bytes() -> int:
    """A worker's bytes beyond its imports: a quarter of this machine's memory."""
    return max(LEAST_MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE)


def bound_memory(most: int) -> None:
    """Limits this process's writable memory to `most` more bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _at_most(data_bytes() + most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def bound_seconds(seconds: float) -> None:
    """Limits this process's CPU time until its next task: all cores may be busy for `seconds`.

    The server ends a late task earlier. This limit is for a process outside the worker's group.
    """
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used + seconds * (os.cpu_count() or 1) + SLACK)
    resource.setrlimit(resource.RLIMIT_CPU, (_at_most(soft, hard), hard))


def return_memory() -> None:
    """Returns freed memory of this process to the system. glibc and Arrow would keep it."""
    pyarrow.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # only glibc has it
        trim(0)


def _at_most(soft: int, hard: int) -> int:
    return soft if hard == resource.RLIM_INFINITY else min(soft, hard)


def too_large(error: MemoryError) -> TooLargeError:
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    said = "this machine has" if most == resource.RLIM_INFINITY else f"its worker may take ({most / 2**30:.1f} GiB)"
    return TooLargeError(f"The run needs more memory than {said}: {error}. Choose a smaller problem.")
