"""Runs an instrumented build. Its library logs the accesses and finds faults (device/simt/cuda)."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.build import Build
from kernels.build.plain.lines import Lines, read
from kernels.core.launch import Plan
from kernels.core.scope import Scope
from kernels.core.tensors import Initial
from kernels.errors import RunError
from kernels.run.backends import cpu
from kernels.run.plain.faults import FINDING, Fault, Region, of_finding, of_stop

LOG = np.dtype(
    [
        ("offset", "<i8"),
        *((name, "<u4") for name in ("place", "block", "seq")),
        ("thread", "<u2"),
        ("region", "u1"),
        ("what", "u1"),
    ]
)
"""struct LogRow of device/simt/cuda/places.h."""


_held: dict[str, tuple[object, ...]] = {}  # a library -> memory that it points to


@dataclass(frozen=True)
class Logged:
    """The log of one launch.

    rows: [n] of LOG, in the order of the run.
    lost: the number of rows without room.
    """

    rows: np.ndarray
    lost: int


@dataclass(frozen=True)
class Probed:
    """A run of an instrumented build.

    logs: of each launch.
    regions: of the rows, by number.
    faults: of all launches.
    stopped: the error of a stopped launch, or None.
    """

    logs: tuple[Logged, ...]
    lines: Lines
    regions: tuple[Region, ...]
    faults: tuple[Fault, ...]
    stopped: RunError | None
    printed: str


def launch(
    build: Build, plan: Plan, arrays: dict[str, np.ndarray], scope: Scope, rows: Sequence[int], reversed_order: bool
) -> Probed:
    """Runs the plan's launches in order until one stops. rows: the room for each launch's log."""
    library, lines = cpu.library_of(build.path), read(build.path)
    _begin(library, lines, plan, arrays)
    logs, stopped = list[Logged](), None
    for number, step in enumerate(plan.launches):
        first, blocks = scope.blocks(step, plan)
        log = np.empty(rows[number], LOG)
        library.simt_log(log.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(len(log)), first, blocks)
        buffers = {name: arrays[name] for name in step.tensors}
        try:
            cpu.start(library, step, cpu.arguments_of(step, plan, arrays), buffers, reversed_order)
        except RunError as error:
            stopped = error
        count = _number(library, "simt_logged")
        logs.append(Logged(log[: min(count, len(log))].copy(), max(0, count - len(log))))
        if stopped:
            break
    regions = _regions(library, plan)
    faults = [of_finding(found, lines, regions) for found in _findings(library)]
    faults += [of_stop(str(stopped))] if stopped else []
    printed = ctypes.CFUNCTYPE(ctypes.c_char_p)(("simt_printed", library))().decode(errors="replace")
    return Probed(tuple(logs), lines, tuple(regions), tuple(faults), stopped, printed)


def _begin(library: ctypes.CDLL, lines: Lines, plan: Plan, arrays: dict[str, np.ndarray]) -> None:
    names = (ctypes.c_char_p * len(lines.files))(*(name.encode() for name in lines.files))
    rows = lines.rows.ctypes.data_as(ctypes.c_void_p)
    library.simt_begin(rows, ctypes.c_size_t(len(lines.rows)), names)
    _held[library._name] = lines.rows, names  # the library keeps pointers to both
    for tensor in plan.tensors:
        array, given = arrays[tensor.name], tensor.initial in (Initial.GIVEN, Initial.ZERO)
        base, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(array.nbytes)
        library.simt_tensor(tensor.name.encode(), base, size, ctypes.c_uint(array.itemsize), int(given))


def _number(library: ctypes.CDLL, name: str) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_uint64)((name, library))())


def _findings(library: ctypes.CDLL) -> np.ndarray:
    held = ctypes.c_void_p()
    count = library.simt_found(ctypes.byref(held))
    if not count or held.value is None:
        return np.zeros(0, FINDING)
    return np.frombuffer(ctypes.string_at(held.value, count * FINDING.itemsize), FINDING)


def _regions(library: ctypes.CDLL, plan: Plan) -> list[Region]:
    """The regions of a library by number."""
    name_of = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_uint)(("simt_region", library))
    shapes = {tensor.name: tensor.shape for tensor in plan.tensors}
    regions = list[Region]()
    while (name := name_of(len(regions))) is not None:
        number, text = len(regions), name.decode()
        shared = bool(library.simt_is_shared(number))
        regions.append(Region(text, shared, library.simt_element(number), () if shared else shapes.get(text, ())))
    return regions
