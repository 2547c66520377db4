"""Executes a .cu on the CPU: a shared library over kernels/device/simt, through ctypes. It never gives a time."""

import _ctypes
import ctypes
import os
import platform
import re
import resource
import signal
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple, Unpack

import numpy as np

from kernels.build import CPU, Build, cpp_compiler, folders
from kernels.core.copies import Copy
from kernels.core.launch import Launch, Plan, TensorMap, Texture
from kernels.core.scope import Scope
from kernels.core.signatures import symbol_of
from kernels.core.streams import last_order
from kernels.core.tensors import Tensor
from kernels.errors import BackendUnavailable, RunError, RunTimeout
from kernels.run.backends import Device, driver, jailed
from kernels.run.backends.children import with_tables
from kernels.run.results import Marked
from kernels.trace.probes import CLOCKS, MARK, RECORD
from kernels.trace.trace import RawRecords

MARGIN = 0.5  # seconds before a task's limit: its launch stops and reports its line
_deadline: float | None = None  # of the launches, by time.monotonic
SHARED_MAX = 227 * 1024  # simt.h allows what an H200 allows
LIBRARIES = 64  # loaded builds of a process


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("element_bytes", ctypes.c_uint64),
        ("row", ctypes.c_uint64),
    ]


class _Launch(ctypes.Structure):  # struct Launch of simt.h
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("reversed", ctypes.c_uint),
        ("buffer_count", ctypes.c_uint),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("stacks", ctypes.c_void_p),
        ("stack_count", ctypes.c_uint),
        ("message", ctypes.c_char * 2048),
    ]


Extra = tuple[np.ndarray | np.generic, ...]
"""The additional arguments of a launch, for its probes."""
_kept_stacks: list[tuple[int | None, int]] = []  # address and number of idle stacks


class _Child(ctypes.Structure):  # struct Child of children.h
    _fields_ = [
        ("entry", ctypes.c_char_p),
        ("records", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("is_launched", ctypes.c_uint),
    ]


class _TensorMap(ctypes.Structure):  # struct TensorMap of hopper.h
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("strides", ctypes.c_uint64 * 5),
        ("sizes", ctypes.c_uint * 5),
        ("box", ctypes.c_uint * 5),
        ("dimensions", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("swizzle", ctypes.c_uint),
        ("unused", ctypes.c_uint * 7),
    ]


_Call = Callable[[ctypes.CDLL], None]  # a launch of a library, or a copy


@lru_cache
def device() -> Device:
    """The processor. Raises BackendUnavailable without the shim's platform or a C++ compiler."""
    if platform.machine() not in ("x86_64", "aarch64", "arm64") or platform.system() != "Linux":
        raise BackendUnavailable(
            f"The CPU shim runs on Linux, on x86-64 and 64-bit Arm. This is {platform.system()} on "
            f"{platform.machine()}."
        )
    cpp_compiler()
    return Device("cpu", _processor(), CPU, SHARED_MAX)


def free_bytes() -> int:
    """Bytes of memory for a run now: Linux's estimate, within this process's limit."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    free = int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY:
        return free
    return min(free, max(0, most - data_bytes()))


def data_bytes() -> int:
    """The private writable memory of this process, or 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _processor() -> str:
    """The processor's model name from Linux."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1].strip() if found else platform.machine()


_loaded: OrderedDict[Path, ctypes.CDLL] = OrderedDict()  # in order of their last use


def library_of(path: Path) -> ctypes.CDLL:
    """The library of a build, loaded once. At most LIBRARIES stay loaded, the least recently used goes first."""
    if path not in _loaded:
        _loaded[path] = _load(path)
        while len(_loaded) > LIBRARIES:
            _ctypes.dlclose(_loaded.popitem(last=False)[1]._handle)
    _loaded.move_to_end(path)
    return _loaded[path]


def _load(path: Path) -> ctypes.CDLL:
    """Loads a library from an unnamed copy. If another process truncates the file, this process survives (SIGBUS).

    Raises RunError if the file is gone, CacheError without room for the copy.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = f"The build of {path.stem} could not be read: {error.strerror}."
        raise RunError(f"{reason} Run it again: it is built anew.") from None

    def load(folder: Path) -> ctypes.CDLL:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="loading-") as copy:
            copy.write(data)
            copy.flush()
            return ctypes.CDLL(copy.name)

    return folders.write(load)


