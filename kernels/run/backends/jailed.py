"""A stranger's launches on the CPU: calls in a process of their own (kernels/jail/runner.cpp), with shared arrays.

The process starts anew for each run and by exec. It holds only the stranger's own arrays. They, the arguments
and the structs are in one memory, with one address in both processes.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import struct
import subprocess
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels.build import cache, cpp
from kernels.core.launch import Plan
from kernels.errors import BackendUnavailable, OutOfMemory, RunError, RunTimeout
from kernels.jail import Limits, filter, in_place
from kernels.run.backends.calls import Call, Memory, Own, address, spare, text

SOURCE = Path(__file__).parents[2] / "jail" / "runner.cpp"
LINKED = ("-Wl,--no-as-needed", "-lm", "-lgcc_s", "-lpthread", "-ldl")  # the libraries that a kernel's library needs
MEMORY_BYTES = 2**30  # that the launches add: stacks of fibers, the library
SECONDS = 60.0  # of launches without a limit
GRACE = 2.0  # seconds before the limit: the shim stops a launch and names its line
LEAST_SECONDS = 0.25  # of a run that starts at its limit. It ends before its task (cpu.MARGIN)
RESERVED = 2**36  # bytes of address space for the shared memory
WISHED = 2**45  # its address: Linux puts nothing there by itself
PIECE = 2**16  # bytes for small structs
CALL = np.dtype([("name", "<u8"), ("args", "<u8", 6), ("kind", "<u8"), ("result", "<u8")])
"""struct Call of runner.cpp."""
TASK = struct.Struct("=4Qd2Q3iI24s2I")
"""struct Task of runner.cpp, without its rules."""
WHOLE, REFUSED = b"+whole", b"!"
"""An answer to the end, and the first byte of a jail's own reason. A kernel can write only behind the "+"."""
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FIXED = 0x10  # MAP_FIXED
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Shared:
    """Memory that the process of a run shares. Its size is final when the run starts.

    It counts as this process's own data: the limit of data (RLIMIT_DATA) is lower while it exists.
    bytes: its size so far."""

    def __init__(self) -> None:
        self.bytes = 0
        self.file = os.fdopen(os.memfd_create("arrays", os.MFD_ALLOW_SEALING), "r+b")
        self.address = _mapped(WISHED, RESERVED, 0, _PRIVATE, -1, 0)
        held = (ctypes.c_char * RESERVED).from_address(self.address)
        self._taken = list[int]()
        weakref.finalize(held, _release, self.address, self._taken).atexit = False  # after the last array
        self._all = np.frombuffer(memoryview(held), np.uint8)
        self._piece = self._all[:0]

    def zeros(self, shape: tuple[int, ...] | int, dtype: np.dtype[Any] | type) -> np.ndarray:
        """A zero array in pages of its own."""
        size, start = int(np.prod(shape)) * np.dtype(dtype).itemsize, self.bytes
        room = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        if start + room > RESERVED:
            raise OutOfMemory(f"The arrays of the run need more than {RESERVED >> 30} GiB. Choose a smaller problem.")
        if room > spare():
            raise MemoryError(f"its jail needs {(start + room) / 2**30:.1f} GiB for the arrays")
        _lower_limit(room)
        self._taken.append(room)
        self.bytes += room
        self.file.truncate(self.bytes)
        _mapped(
            self.address + start,
            room,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_SHARED | _FIXED,
            self.file.fileno(),
            start,
        )
        return self._all[start : start + size].view(dtype).reshape(shape)

    def put(self, data: bytes) -> int:
        room = -(-max(len(data), 1) // 64) * 64
        if room > len(self._piece):
            self._piece = self.zeros(max(room, PIECE), np.uint8)
        place, self._piece = self._piece[: len(data)], self._piece[room:]
        place[...] = np.frombuffer(data, np.uint8)
        return address(place)


def _lower_limit(size: int) -> None:
    """Takes bytes from this process's limit of data, if it has one."""
    most, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (most - size, hard))


def _release(at: int, taken: list[int]) -> None:
    _libc.munmap(at, RESERVED)
    _lower_limit(-sum(taken))


def _mapped(at: int, size: int, rights: int, flags: int, file: int, offset: int) -> int:
    found = _libc.mmap(at, size, rights, flags, file, offset)
    if found == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(found)


@contextmanager
def memory(
    arrays: dict[str, np.ndarray], plan: Plan, is_jailed: bool
) -> Iterator[tuple[Memory, dict[str, np.ndarray]]]:
    """The memory of launches, and the arrays of the launches.

    is_jailed: then all of it is shared with the jail, and the caller's written arrays get their values at the end.
    Raises RunError if the launches changed an input."""
    inputs = {tensor.name for tensor in plan.tensors if not tensor.is_written}
    before = {name: _sum(arrays[name]) for name in inputs}
    if is_jailed:
        held = Shared()
        with held.file:
            shared = {name: held.zeros(array.shape, array.dtype) for name, array in arrays.items()}
            for name, array in arrays.items():
                shared[name][...] = array
            yield held, shared
    else:
        shared = arrays
        yield Own(), arrays
    if changed := sorted(name for name in inputs if _sum(shared[name]) != before[name]):
        raise RunError(
            f"The kernel changed its input {changed[0]}. It may write only outputs and scratch tensors. Write the "
            "values to a scratch tensor."
        )
    for name in arrays.keys() - inputs if is_jailed else ():
        arrays[name][...] = shared[name]


