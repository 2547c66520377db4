"""What a worker process does: one task after another for the process that started it, until that one is gone."""

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing import connection
from typing import Any

import pyarrow

from kernels.build import cache
from kernels.errors import WarpglassError
from kernels.run.backends import driver

BEGUN = b""  # says that a task was read: from here on it is lost with its worker
REST = 0.2  # seconds without a task after which memory is given back, which takes 20 ms
_PR_SET_PDEATHSIG = 1


def serve(pipe: connection.Connection, environment: dict[str, str]) -> None:
    """environment: that of the process that asked for the worker, not of the one it was forked from. The worker and
    the helpers that it starts (compilers, nvdisasm) are a process group, so that they can be ended together."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the server decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":  # the process that forks workers is gone: nobody would hear of this one's end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with_server, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    gc.freeze()  # what was imported stays shared with the other workers
    gc.enable()
    while True:
        try:
            asked = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        pipe.send_bytes(BEGUN)
        pipe.send_bytes(_answer(asked))
        if not pipe.poll(REST):
            _give_back()


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


def _answer(asked: bytes) -> bytes:
    """The pickle of (whether it went well, what it gave or raised, seconds spent compiling)."""
    before = cache.seconds_making()
    try:
        function, args = pickle.loads(asked)
        answer: tuple[bool, Any] = True, function(*args)
    except Exception as error:
        answer = False, _portable(error)
    if code := driver.broken():
        os._exit(code)  # the parent reads it; nothing more can be done in this process, whoever caught the error
    compiling = cache.seconds_making() - before
    try:
        return pickle.dumps((*answer, compiling))
    except Exception as error:  # a result that cannot be sent
        return pickle.dumps((False, _portable(error), compiling))


def _portable(error: Exception) -> Exception:
    """The error as it can be sent; a fault of ours says where it happened."""
    if not isinstance(error, WarpglassError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        made = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            made.add_note(note)
        return made
    return error
