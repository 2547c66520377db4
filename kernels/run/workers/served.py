"""The inside of a worker process: one task after another, until its server is gone."""

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

from kernels.build import cache, child
from kernels.errors import TooLargeError, WarpglassError
from kernels.run.backends import driver
from kernels.run.messages import decode
from kernels.run.messages.encode import encode
from kernels.run.workers import forks, frames, limits

REST = 0.2  # idle seconds before memory goes back to the system, which takes 20 ms
MARGIN = 0.5  # seconds before a task's limit, at which its compiler ends
BUSY = 10.0  # seconds after which a worker without a rest returns it too
_PR_SET_PDEATHSIG = 1


def serve(pipe: connection.Connection, environment: dict[str, str], most: int | None) -> None:
    """Runs the pipe's tasks. The worker and its helpers (compilers, nvdisasm) are a process group.

    most: the bytes that it may add to its present ones, or None.
    """
    _isolate(pipe)
    os.environ.clear()
    os.environ.update(environment)
    if most is not None:
        limits.bound_memory(most)
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
            limits.return_memory()
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
        limits.bound_seconds(limit)
        with child.until(time.monotonic() + limit - min(MARGIN, limit / 4)):
            good, value = True, function(*args)
    except MemoryError as error:
        good, value = False, limits.too_large(error)
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
