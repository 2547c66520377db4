"""Imported by the fork server (forks.py): the imports of workers, and the end of all descendants."""

import gc

gc.disable()  # imports make no garbage, and a search takes a fifth of their time. served.serve enables it

import atexit  # noqa: E402
import contextlib  # noqa: E402
import ctypes  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402, F401

from kernels.run import execute  # noqa: E402, F401
from kernels.run.workers import forks  # noqa: E402

_PR_SET_CHILD_SUBREAPER = 36


def _end_all() -> None:
    """Ends all descendants, and this process. It has adopted each orphan."""
    while found := forks.children(os.getpid()):
        forks.kill(found)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    os._exit(0)  # the end of torch's modules would take a second


if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # from the terminal: this process ends with its server
atexit.register(_end_all)
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")  # of an adopted process
