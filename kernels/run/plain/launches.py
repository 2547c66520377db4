"""Runs an instrumented build. Its library logs the accesses and finds faults (device/simt/cuda)."""

import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.build import Build
from kernels.build.plain.lines import Lines, read
from kernels.core.launch import Plan
from kernels.core.scope import Scope
from kernels.core.tensors import Initial
from kernels.errors import RunError, RunTimeout
from kernels.run.backends import cpu, jailed
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
    lines = read(build.path)
    with jailed.memory(arrays, build.jailed) as (zeros, held):
        logs = [zeros(count, LOG) for count in rows]

        def answer() -> bytes:
            return json.dumps(_run(build, plan, held, scope, lines, logs, reversed_order)).encode()

        said = jailed.ask(answer, build.path, cpu.rest()) if build.jailed else answer()
    try:
        return _probed(json.loads(said), logs, lines, plan)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        if not build.jailed:
            raise
        raise RunError("The kernel wrote into the answer of its jail.") from None


def _run(
    build: Build,
    plan: Plan,
    arrays: dict[str, np.ndarray],
    scope: Scope,
    lines: Lines,
    logs: list[np.ndarray],
    reversed_order: bool,
) -> dict[str, object]:
    """Runs the launches, in the jail for a stranger's build. Returns what _probed reads."""
    library = cpu.loaded(build)
    _begin(library, lines, plan, arrays)
    counts, stopped, late = list[int](), "", False
    for number, step in enumerate(plan.launches):
        first, blocks = scope.blocks(step, plan)
        log = logs[number]
        library.simt_log(log.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(len(log)), first, blocks)
        buffers = {name: arrays[name] for name in step.tensors}
        try:
            cpu.start(library, step, cpu.arguments_of(step, plan, arrays), buffers, reversed_order)
        except RunError as error:
            stopped, late = str(error), isinstance(error, RunTimeout)
        counts.append(_number(library, "simt_logged"))
        if stopped:
            break
        for copy in plan.copies_after(number):
            cpu.copy_tensor(copy, arrays)
    printed = ctypes.CFUNCTYPE(ctypes.c_char_p)(("simt_printed", library))().decode(errors="replace")
    findings = _findings(library).tobytes().hex()
    return {"counts": counts, "stopped": stopped, "late": late, "printed": printed, "findings": findings} | {
        "regions": _regions(library)
    }


def _probed(said: dict[str, Any], logs: list[np.ndarray], lines: Lines, plan: Plan) -> Probed:
    """The Probed of an answer. Raises ValueError and its like for a stranger's own answer."""
    counts = [max(0, int(count)) for count in said["counts"][: len(logs)]]
    logged = [Logged(log[: min(n, len(log))].copy(), max(0, n - len(log))) for log, n in zip(logs, counts)]
    stopped = (RunTimeout if said["late"] else RunError)(str(said["stopped"])) if said["stopped"] else None
    shapes = {tensor.name: tensor.shape for tensor in plan.tensors}
    regions = [Region(str(n), bool(s), int(e), () if s else shapes.get(str(n), ())) for n, s, e in said["regions"]]
    findings = np.frombuffer(bytes.fromhex(said["findings"]), FINDING)
    faults = [of_finding(found, lines, regions) for found in findings]
    faults += [of_stop(str(stopped))] if stopped else []
    return Probed(tuple(logged), lines, tuple(regions), tuple(faults), stopped, str(said["printed"]))


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


def _regions(library: ctypes.CDLL) -> list[tuple[str, bool, int]]:
    """(name, whether it is shared memory, bytes of an element) of the regions of a library by number."""
    name_of = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_uint)(("simt_region", library))
    found = list[tuple[str, bool, int]]()
    while (name := name_of(len(found))) is not None:
        number = len(found)
        found.append((name.decode(), bool(library.simt_is_shared(number)), int(library.simt_element(number))))
    return found
