"""What a worker process does: one task after another for the process that started it, until that one is gone."""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from multiprocessing import connection, forkserver, resource_tracker

import pyarrow

from kernels.build import cache
from kernels.errors import TooLargeError, WarpglassError
from kernels.run.backends import driver
from kernels.run.workers import frames, limits, reader
from kernels.run.workers.wire import encode

REST = 0.2  # seconds without a task after which memory is given back, which takes 20 ms
BUSY = 10.0  # seconds after which a worker without a rest gives it back, too
_PR_SET_PDEATHSIG = 1


def serve(pipe: connection.Connection, environment: dict[str, str], most: int | None) -> None:
    """environment: the whole environment of the worker. most: bytes that it may take beyond those it has now, or None.
    The worker and the helpers that it starts (compilers, nvdisasm) are a process group, so that they can be ended
    together."""
    os.setsid()
    _close_others(pipe)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the server decides
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # the process that forks workers is gone: nobody would hear of this one's end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with_server, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    if most is not None:
        limits.bound_memory(most)
    gc.freeze()  # what was imported stays shared with the other workers
    gc.enable()
    gave = time.monotonic()
    while True:
        try:
            asked = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        frames.send(pipe.fileno(), [])  # the task was read: from here on it is lost with its worker
        frames.send(pipe.fileno(), _answer(asked))
        if not pipe.poll(0 if time.monotonic() - gave > BUSY else REST):
            _give_back()
            gave = time.monotonic()


def _close_others(pipe: connection.Connection) -> None:
    """Closes the descriptors that a kernel could write to, but for the worker's own: those of the fork server and of
    multiprocessing's tracker. Later imports of multiprocessing start their own."""
    parent = multiprocessing.parent_process()
    assert parent
    kept = {0, 1, 2, pipe.fileno(), parent.sentinel}
    for number in map(int, os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")):
        if number not in kept:
            with contextlib.suppress(OSError):  # of the list itself
                os.close(number)
    forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]


def _give_back() -> None:
    """Returns to the system what the last task has freed, which glibc and Arrow would keep for the next."""
    pyarrow.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc's alone
        trim(0)


def _end_with_server() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    connection.wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _answer(asked: bytes) -> list[bytes | memoryview]:
    """The parts of a message: whether it went well, the result or the error, and seconds spent compiling."""
    before, args, accepted = cache.seconds_making(), (), (frames.most(), reader.most())
    try:
        function, args, limit, accepted = pickle.loads(asked)
        limits.bound_seconds(limit)
        good, value = True, function(*args)
    except MemoryError as error:
        good, value = False, limits.too_large(error)
    except Exception as error:
        good, value = False, _traced(error)
    if code := driver.broken():
        os._exit(code)  # the parent reads it; nothing more can be done in this process, whoever caught the error
    compiling = cache.seconds_making() - before
    try:
        parts = encode((good, value, compiling), args)
        _check_sizes(parts, *accepted)
        return parts
    except Exception as error:  # a result that cannot be sent
        return encode((False, _traced(error), compiling))


def _check_sizes(parts: list[bytes | memoryview], most: int, most_json: int) -> None:
    """TooLargeError for a message that the server does not accept."""
    for size, accepted, unit in ((sum(map(len, parts)), most, "bytes"), (len(parts[1]), most_json, "bytes of JSON")):
        if size > accepted:
            said = f"The result has {size:,} {unit}, and the process that asked accepts {accepted:,}."
            raise TooLargeError(f"{said} Choose a smaller problem.")


def _traced(error: Exception) -> Exception:
    """The error. A fault of ours gets a note of where it happened."""
    if not isinstance(error, WarpglassError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
