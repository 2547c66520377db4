"""The environment of Warpglass's own processes, and the limits of a compiler."""

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from kernels.build import confined

NAMES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "VIRTUAL_ENV"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
    *("COMPILER_PATH", "GCC_EXEC_PREFIX", "MAX_JOBS", "CONDA_PREFIX"),
    *(f"WARPGLASS_{name}" for name in ("CACHE", "KERNELS", "SPARE", "STRANGERS", "TIME_LIMIT", "WORKERS")),
)
PREFIXES = (
    *("LC_", "PYTHON", "XDG_", "CUDA_", "CUPY_", "NVIDIA_", "NV_", "NVTX_", "NSYS_", "NCCL_", "NVCC_", "CUBLAS_"),
    *("CUDNN_", "CUTE_DSL_", "FLASH_ATTENTION_", "TORCH", "PYTORCH_", "TRITON_"),
    *("FLASHINFER_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "ARROW_", "MALLOC_", "GLIBC_"),
    *("CCACHE_", "ZIG_", "ASAN_", "LSAN_", "TSAN_", "UBSAN_"),
)
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")  # words in the name of a variable
COMPILER_BYTES = 4 * 2**30  # of address space
COMPILER_SECONDS = 120  # of CPU time
WAITS = 240.0  # seconds for a compiler's end, also if it hangs and takes no CPU time
EXCEEDED = (
    *("out of memory", "virtual memory exhausted", "Cannot allocate memory", "bad_alloc"),
    *("CPU time limit exceeded", "Killed signal"),
)
# The shell leads a group of its own. Its descriptor 0 is a pipe, and the process that starts the compiler holds the
# other end. The group ends with that process.
_CONFINED = """
ulimit -v "$1" 2>/dev/null; ulimit -t "$2" 2>/dev/null; shift 2
exec 3<&0 </dev/null
( exec >/dev/null 2>&1; read -r _ <&3; kill -KILL -$$ ) &
watch=$!
"$@" 3<&-
code=$?
kill $watch
exit $code
"""
_PR_SET_DUMPABLE = 4


def close_to_others() -> None:
    """Hides this process's memory and first environment from other processes of this user. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def forget(*said: str | None) -> None:
    """Puts stars for these words of the command line, in sys.argv and in the list of processes of Linux."""
    known = [word for word in said if word]

    def hidden(argument: str) -> str:
        word = next((word for word in known if argument == word or argument.endswith(f"={word}")), "")
        return argument.removesuffix(word) + "*" * len(word.encode())

    for arguments in (sys.argv, sys.orig_argv):
        arguments[:] = map(hidden, arguments)
    if sys.platform == "linux":
        words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        first, end = map(int, words[45:47])  # arg_start, arg_end
        shown = ctypes.string_at(first, end - first)
        stars = "\0".join(map(hidden, os.fsdecode(shown).split("\0")))
        ctypes.memmove(first, os.fsencode(stars), end - first)


def environment(of: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for a worker or a compiler, without secrets.

    OMP_WAIT_POLICY: by default, idle threads of torch sleep. Spinning ones take the cores of other workers.
    """
    kept = {
        name: text
        for name, text in of.items()
        if (name in NAMES or name.startswith(PREFIXES)) and not any(word in name for word in SECRET)
    }
    return {"OMP_WAIT_POLICY": "passive", **kept}


_until: ContextVar[float] = ContextVar("_until", default=math.inf)  # time.monotonic


@contextmanager
def until(end: float) -> Iterator[None]:
    """Within it, compilers of this thread end before `end`, a time.monotonic."""
    before = _until.set(end)
    try:
        yield
    finally:
        _until.reset(before)


def compile_with(
    command: list[str], more: Mapping[str, str], seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a compiler to its end, its limits, or the end of this process.

    more: additional variables of its environment.
    seconds: wall-clock limit, by default WAITS.
    Raises OSError if it cannot start, subprocess.TimeoutExpired at the limit.
    """
    if confined.wanted(command):
        return confined.run(command, more)
    shell = ["/bin/sh", "-c", _CONFINED, "sh", str(COMPILER_BYTES // 1024), str(COMPILER_SECONDS), *command]
    rest = max(0.0, min(seconds or WAITS, _until.get() - time.monotonic()))
    theirs, ours = os.pipe()
    try:
        with subprocess.Popen(
            shell,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**environment(), **more},
            start_new_session=True,
        ) as process:
            os.close(theirs)
            theirs = -1
            try:
                output, log = process.communicate(timeout=rest)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    return subprocess.CompletedProcess(command, process.returncode, output, log)


def exceeded(log: str) -> bool:
    return any(sign in log for sign in EXCEEDED)