def _sum(array: np.ndarray) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


@lru_cache
def runner() -> Path:
    """The program of runner.cpp, from the cache or new. Raises BackendUnavailable."""
    compiler, source = cpp.cpp_compiler(), SOURCE.read_text()

    def make(folder: Path) -> dict[str, Any]:
        library = Path(os.path.realpath(cpp.run([*compiler, "-print-file-name=libstdc++.so.6"]).stdout.strip()))
        is_own = library.is_file() and not library.is_relative_to("/usr/lib")  # of a compiler, as conda's
        found = [f"-Wl,-rpath,{library.parent}"] if is_own else []
        made = [*compiler, "-std=c++17", "-O1", str(SOURCE), "-o", str(folder / "runner"), *found, *LINKED]
        done = cpp.run(made, {"TMPDIR": str(folder), "LC_ALL": "C"})
        if done.returncode:
            raise BackendUnavailable(f"The program of the jail does not compile: {done.stderr[:500]}")
        return {}

    key = cache.key_of("runner", *compiler, *LINKED, source)
    return cache.get(key, "runner", make)[0] / "runner"


def make(calls: Sequence[Call], held: Shared, library: Path, seconds: float | None) -> None:
    """Makes the calls in the jail. Trust no result and no byte of the memory.

    seconds: until the limit of the process, if it has one. Its launches end before.
    Raises RunError if the kernel ended its process, RunTimeout after the limit."""
    if reason := in_place.why_none():
        raise BackendUnavailable(f"No jail for kernels works on this machine: {reason}.")
    rows = held.zeros(len(calls), CALL)
    for row, call in zip(rows, calls):
        row["name"] = text(held, call.name) if call.name else 0
        row["args"][: len(call.args)] = call.args
        row["kind"] = call.kind
    limits = Limits(SECONDS if seconds is None else max(seconds, LEAST_SECONDS), min(MEMORY_BYTES, spare()), 0)
    end = 0.0 if seconds is None else time.monotonic() + limits.seconds - min(GRACE, limits.seconds / 4)
    answer, code, late = _asked(rows, held, library, limits, end)
    if answer[:1] == REFUSED:
        raise RunError(f"The jail of the kernel did not start: {answer[1:].decode(errors='replace')}.")
    if not WHOLE.startswith(answer):
        raise RunError("The kernel wrote into the answer of its jail.")
    if late:
        raise RunTimeout(
            f"The kernel ran past its limit of {limits.seconds:.3g} s in the jail and was stopped. Look for an endless "
            "loop, or choose a smaller problem."
        )
    if answer != WHOLE:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise RunError(
            f"The kernel ended its process in the jail ({how}). It may have written outside an array, called exit() "
            "or abort(), or needed more memory than the jail gives."
        )
    for row, call in zip(rows, calls):
        call.result = int(row["result"])


def _asked(rows: np.ndarray, held: Shared, library: Path, limits: Limits, end: float) -> tuple[bytes, int, bool]:
    """The answer of the process, its exit code, and whether it was late."""
    fcntl.fcntl(held.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    try:
        held_open = library.open("rb")
    except OSError as error:
        raise unreadable(library, error) from None
    with held_open as opened, runner().open("rb") as program:
        fds = (held.file.fileno(), opened.fileno())
        process = subprocess.Popen(
            ["kernel"],
            executable=f"/proc/self/fd/{program.fileno()}",  # so that it does not know its folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            pass_fds=(*fds, program.fileno()),
            bufsize=0,
        )
        assert process.stdin and process.stdout
        with process.stdin as task, process.stdout as pipe:
            try:
                rules, landlocked = filter.allowing(None), in_place.landlocked()
                sizes = (limits.memory_bytes, int(limits.seconds) + 1)
                where = (held.address, held.bytes, address(rows) - held.address, len(rows))
                known = (*fds, os.getpid(), len(landlocked), landlocked, len(rules) // 8, program.fileno())
                with contextlib.suppress(BrokenPipeError):  # it has ended
                    task.write(TASK.pack(*where, end, *sizes, *known) + rules)
                task.close()
                end, is_open = time.monotonic() + limits.seconds, lambda said: said != WHOLE and WHOLE.startswith(said)
                answer, late = in_place.answer_of(pipe.fileno(), end, is_open)
            finally:
                process.kill()
                process.wait()
    return answer, process.returncode, late


def unreadable(build: Path, error: OSError) -> RunError:
    """The error of a build that is gone."""
    return RunError(f"The build of {build.stem} could not be read: {error.strerror}. Run it again: it is built anew.")
