"""Executes a .cu on the CPU: a shared library over kernels/device/simt, through ctypes. It never gives a time."""

import _ctypes
import ctypes
import os
import platform
import re
import signal
import struct
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, TypeVarTuple, Unpack

import numpy as np

from kernels.build import CPU, Build, cpp_compiler, folders
from kernels.core.launch import Launch, Place, Plan, TensorMap, Texture
from kernels.core.scope import Scope
from kernels.core.sources import symbol_of
from kernels.core.streams import last_order
from kernels.errors import BackendUnavailable, RunError, RunTimeout
from kernels.run.backends import Device, driver, jailed
from kernels.run.backends.calls import ALWAYS, LAUNCH, Call, Memory, address, make_here, spare, text, with_tables
from kernels.run.results import Marked
from kernels.trace.probes import CLOCKS, MARK, RECORD
from kernels.trace.trace import RawRecords

MARGIN = 0.5  # seconds before a task's limit: its launch stops and reports its line
_deadline: float | None = None  # of the launches, by time.monotonic
TRAP_INVALID, WATCH_RACES = 2, 4  # of simt/invalid.h and races.h, next to the bit of the order
SHARED_MAX = 227 * 1024  # simt.h allows what an H200 allows
LIBRARIES = 64  # loaded builds of a process


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("name", ctypes.c_void_p),
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
        ("buffers", ctypes.c_void_p),
        ("stacks", ctypes.c_void_p),
        ("stack_count", ctypes.c_uint),
        ("message", ctypes.c_char * 2048),
    ]


_STACKS_BYTES = 12  # of an address and a number, next to each other

Extra = tuple[np.ndarray | np.generic, ...]
"""The additional arguments of a launch, for its probes."""
_kept_stacks: list[tuple[int | None, int]] = []  # address and number of idle stacks
_making = threading.Lock()  # a library has one state: two threads in it would return to each other's stacks


