"""The task of a guest, its memory, and the first byte of its answer: for parent.py and guest.py."""

import mmap
from dataclasses import dataclass

import numpy as np

from kernels.build import Build
from kernels.core.launch import Plan
from kernels.core.scope import Scope

FINE, STOPPED, STICKY, MEMORY, WALL = b"+", b"-", b"s", b"m", b"w"  # the first byte of an answer
Place = tuple[int, str, tuple[int, ...]]  # offset, NumPy's type, shape


@dataclass(frozen=True)
class Task:
    """The launches. The parent pickles it.

    build, plan, scope, capacities, runs: arguments of gpu.launch, or of gpu.launch_repeatedly with runs.
    places: the place of each array in the shared memory.
    records, counts: the places of each launch's records. times: of the milliseconds.
    bytes: of the shared memory."""

    build: Build
    plan: Plan
    scope: Scope | None
    capacities: list[int] | None
    runs: int
    places: dict[str, Place]
    records: list[Place]
    counts: list[Place]
    times: Place | None
    bytes: int


def view(memory: mmap.mmap, place: Place, kind: np.dtype[np.generic] | None = None) -> np.ndarray:
    """An array in the shared memory. kind: its type, else the one of the place."""
    offset, name, shape = place
    own = kind or np.dtype(name)
    size = int(np.prod(shape)) * own.itemsize
    return np.frombuffer(memory, np.uint8, size, offset).view(own).reshape(shape)
