"""Calls a function in a child of this process that confines itself first: Landlock for files, a filter of system calls.

A command needs a new program (jail.py). A function of Python has its modules and its arrays already, so a fork is
cheaper: a few milliseconds. The child shares only memory that its caller made for it. The confinement is for good.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from kernels.errors import BackendUnavailable
from kernels.jail import filter
from kernels.jail.talk import Limits

ANSWER_BYTES = 2**22
PIPE_BYTES = 2**16  # that Linux keeps in a pipe
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls, on each processor
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_USE = 1 << 1 | 1 << 14 | 1 << 15  # of a device: writes, to nothing first, and calls of ioctl
_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))  # from this version of Landlock on: rights over files
_NETWORK, _SCOPES = (4, 0b11), (6, 0b11)  # from this version on: connections, signals and abstract sockets
_NO_NEW_POWERS, _PARENT_DEATH, _SECCOMP, _FILTER = 38, 1, 22, 2  # of prctl
_POWERS = 0x20080522  # the version of capset's structures


class Ended(Exception):
    """The child ended without an answer. code: its exit code, -N after signal N. late: at the limit of time."""

    def __init__(self, code: int, late: bool = False):
        super().__init__(code)
        self.code, self.late = code, late


@lru_cache
def why_none() -> str:
    """The reason why this machine cannot confine a function, else ""."""
    if _landlock() < 1:
        return "the kernel of this machine has no Landlock (Linux from 5.13, with landlock in its list of LSMs)"
    return "" if filter.supported() else "the filter of system calls has no table for this processor"


def call(function: Callable[[], bytes], reads: Sequence[Path], limits: Limits) -> bytes:
    """function() in a confined child: it reads these files and folders, and writes only into shared memory.

    function: returns at most ANSWER_BYTES. Its answer is a stranger's: trust no byte.
    limits: memory_bytes are those that it adds to this process's.
    Raises BackendUnavailable if no confinement works here, and Ended without an answer."""
    if reason := why_none():
        raise BackendUnavailable(f"No jail for kernels works on this machine: {reason}.")
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            # leaves the answer's pipe, and nothing behind the standard descriptors
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nowhere, number)
            os.closerange(3, theirs)
            os.closerange(theirs + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            _confine(reads, limits)
            os.write(theirs, function()[: ANSWER_BYTES - len(_WHOLE)] + _WHOLE)
        finally:
            os._exit(3)
    os.close(theirs)
    try:
        end = time.monotonic() + limits.seconds
        answer, late = answer_of(ours, end, lambda said: len(said) < ANSWER_BYTES and not said.endswith(_WHOLE))
    finally:
        os.close(ours)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if late or not answer.endswith(_WHOLE):
        raise Ended(code, late)
    return answer[: -len(_WHOLE)]


_WHOLE = b"\0whole"  # the end of each answer


def answer_of(pipe: int, end: float, is_open: Callable[[bytes], bool]) -> tuple[bytes, bool]:
    """The bytes until a process closes its pipe or is_open(bytes) is false, and whether it was late.

    end: of the wait, by time.monotonic."""
    answer = b""
    while is_open(answer):
        if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            return answer, True
        data = os.read(pipe, PIPE_BYTES)
        if not data:
            break
        answer += data
    return answer, False


def _confine(reads: Sequence[Path], limits: Limits) -> None:
    """Limits this process for good. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + limits.memory_bytes
    seconds = int(limits.seconds) + 1
    for what, limit in (
        (resource.RLIMIT_AS, most),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    _checked(libc.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0))
    _checked(libc.prctl(_NO_NEW_POWERS, 1, 0, 0, 0))
    _hide_files(libc, reads, ())
    drop_powers()
    code = ctypes.create_string_buffer(filter.allowing(os.getpid()))
    program = struct.pack("HxxxxxxP", (len(code) - 1) // 8, ctypes.addressof(code))  # struct sock_fprog
    _checked(libc.prctl(_SECCOMP, _FILTER, program, 0, 0))


def hide_files(reads: Sequence[Path], devices: Sequence[Path]) -> None:
    """This thread and its later ones read these files, use these devices, and touch no others. For good."""
    if reason := why_none():
        raise BackendUnavailable(f"No jail for kernels works on this machine: {reason}.")
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl(_NO_NEW_POWERS, 1, 0, 0, 0))
    _hide_files(libc, reads, devices)


def drop_powers() -> None:
    """Takes root's capabilities from this thread and its later ones. For good."""
    _checked(ctypes.CDLL(None, use_errno=True).capset(struct.pack("=Ii", _POWERS, 0), bytes(24)))


def filter_all_threads(code: bytes) -> None:
    """A filter of system calls (filter.py) for each thread of this process. For good."""
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", (len(held) - 1) // 8, ctypes.addressof(held))  # struct sock_fprog
    (call,) = filter.numbers({"seccomp": (317, 277)})
    _checked(libc.syscall(call, 1, 1, program))  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC


def _hide_files(libc: ctypes.CDLL, reads: Sequence[Path], devices: Sequence[Path]) -> None:
    """Landlock: this process reads these files and folders, writes to these devices, and touches no others."""
    handled = landlocked()
    (rights,) = struct.unpack_from("=Q", handled)
    rules = _checked(libc.syscall(_CREATE, handled, ctypes.c_size_t(len(handled)), 0))
    for read, more in (*((read, 0) for read in reads), *((device, _USE & rights) for device in devices)):
        if read.exists():
            opened = os.open(read, os.O_PATH)
            allowed = _READ_FILE | (_READ_FOLDER if read.is_dir() else 0) | more
            _checked(libc.syscall(_ADD, rules, 1, struct.pack("=Qi", allowed, opened), 0))
            os.close(opened)
    _checked(libc.syscall(_RESTRICT, rules, 0))
    os.close(rules)


def landlocked() -> bytes:
    """struct landlock_ruleset_attr with each right that this machine's Landlock can take."""
    version = _landlock()
    rights = (1 << max(bits for since, bits in _RIGHTS if since <= version)) - 1
    handled = [rights, *(bits if since <= version else 0 for since, bits in (_NETWORK, _SCOPES))]
    return struct.pack("=3Q", *handled)[: 8 if version < 4 else 16 if version < 6 else 24]


@lru_cache
def _landlock() -> int:
    """The version of Landlock of this machine, or -1."""
    if not hasattr(os, "O_PATH"):
        return -1
    return int(ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), 1))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
