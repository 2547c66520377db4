"""The environment of our own processes, and compilers: their limits, and the jail for a stranger's text."""

import ctypes
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from kernels import jail
from kernels.errors import BackendUnavailable, BuildError
from kernels.jail import Limits

_OF_A_COMPILER = (
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/local/include"),
)
_LINKS = ("/bin", "/lib", "/lib32", "/lib64")


@lru_cache
def compiler_folders(program: str) -> tuple[Path, ...]:
    """The folders that a C++ compiler reads. Raises BackendUnavailable for a compiler in a private place."""
    folders = [Path(path) for path in (*_OF_A_COMPILER, *_LINKS) if Path(path).exists()]
    real = Path(os.path.realpath(program))
    if real.is_relative_to("/usr/bin") or real.is_relative_to("/usr/lib"):
        return tuple(folders)
    prefix = real.parents[1]
    if prefix in (Path("/"), Path("/usr"), Path.home(), Path.home().parent):
        raise BackendUnavailable(
            f"The jail cannot show {real} alone: {prefix} holds other files. Install g++ (Debian: apt install g++), "
            "or set CXX to a compiler in a folder of its own."
        )
    return (*folders, prefix)


def libraries(program: Path) -> tuple[Path, ...]:
    """The shared libraries of a program of ours, with the loader. Never call it with a stranger's program."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True, timeout=60).stdout
    return tuple(Path(path) for path in re.findall(r"(?:=> |^[ \t]*)(/\S+) \(0x", listed, re.M))


JAIL_LIMITS = Limits(seconds=30.0, memory_bytes=2 * 2**30, file_bytes=64 * 2**20, output_bytes=64 * 2**20)
OUT = "product"
LATE = "CPU time limit exceeded"  # as a compiler says it
_ABSENT = re.compile("Permission denied|No such file or directory")
"""Landlock's engine answers the first for a file of the server. One sentence for both tells nothing of it."""
_compiling: ContextVar[bool] = ContextVar("_compiling", default=False)


@contextmanager
def compiling(jailed: bool) -> Iterator[None]:
    """Within it, compilers of this thread run in the jail, if `jailed`."""
    before = _compiling.set(jailed)
    try:
        yield
    finally:
        _compiling.reset(before)


def is_wanted() -> bool:
    return _compiling.get()


def wanted(command: Sequence[str]) -> bool:
    """Whether this command belongs in the jail: it writes a product from a stranger's text."""
    return is_wanted() and "-o" in command


def run(command: Sequence[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a compiler in the jail, and writes its product where the command says.

    more: its environment. TMPDIR is the folder of its sources, the only one that it reads outside the toolchain."""
    words = list(command)
    at = words.index("-o") + 1
    product, words[at] = Path(words[at]), OUT
    reads = [*compiler_folders(words[0]), Path(more["TMPDIR"]), *(Path(word) for word in words if word.endswith(".o"))]
    done = jail.confine(words, reads=[read for read in reads if read.exists()], out=OUT, limits=JAIL_LIMITS)
    log = _ABSENT.sub("the jail has no file of this name", done.log) + (f"\n{LATE}" if done.stopped == "time" else "")
    if done.stopped and not done.code:
        return subprocess.CompletedProcess(words, 1, "", f"{log}\nKilled signal")
    if not done.code:
        product.write_bytes(done.output)
        product.chmod(0o755)
    return subprocess.CompletedProcess(words, done.code, "", log)


def tool(command: Sequence[str], file: Path, seconds: float, what: str, writes: bool = False) -> str:
    """The output of a tool of binutils for an object file, in the jail if it is a stranger's.

    what: the code that it reads, for the message.
    Raises BuildError."""
    try:
        done = _tool(command, file, seconds, writes)
    except subprocess.TimeoutExpired:
        late = f"{command[0]} did not read {what} within {seconds:g} s. Try again with less work."
        raise BuildError(late) from None
    if done.returncode:
        raise BuildError(f"{command[0]} cannot read {what}: {done.stderr[:200]}. Install binutils.")
    return done.stdout


def _tool(command: Sequence[str], file: Path, seconds: float, writes: bool) -> subprocess.CompletedProcess[str]:
    if not is_wanted():
        return subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=seconds)
    program, out = shutil.which(command[0]) or command[0], [OUT] if writes else []
    words = [program, *command[1:], str(file), *out]
    reads = [path for path in (*compiler_folders(program), file) if path.exists()]
    done = jail.confine(words, reads=reads, out="".join(out), limits=replace(JAIL_LIMITS, seconds=seconds))
    if done.stopped:
        raise subprocess.TimeoutExpired(words, seconds)
    if writes and not done.code:
        file.write_bytes(done.output)
    return subprocess.CompletedProcess(words, done.code, "" if writes else done.output.decode(), done.log)


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

    OMP_WAIT_POLICY: by default, idle threads of torch sleep. Spinning ones take the cores of other workers."""
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
    Raises OSError if it cannot start, subprocess.TimeoutExpired at the limit."""
    if wanted(command):
        return run(command, more)
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
