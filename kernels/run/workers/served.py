"""The inside of a worker process: one task after another, until its server is gone."""

import ctypes
import gc
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from multiprocessing import connection, forkserver, resource_tracker

import pyarrow

from kernels.build import cache, child
from kernels.errors import TooLargeError, WarpglassError
from kernels.run.backends import driver
from kernels.run.backends.calls import data_bytes
from kernels.run.messages import decode
from kernels.run.messages.encode import encode
from kernels.run.workers import forks, frames

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
    """Limits this process's CPU time until its next task: all cores may be busy for `seconds`. The server ends a late
    task earlier. This limit is for a process outside the worker's group."""
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


REST = 0.2  # idle seconds before memory goes back to the system, which takes 20 ms
MARGIN = 0.5  # seconds before a task's limit, at which its compiler ends
BUSY = 10.0  # seconds after which a worker without a rest returns it too
_PR_SET_PDEATHSIG = 1


def serve(pipe: connection.Connection, environment: dict[str, str], most: int | None) -> None:
    """Runs the pipe's tasks. The worker and its helpers (compilers, nvdisasm) are a process group.

    most: the bytes that it may add to its present ones, or None."""
    _isolate(pipe)
    os.environ.clear()
    os.environ.update(environment)
    if most is not None:
        bound_memory(most)
    gc.freeze()  # imports stay shared with the other workers
    gc.enable()
    returned = time.monotonic()
    while True:
        try:
            call = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        frames.send(pipe.fileno(), [])  # the receipt: from here on the task is lost with its worker
        frames.send(pipe.fileno(), _answer(call))
        if not pipe.poll(0 if time.monotonic() - returned > BUSY else REST):
            return_memory()
            returned = time.monotonic()


def _isolate(pipe: connection.Connection) -> None:
    """Gives this process its own group, default signals and no foreign descriptors. It ends with its server."""
    os.setsid()
    server = multiprocessing.parent_process()
    assert server
    kept = {0, 1, 2, pipe.fileno(), server.sentinel}
    for (
        number
    ) in forks.descriptors():  # those of the fork server and of multiprocessing's tracker: a kernel could write
        if number not in kept:
            os.close(number)
    forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: the server decides
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # ends with the fork server, the only reporter of this process's end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def end_with_server() -> None:
        connection.wait([server.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_with_server, daemon=True).start()


def _answer(call: bytes) -> list[bytes | memoryview]:
    """The message (whether it went well, the result or the error, seconds spent compiling)."""
    before = cache.seconds_making()
    args: tuple[object, ...] = ()
    accepted = frames.most_bytes, decode.most_json
    try:
        function, args, limit, accepted = pickle.loads(call)
        bound_seconds(limit)
        with child.until(time.monotonic() + limit - min(MARGIN, limit / 4)):
            good, value = True, function(*args)
    except MemoryError as error:
        good, value = False, too_large(error)
    except Exception as error:
        good, value = False, _traced(error)
    if code := driver.broken():  # CUDA is lost in this process, even if the task caught the error
        os._exit(code)
    compiling = cache.seconds_making() - before
    try:
        parts = encode((good, value, compiling), args)
        for size, most, unit in zip((sum(map(len, parts)), len(parts[1])), accepted, ("bytes", "bytes of JSON")):
            if size > most:
                said = f"The result has {size:,} {unit}, and the process that asked accepts {most:,}."
                raise TooLargeError(f"{said} Choose a smaller problem.")
        return parts
    except Exception as error:  # a result that no message holds
        return encode((False, _traced(error), compiling))


def _traced(error: Exception) -> Exception:
    """The error. A fault of ours gets its traceback as a note."""
    if not isinstance(error, WarpglassError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
