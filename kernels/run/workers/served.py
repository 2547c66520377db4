"""The inside of a worker process: one task after another, until its server is gone."""

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
from pathlib import Path

from kernels.build import cache
from kernels.errors import TooLargeError, WarpglassError
from kernels.run.backends import driver
from kernels.run.messages import decode
from kernels.run.messages.encode import encode
from kernels.run.workers import frames, limits

REST = 0.2  # idle seconds before memory goes back to the system, which takes 20 ms
BUSY = 10.0  # seconds after which a worker without a rest returns it too
_PR_SET_PDEATHSIG = 1


def serve(pipe: connection.Connection, environment: dict[str, str], most: int | None) -> None:
    """Runs the pipe's tasks. The worker and its helpers (compilers, nvdisasm) are a process group.

    environment: the worker's whole environment.
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
    _close_others(pipe)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: the server decides
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # ends with the fork server, the only reporter of this process's end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with_server, daemon=True).start()


def _close_others(pipe: connection.Connection) -> None:
    """Closes the descriptors of the fork server and of multiprocessing's tracker: a kernel could write to them."""
    parent = multiprocessing.parent_process()
    assert parent
    kept = {0, 1, 2, pipe.fileno(), parent.sentinel}
    listed = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()
    for number in sorted(int(path.name) for path in listed):
        if number not in kept:
            with contextlib.suppress(OSError):  # the list's own descriptor
                os.close(number)
    forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]


def _end_with_server() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    connection.wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _answer(call: bytes) -> list[bytes | memoryview]:
    """The message (whether it went well, the result or the error, seconds spent compiling)."""
    before = cache.seconds_making()
    args: tuple[object, ...] = ()
    accepted = frames.most(), decode.most()
    try:
        function, args, limit, accepted = pickle.loads(call)
        limits.bound_seconds(limit)
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
        _check_sizes(parts, *accepted)
        return parts
    except Exception as error:  # a result that no message holds
        return encode((False, _traced(error), compiling))


def _check_sizes(parts: list[bytes | memoryview], most: int, most_json: int) -> None:
    """TooLargeError for a message that the server does not accept."""
    for size, accepted, unit in ((sum(map(len, parts)), most, "bytes"), (len(parts[1]), most_json, "bytes of JSON")):
        if size > accepted:
            said = f"The result has {size:,} {unit}, and the process that asked accepts {accepted:,}."
            raise TooLargeError(f"{said} Choose a smaller problem.")


def _traced(error: Exception) -> Exception:
    """The error. A fault of ours gets its traceback as a note."""
    if not isinstance(error, WarpglassError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
