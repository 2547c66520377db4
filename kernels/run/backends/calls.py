"""The calls of a run: a list for this process, or for the process of a stranger's run (jailed.py)."""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from kernels.core.launch import Plan

ALWAYS, LAUNCH = 1, 2
Zeros = Callable[..., np.ndarray]  # of a shape and a type, as np.zeros


@dataclass
class Call:
    """A call of a function of a library. Without a name, it copies args[2] bytes from args[1] to args[0].

    args: at most 6 addresses and whole numbers.
    kind: LAUNCH has the limit of time, and a result other than 0 stops the run. ALWAYS follows a stopped launch too.
    result: a whole number. Only its lower half counts if the function returns an int. 0 without a call."""

    name: str
    args: tuple[int, ...] = ()
    kind: int = 0
    result: int = 0


class Memory(Protocol):
    """The memory of a run: arrays and structs, until the run ends."""

    @property
    def zeros(self) -> Zeros:
        """A zero array of a shape and a type, as np.zeros."""

    def put(self, data: bytes) -> int:
        """The address of a copy of the bytes."""


class Own:
    """The memory of a run in this process."""

    zeros = staticmethod(np.zeros)

    def __init__(self) -> None:
        self._held = list[np.ndarray]()

    def put(self, data: bytes) -> int:
        self._held.append(np.frombuffer(bytearray(data), np.uint8))
        return address(self._held[-1])


def data_bytes() -> int:
    """The private writable memory of this process, or 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def spare() -> int:
    """Bytes of private writable memory that this process may still take."""
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return sys.maxsize if most == resource.RLIM_INFINITY else max(0, most - data_bytes())


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def text(memory: Memory, words: str) -> int:
    """The address of a text of C."""
    return memory.put(words.encode() + b"\0")


def make_here(library: ctypes.CDLL, calls: Sequence[Call], deadline: float | None) -> None:
    """Makes the calls in this process. deadline: of the launches, by time.monotonic."""
    stopped = False
    for call in calls:
        if stopped and not call.kind & ALWAYS:
            continue
        if not call.name:
            ctypes.memmove(*call.args)
            continue
        function = library[call.name]
        function.restype = ctypes.c_uint64
        end = deadline if call.kind & LAUNCH else None
        if end is not None:
            signal.setitimer(signal.ITIMER_REAL, max(end - time.monotonic(), 0.001), 0.02)
        try:
            call.result = function(*map(ctypes.c_uint64, call.args))
        finally:
            if end is not None:
                signal.setitimer(signal.ITIMER_REAL, 0)
        stopped = stopped or (call.kind & LAUNCH and call.result & 0xFFFFFFFF) != 0


Value = TypeVar("Value")
"""An additional argument of a launch, for its probes: an array of the backend, or a number."""


def with_tables(
    plan: Plan,
    extras: Sequence[tuple[Value, ...]],
    address: Callable[[Value], np.generic],
    store: Callable[[np.ndarray], Value],
) -> list[tuple[Value, ...]]:
    """The additional arguments of each launch of a plan. Those of a parent end with its table.

    address: the address of an array. A number stays as it is.
    store: brings a table into memory of the kernel."""
    found = list(extras)
    for number, own in enumerate(extras):
        children = plan.children_of(number)
        if children and own:
            rows = [[address(value) for value in extras[n]] for n in children]
            layout = np.dtype([(f"f{n}", value.dtype) for n, value in enumerate(rows[0])], align=True)
            table = np.zeros(len(rows), layout)  # of ProbeChild (device/children.cuh). Its padding reaches a stranger
            for n, row in enumerate(rows):
                table[n] = tuple(row)
            found[number] = (*own, store(table.view(np.uint8)))
    return found