class _Child(ctypes.Structure):  # struct Child of children.h
    _fields_ = [
        ("entry", ctypes.c_void_p),
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


@lru_cache
def device() -> Device:
    """The processor. Raises BackendUnavailable without the shim's platform or a C++ compiler."""
    if platform.machine() not in ("x86_64", "aarch64", "arm64") or platform.system() != "Linux":
        raise BackendUnavailable(
            f"The CPU shim runs on Linux, on x86-64 and 64-bit Arm. This is {platform.system()} on "
            f"{platform.machine()}."
        )
    cpp_compiler()
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return Device("cpu", found[1].strip() if found else platform.machine(), CPU, SHARED_MAX)


def free_bytes() -> int:
    """Bytes of memory for a run now: Linux's estimate, within this process's limit."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    free = int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(free, spare())


_loaded: OrderedDict[Path, ctypes.CDLL] = OrderedDict()  # at most LIBRARIES, in order of their last use


def launch(
    build: Build,
    plan: Plan,
    arrays: dict[str, np.ndarray],
    scope: Scope,
    capacities: list[int] | None = None,
    reversed_order: int = 0,
) -> list[RawRecords]:
    """Runs the plan's launches in order.

    arrays: name -> NumPy array of the tensor's type, written in place.
    capacities: records per thread of each launch, for a probed build. Then it returns their RawRecords, else [].
    reversed_order: blocks and threads run last to first, asynchronous copies land at their wait, and launches of
        other streams run in their last valid order. If an output changes, the kernel has a race, lacks a wait, or adds
        in any order. With TRAP_INVALID, the run stops at the first operation without a number.
        With WATCH_RACES, a build with written probes stops at its first race or missing wait.
    Raises RunError with block and thread, ProblemError for an invalid tensor map."""
    extras, found = list[Extra](), []
    with jailed.memory(arrays, plan, build.jailed) as (memory, held):
        for number, step in enumerate(plan.launches):
            extra: Extra = ()
            if capacities is not None:
                first, blocks = scope.blocks(step, plan)
                records = memory.zeros((blocks * step.threads, capacities[number]), RECORD)
                counts = memory.zeros(blocks * step.threads, np.uint32)
                found.append(RawRecords(number, first, step.threads, records, counts))
                extra = (records, counts, *map(np.uint32, (capacities[number], first, blocks)))
            extras.append(extra)
        _run_all(build, plan, extras, held, memory, reversed_order)
    return found


def launch_marks(build: Build, plan: Plan, arrays: dict[str, np.ndarray], every: int, capacity: int) -> list[Marked]:
    """Runs a marks build as `launch`, with a writer for `every` threads. Each clock is 0: the CPU gives no time."""
    extras, found = list[Extra](), []
    with jailed.memory(arrays, plan, build.jailed) as (memory, held):
        for number, step in enumerate(plan.launches):
            writers = step.groups(every)
            total = step.blocks * writers
            records, counts = memory.zeros((total, capacity), MARK), memory.zeros(total, np.uint32)
            marked = Marked(number, writers, records, counts, memory.zeros(total, CLOCKS))
            extras.append((records, counts, marked.clocks, np.uint32(capacity)))
            found.append(marked)
        _run_all(build, plan, extras, held, memory)
    return found


def _run_all(
    build: Build,
    plan: Plan,
    extras: Sequence[Extra],
    arrays: dict[str, np.ndarray],
    memory: Memory,
    reversed_order: int = 0,
) -> None:
    """Runs the launches and copies in order, those of a stranger's build in the jail.

    extras: the additional arguments of each launch."""

    def store(table: np.ndarray) -> np.ndarray:
        kept = memory.zeros(table.shape, table.dtype)
        kept[...] = table
        return kept

    added = with_tables(plan, extras, _address, store)  # it holds the tables until the end
    order = last_order(plan.launches) if reversed_order & 1 else range(len(plan.launches))
    run = Run(build, memory)
    for number in order:
        step = plan.launches[number]
        if step.parent:
            continue
        values = [*arguments_of(step, plan, arrays), *map(_address, added[number])]
        children = [(plan.launches[n], added[n]) for n in plan.children_of(number)]
        run.add(step, values, {name: arrays[name] for name in step.tensors}, reversed_order, children)
        run.copy(plan, number, arrays)
    run.make()
    stopped, _ = run.stopped()
    if stopped:
        raise stopped


def _address(value: np.ndarray | np.generic) -> np.generic:
    return _pointer(value) if isinstance(value, np.ndarray) else value


def rest() -> float | None:
    """The seconds until the limit of the task, or None without a limit."""
    return None if _deadline is None else _deadline - time.monotonic()


def arguments_of(step: Launch, plan: Plan, arrays: dict[str, np.ndarray]) -> list[np.generic]:
    return [_argument(argument, plan, arrays) for argument in step.args]


def _argument(
    argument: str | TensorMap | Texture | Place | np.generic, plan: Plan, arrays: dict[str, np.ndarray]
) -> np.generic:
    if isinstance(argument, TensorMap):  # as driver.tensor_map: 128 bytes by value, the innermost dimension first
        tensor = plan.tensor(argument.tensor)
        shape, strides = driver.dimensions(tensor, argument)
        driver.check_map(tensor, argument, strides[:-1])

        def inward(values: Sequence[int]) -> tuple[int, ...]:
            return (*values[::-1], *[0] * (5 - len(values)))

        sizes = (inward(strides), inward(shape), inward(argument.box))
        encoded = _TensorMap(arrays[argument.tensor].ctypes.data, *sizes, len(shape), tensor.itemsize, argument.swizzle)
        return np.frombuffer(bytes(encoded), f"V{ctypes.sizeof(encoded)}")[0]
    if isinstance(argument, Texture):  # a texture object of the shim is the address of its texels
        return _pointer(arrays[argument.tensor])
    if isinstance(argument, Place):
        return _pointer(arrays[argument.tensor]) + np.uint64(argument.offset)
    return _pointer(arrays[argument]) if isinstance(argument, str) else argument


def _pointer(array: np.ndarray) -> np.uint64:
    return np.uint64(array.ctypes.data)


Result = TypeVar("Result")
Args = TypeVarTuple("Args")


def limited(seconds: float, function: Callable[[Unpack[Args]], Result], *args: *Args) -> Result:
    """function(*args). Its launches on the CPU end shortly before `seconds`, and their RunTimeout names the line. For a
    worker's main thread, as the limit uses SIGALRM. A limit may be within another, and the earlier one holds."""
    global _deadline
    before, own = _deadline, time.monotonic() + seconds - min(MARGIN, seconds / 4)
    _deadline = own if before is None else min(before, own)
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:  # an alarm without a launch does nothing
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        return function(*args)
    finally:
        _deadline = before


class Run:
    """The calls of a run, in order. calls: launches, copies, and calls of the caller."""

    def __init__(self, build: Build, memory: Memory) -> None:
        self.build, self.memory = build, memory
        self.calls = list[Call]()
        self._launches = list[tuple[Launch, Call]]()

    def add(
        self,
        step: Launch,
        values: list[np.generic],
        buffers: dict[str, np.ndarray],
        reversed_order: int,
        children: Sequence[tuple[Launch, Extra]] = (),
    ) -> None:
        """Adds a launch, and the launches of its kernel.

        buffers: the arrays that it may touch.
        children: the launches that its kernel has to make, with their additional arguments."""
        put = self.memory.put
        if children:
            listed = put(b"".join(bytes(self._child(*child)) for child in children))
            self.calls.append(Call("simt_children", (listed, len(children))))
        held = [put(np.array([value]).tobytes()) for value in values]  # a struct by value is a void scalar: its bytes
        table = [
            _Buffer(address(b), b.nbytes, text(self.memory, name), b.itemsize, b.shape[-1])
            for name, b in buffers.items()
        ]
        sizes = (ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block)
        listed = put(b"".join(map(bytes, table)))
        request = put(bytes(_Launch(*sizes, step.shared_bytes, reversed_order, len(buffers), listed)))
        if self._launches:  # the stacks of the launch before
            before = self._launches[-1][1].args[0]
            places = (request + _Launch.stacks.offset, before + _Launch.stacks.offset, _STACKS_BYTES)
            self.calls.append(Call("", places, ALWAYS))
        args = put(struct.pack(f"={len(held)}Q", *held))
        self._launches.append((step, Call(f"launch_{symbol_of(step.entry)}", (request, args), LAUNCH)))
        self.calls.append(self._launches[-1][1])

    def copy(self, plan: Plan, number: int, arrays: dict[str, np.ndarray]) -> None:
        for copy in plan.copies_after(number):
            target, source = arrays[copy.target], arrays[copy.source]
            self.calls.append(Call("", (address(target), address(source), target.nbytes)))

    def make(self) -> None:
        """Makes the calls: here, or in the jail for a stranger's build."""
        if isinstance(self.memory, jailed.Shared):
            jailed.make(self.calls, self.memory, self.build.path, rest())
            return
        path = self.build.path
        if path not in _loaded:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise jailed.unreadable(path, error) from None

            # from an unnamed copy: if another process truncates the file, this process survives (SIGBUS)
            def load(folder: Path) -> ctypes.CDLL:
                with tempfile.NamedTemporaryFile(dir=folder, prefix="loading-") as copy:
                    copy.write(data)
                    copy.flush()
                    return ctypes.CDLL(copy.name)

            _loaded[path] = folders.write(load)
            while len(_loaded) > LIBRARIES:
                _ctypes.dlclose(_loaded.popitem(last=False)[1]._handle)
        _loaded.move_to_end(path)
        self.make_with(_loaded[path])

    def make_with(self, library: ctypes.CDLL) -> None:
        """Makes the calls here, of a library of ours."""
        first, last = (_Launch.from_address(self._launches[n][1].args[0]) for n in (0, -1))
        with _making:
            if _kept_stacks:
                first.stacks, first.stack_count = _kept_stacks.pop()
            make_here(library, self.calls, _deadline)
            _kept_stacks.append((last.stacks, last.stack_count))

    def stopped(self) -> tuple[RunError | None, int]:
        """The error of the stopped launch, or None, and the number of launches until there."""
        for number, (step, call) in enumerate(self._launches):
            if failed := call.result & 0xFFFFFFFF:
                said = _Launch.from_address(call.args[0]).message.decode(errors="replace")
                error = RunTimeout if failed == 2 else RunError
                return error(f"{step.entry} was stopped on the CPU at {said}"), number + 1
        return None, len(self._launches)

    def _child(self, step: Launch, extra: Extra) -> _Child:
        records = int(_address(extra[0])) if extra else None
        grid, block = (ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block)
        return _Child(text(self.memory, step.entry), records, grid, block, step.shared_bytes, 0)