def launch(
    build: Build,
    plan: Plan,
    arrays: dict[str, np.ndarray],
    scope: Scope,
    capacities: list[int] | None = None,
    reversed_order: bool = False,
) -> list[RawRecords]:
    """Runs the plan's launches in order.

    arrays: name -> NumPy array of the tensor's type, written in place.
    capacities: records per thread of each launch, for a probed build. Then it returns their RawRecords, else [].
    reversed_order: blocks and threads run last to first, asynchronous copies land at their wait, and launches of
        other streams run in their last valid order. If an output changes, the kernel has a race, lacks a wait, or adds
        in any order.
    Raises RunError with block and thread, ProblemError for an invalid tensor map.
    """
    extras, found = list[Extra](), []
    with jailed.memory(arrays, build.jailed) as (zeros, held):
        for number, step in enumerate(plan.launches):
            extra: Extra = ()
            if capacities is not None:
                first, blocks = scope.blocks(step, plan)
                records = zeros((blocks * step.threads, capacities[number]), RECORD)
                counts = zeros(blocks * step.threads, np.uint32)
                found.append(RawRecords(number, first, step.threads, records, counts))
                extra = (records, counts, *map(np.uint32, (capacities[number], first, blocks)))
            extras.append(extra)
        _run_all(build, plan, extras, held, reversed_order)
    return found


def _with_copies(
    calls: Sequence[_Call], order: Sequence[int], plan: Plan, arrays: dict[str, np.ndarray]
) -> list[_Call]:
    """The launches of a plan in an order, with its copies between them."""
    found = list[_Call]()
    for number in order:
        found += [calls[number], *(partial(_copy, arrays=arrays, copy=copy) for copy in plan.copies_after(number))]
    return found


def _copy(_: ctypes.CDLL, arrays: dict[str, np.ndarray], copy: Copy) -> None:
    copy_tensor(copy, arrays)


def copy_tensor(copy: Copy, arrays: dict[str, np.ndarray]) -> None:
    """A copy of a plan, byte by byte."""
    arrays[copy.target].reshape(-1).view(np.uint8)[...] = arrays[copy.source].reshape(-1).view(np.uint8)


def launch_marks(build: Build, plan: Plan, arrays: dict[str, np.ndarray], every: int, capacity: int) -> list[Marked]:
    """Runs a marks build as `launch`, with a writer for `every` threads. Each clock is 0: the CPU gives no time."""
    extras, found = list[Extra](), []
    with jailed.memory(arrays, build.jailed) as (zeros, held):
        for number, step in enumerate(plan.launches):
            writers = step.groups(every)
            total = step.blocks * writers
            records, counts = zeros((total, capacity), MARK), zeros(total, np.uint32)
            marked = Marked(number, writers, records, counts, zeros(total, CLOCKS))
            extras.append((records, counts, marked.clocks, np.uint32(capacity)))
            found.append(marked)
        _run_all(build, plan, extras, held)
    return found


def _run_all(
    build: Build, plan: Plan, extras: Sequence[Extra], arrays: dict[str, np.ndarray], reversed_order: bool = False
) -> None:
    """Runs the launches and copies in order, those of a stranger's build in the jail.

    extras: the additional arguments of each launch.
    """
    added = with_tables(plan, extras, _address, np.asarray)  # it holds the tables until the end
    calls = [
        partial(start, step=step, values=[*arguments_of(step, plan, arrays), *map(_address, extra)],
                children=[(plan.launches[n], extras[n]) for n in plan.children_of(number)],
                buffers={name: arrays[name] for name in step.tensors}, reversed_order=reversed_order)
        for number, (step, extra) in enumerate(zip(plan.launches, added))
    ]  # fmt: skip
    order = last_order(plan.launches) if reversed_order else range(len(calls))
    ordered = _with_copies(calls, [n for n in order if not plan.launches[n].parent], plan, arrays)

    def run() -> None:
        library = loaded(build)
        for call in ordered:
            call(library)

    return jailed.run(run, build.path, rest()) if build.jailed else run()


def _address(value: np.ndarray | np.generic) -> np.generic:
    """The address of an array. A number stays as it is."""
    return _pointer(value) if isinstance(value, np.ndarray) else value


def loaded(build: Build) -> ctypes.CDLL:
    """The library of a build. Load a jailed build only in the jail."""
    return ctypes.CDLL(str(build.path)) if build.jailed else library_of(build.path)


