"""What workers are forked with: imported once, by the process that forks them (forks.py), which this prepares."""

import gc

gc.disable()  # nothing that an import makes is garbage; looking for some takes a fifth of the time. See served.serve

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
    """Ends all descendants. The server is gone, and each process whose parent dies here is adopted by this one."""
    while found := forks.children(os.getpid()):
        forks.kill(found)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # of the terminal: this process ends when its server does
atexit.register(_end_all)
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")  # of an adopted process