def rest() -> float | None:
    """The seconds until the limit of the task, or None without a limit."""
    return None if _deadline is None else _deadline - time.monotonic()


def arguments_of(step: Launch, plan: Plan, arrays: dict[str, np.ndarray]) -> list[np.generic]:
    """The arguments of a launch: addresses, numbers and structs."""
    return [_argument(argument, plan, arrays) for argument in step.args]


def _argument(
    argument: str | TensorMap | Texture | np.generic, plan: Plan, arrays: dict[str, np.ndarray]
) -> np.generic:
    if isinstance(argument, TensorMap):
        return _tensor_map(plan.tensor(argument.tensor), argument, arrays[argument.tensor])
    if isinstance(argument, Texture):  # a texture object of the shim is the address of its texels
        return _pointer(arrays[argument.tensor])
    return _pointer(arrays[argument]) if isinstance(argument, str) else argument


def _tensor_map(tensor: Tensor, layout: TensorMap, array: np.ndarray) -> np.void:
    """The shim's form of driver.tensor_map: 128 bytes by value, the innermost dimension first."""
    shape, strides = driver.dimensions(tensor, layout)
    driver.check_map(tensor, layout, strides[:-1])

    def inward(values: Sequence[int]) -> tuple[int, ...]:
        return (*values[::-1], *[0] * (5 - len(values)))

    sizes = (inward(strides), inward(shape), inward(layout.box))
    encoded = _TensorMap(array.ctypes.data, *sizes, len(shape), tensor.itemsize, layout.swizzle)
    return np.frombuffer(bytes(encoded), f"V{ctypes.sizeof(encoded)}")[0]


def _pointer(array: np.ndarray) -> np.uint64:
    return np.uint64(array.ctypes.data)


Result = TypeVar("Result")
Args = TypeVarTuple("Args")


def limited(seconds: float, function: Callable[[Unpack[Args]], Result], *args: *Args) -> Result:
    """function(*args). Its launches on the CPU end shortly before `seconds`, and their RunTimeout names the line.

    For a worker's main thread, as the limit uses SIGALRM.
    """
    global _deadline
    _deadline = time.monotonic() + seconds - min(MARGIN, seconds / 4)
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:  # an alarm without a launch does nothing
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        return function(*args)
    finally:
        _deadline = None


def _child(step: Launch, extra: Extra) -> _Child:
    records = int(_address(extra[0])) if extra else None
    grid, block = (ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block)
    return _Child(step.entry.encode(), records, grid, block, step.shared_bytes, 0)


def start(
    library: ctypes.CDLL,
    step: Launch,
    values: list[np.generic],
    buffers: dict[str, np.ndarray],
    reversed_order: bool,
    children: Sequence[tuple[Launch, Extra]] = (),
) -> None:
    """Runs one launch of a library, and the launches of its kernel. Raises RunError.

    values: its arguments.
    buffers: the arrays that it may touch.
    children: the launches that its kernel has to make, with their additional arguments.
    """
    if children:
        listed = [_child(*child) for child in children]
        library.simt_children((_Child * len(listed))(*listed), len(listed))
    held = [np.array([value]) for value in values]  # a struct by value is a void scalar: its bytes
    args = (ctypes.c_void_p * len(held))(*[value.ctypes.data for value in held])
    table = (_Buffer * len(buffers))(
        *[_Buffer(b.ctypes.data, b.nbytes, name.encode(), b.itemsize, b.shape[-1]) for name, b in buffers.items()]
    )
    sizes = (ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block)
    try:
        stacks = _kept_stacks.pop()
    except IndexError:  # the first launch, or the others run now
        stacks = None, 0
    request = _Launch(*sizes, step.shared_bytes, reversed_order, len(buffers), table, *stacks)
    if _deadline is not None:
        signal.setitimer(signal.ITIMER_REAL, max(_deadline - time.monotonic(), 0.001), 0.02)
    try:
        failed = library[f"launch_{symbol_of(step.entry)}"](ctypes.byref(request), args)
    finally:
        if _deadline is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
    _kept_stacks.append((request.stacks, request.stack_count))
    if failed:
        stopped = f"{step.entry} was stopped on the CPU at {request.message.decode(errors='replace')}"
        raise RunTimeout(stopped) if failed == 2 else RunError(stopped)
