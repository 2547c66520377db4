"""The memory hierarchy: latency and bandwidth against the working set, and the cycles of a walk through shared memory.

Every figure comes from a timed build with a correct output. Measuring needs a GPU. Reading the recorded tables,
kernels/recordings/data/hierarchy/ and cycles/, does not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, RunError
from kernels.families.lab.hierarchy import (
    CONSTANT_BYTES,
    ChaseProblem,
    ConstantChaseProblem,
    StreamProblem,
    TextureChaseProblem,
)
from kernels.families.lab.tiles import ROWS, TILES, ColumnsProblem
from kernels.recordings import tables
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device

HIERARCHY, CYCLES = "hierarchy", "cycles"
RUNS = 5  # of each figure. The median counts. The table also has the least and the most
KIB, MIB = 2**10, 2**20
LARGEST_TEXTURE = 256 * MIB  # of a chase; it meets device memory from 128 MiB on
TIMED_WARPS, TIMED_REPEATS = 8, 64
TIME_LIMIT = 600.0  # seconds for one point
Settings = tuple[tuple[str, int], ...]
Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """A point of the hierarchy. kind: latency (of a chase) or bandwidth (of a stream)."""

    kind: str
    problem: Any


@dataclass(frozen=True)
class Measured:
    """A recorded table of the hierarchy or of cycles, with its GPU, driver, date and compiler."""

    table: pd.DataFrame
    device: str
    driver: str
    date: str
    compiler: str


# ---- latency and bandwidth ----


def sweep(multiprocessors: int) -> list[Place]:
    """The points of the plateaus: rings from 1 KiB to 512 MiB, and working sets from 64 KiB per SM to 1 GiB."""
    found: list[Place] = []
    steps = [2**n * half // 2 for n in range(10, 30) for half in (2, 3)]
    for space, low, high in (
        ("shared", KIB, 192 * KIB),
        ("through_l1", KIB, 512 * MIB),
        ("from_l2", 32 * KIB, 512 * MIB),
    ):
        sizes = sorted({s for s in steps if low <= s <= high} | ({224 * KIB} if low == KIB else set()))
        for size in sizes:
            links = 8192 if size <= 64 * MIB else 16384
            found.append(Place("latency", ChaseProblem(space, size, min(size // 128, 2**19), links)))
    streams = [StreamProblem("shared", multiprocessors, 1024, *size) for size in ((1, 2000), (2, 1000), (3, 700))]
    for space, more in (("through_l1", ()), ("from_l2", (5,))):
        for rounds in sorted((1, 2, 3, 4, 6, 8, 16, 32, 64, *more)):
            passes = max(2, (400 if space == "through_l1" and rounds < 4 else 150) // rounds)
            streams.append(StreamProblem(space, 4 * multiprocessors, 256, rounds, passes))
    streams += [StreamProblem("copy", blocks, 1024, 1) for blocks in (2048, 4096, 8192, 16384)]
    found += [Place("bandwidth", stream) for stream in streams]
    return found + [Place("latency", chase) for chase in _cached_chases(steps)]


def _cached_chases(steps: Iterable[int]) -> list[ConstantChaseProblem | TextureChaseProblem]:
    """The rings in constant memory and through a texture, of these working sets if they fit."""
    constant = [ConstantChaseProblem(s, s // 64, 8192) for s in steps if s <= CONSTANT_BYTES]
    sizes = sorted({*steps, 224 * KIB})
    return constant + [TextureChaseProblem(s, min(s // 128, 2**19), 8192) for s in sizes if s <= LARGEST_TEXTURE]


def point(place: Place) -> dict[str, object]:
    """One row of the table, measured on this GPU: kind, space, working_set in bytes, and cycles and ns of one load, or
    gigabytes per second. Each figure has the median, least and most of RUNS. RunError for a wrong output."""
    from kernels.build import Mode
    from kernels.run import execute
    from kernels.run.backends import gpu

    problem = place.problem
    made, plan, arrays = execute.prepare(Request(_kernel_of(problem.problem_type), problem, backend="gpu"), Mode.TIMED)
    row = {"kind": place.kind, "space": problem.space, "working_set": problem.working_set}
    if place.kind == "latency":
        times = []
        for _ in range(RUNS):
            gpu.launch(made, plan, arrays, None)
            times.append(arrays["times"] / problem.steps)
        values = {"cycles": [t[0] for t in times], "ns": [t[1] for t in times]}
    else:
        values = {
            "gb_per_s": [problem.bytes_moved / ms / 1e6 for ms in gpu.launch_repeatedly(made, plan, arrays, RUNS)]
        }
    _must_be_right(problem, arrays)
    for name, found in values.items():
        row |= _figures(name, found)
    return row


# ---- cycles of a walk ----


def has_cycles(kernel: KernelSpec) -> bool:
    """Whether cycles per access are measured for the kernel: for the walk down the columns of a tile."""
    return kernel.solves_class(ColumnsProblem)


def cycles_sweep() -> list[tuple[ColumnsProblem, Settings]]:
    """(problem, settings) of the recorded walks: every way to read a tile with more paddings, and strides from 1 to
    128."""
    paddings = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 31, 32)
    padded = [
        {"WIDTH": width, "PAD": pad, "SWIZZLE": 0, "MATRICES": 0}
        for width in (4, 8, 16)
        for pad in paddings
        if 4 * pad % width == 0
    ]
    settings = dict.fromkeys(tuple(tile.items()) for tile in (*TILES, *padded))
    walks = [(ColumnsProblem(32), chosen) for chosen in settings]
    strides = [*range(1, 32), *range(33, 41), 48, 64, 96, 128]
    return walks + [(ColumnsProblem(stride), tuple(TILES[0].items())) for stride in strides]


def cycles_point(problem: ColumnsProblem, settings: Settings) -> dict[str, object]:
    """Cycles of the SM per access of a warp, with 8 warps of only these accesses: a row of stride, the settings, the
    wavefronts derived from the probed build's trace, and the cycles (median, least, most)."""
    from kernels.build import Mode
    from kernels.run import execute
    from kernels.run.backends import gpu

    chosen = dict(settings)
    timed = ColumnsProblem(problem.stride, TIMED_REPEATS, TIMED_WARPS, problem.seed)
    request = Request(_kernel_of(ColumnsProblem), timed, settings, backend="gpu")
    made, plan, arrays = execute.prepare(request, Mode.TIMED)
    row_bytes = 4 * problem.stride
    per_walk = row_bytes // chosen["WIDTH"]
    if chosen["MATRICES"]:
        per_walk = ROWS // 8 // chosen["MATRICES"] * row_bytes // 16
    values = []
    for _ in range(RUNS):
        gpu.launch(made, plan, arrays, None)
        elapsed = arrays["clocks"][:, 1].max() - arrays["clocks"][:, 0].min()
        values.append(elapsed / (per_walk * TIMED_WARPS * TIMED_REPEATS))
    _must_be_right(timed, arrays)
    wavefronts = wavefronts_per_access(problem, settings, "gpu")
    return {"stride": problem.stride, **chosen, "wavefronts": wavefronts, **_figures("cycles", values)}


def wavefronts_per_access(problem: ColumnsProblem, settings: Settings, backend: str) -> float:
    """The mean wavefronts per access of the walk's reads, derived from the trace of a probed build."""
    from kernels.run import execute
    from kernels.trace.kinds import READS
    from kernels.trace.memory import traced

    run = execute.run(Request(_kernel_of(ColumnsProblem), problem, settings, backend=backend))
    costs = traced.requests(run.trace, space="shared").costs
    return round(float(costs[costs.kind.isin(READS)].wavefronts.mean()), 3)


def _kernel_of(problem_type: type) -> KernelSpec:
    """The catalogue's first KernelSpec for these problems."""
    return next(iter(catalog.current().of_problem(problem_type).values()))


def _figures(name: str, values: Iterable[float]) -> dict[str, float]:
    """The median, the least and the most, as columns."""
    picks: tuple[tuple[str, Callable], ...] = (("", np.median), ("_least", min), ("_most", max))
    return {f"{name}{suffix}": round(float(pick(values)), 3) for suffix, pick in picks}


def _must_be_right(problem: Problem, arrays: dict[str, np.ndarray]) -> None:
    for name, true in problem.truth().items():
        if not np.array_equal(arrays[name], true):
            raise RunError(f"{problem} has no figure, because its output {name} is wrong.")


# ---- recorded ----


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Measures the hierarchy of this GPU and writes its table after each point. Returns the path. Points of the
    present code stay, unless `anew`."""
    tasks: dict[Key, tuple] = {
        (place.kind, place.problem.space, place.problem.working_set): (point, place)
        for place in sweep(device.multiprocessors)
    }
    return _record(HIERARCHY, ("kind", "space", "working_set"), tasks, device, progress, anew)


def record_cycles(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """The same for the cycles of a walk."""
    names = [name for name, _ in cycles_sweep()[0][1]]
    tasks: dict[Key, tuple] = {
        (problem.stride, *dict(settings).values()): (cycles_point, problem, settings)
        for problem, settings in cycles_sweep()
    }
    return _record(CYCLES, ("stride", *names), tasks, device, progress, anew)


Row = Mapping[str, Any]


def _record(
    kind: str,
    key: Sequence[str],
    tasks: Mapping[Key, tuple],
    device: Device,
    progress: Progress,
    anew: bool,
) -> list[Path]:
    """key: the columns that identify a row. tasks: key -> the function of its row, and its arguments."""
    from kernels.build.nvrtc import Toolchain

    path = tables.path_of(kind, device.name)
    codes = _codes(kind)
    kept = {}
    if not anew and path.exists() and device.name in _readable(kind):
        rows = _readable(kind)[device.name].table.to_dict("records")
        kept = {tuple(row[name] for name in key): row for row in rows}

    def write(rows: Mapping[Key, Row]) -> None:
        where = tables.provenance(device, codes, compiler=Toolchain(device.target).version, runs=RUNS)
        tables.save(pd.DataFrame([rows[task] for task in tasks if task in rows]), path, where)

    groups = [Group(kind, [task], partial(_measured, kind, task, *call)) for task, call in tasks.items()]
    resume(groups, kept, write, progress)
    return [path]


def _measured(kind: str, key: Key, function: Callable[..., Row], *arguments: object) -> dict[Key, Row]:
    from kernels.run import workers

    job = workers.submit(function, *arguments, backend="gpu", title=f"Measuring {kind}", time_limit=TIME_LIMIT)
    return {key: job.result()}


_PROBLEMS: dict[str, tuple[type, ...]] = {
    HIERARCHY: (ChaseProblem, StreamProblem, ConstantChaseProblem, TextureChaseProblem),
    CYCLES: (ColumnsProblem,),
}


def _codes(kind: str) -> dict[str, str]:
    """Kernel -> code_hash of the kernels that measure this kind."""
    return {spec.name: spec.code_hash for spec in map(_kernel_of, _PROBLEMS[kind])}


def recorded(device: str = "", kind: str = HIERARCHY) -> Measured:
    """The recorded table of a GPU, or of the GPU with the newest table. BackendUnavailable, with the remedy, if none
    is of the present code. kind: HIERARCHY or CYCLES."""
    found = _readable(kind)
    if not found or device and device not in found:
        said = f"There is no recording of the {kind} {f'on {device} ' if device else ''}by the present code."
        advice = f"Make one on a GPU with python -m kernels measure {kind}."
        raise BackendUnavailable(" ".join([said, *_left_out(kind), advice]))
    return found[device] if device else next(iter(found.values()))


def devices(kind: str = HIERARCHY) -> list[str]:
    """The GPUs with a recorded table of this kind, the newest first."""
    return list(_readable(kind))


def _readable(kind: str) -> dict[str, Measured]:
    found = tables.recorded(kind).items()
    return {
        device: Measured(table, where.device, where.driver, where.date, where.compiler)
        for device, (table, where) in found
        if not _changed(kind, where)
    }


def _changed(kind: str, where: tables.Provenance) -> list[str]:
    """The kernels of a table with another code today. A table may lack a kernel, if it is older than the kernel."""
    return tables.changed_code(where.codes, where.codes or _codes(kind))


def _left_out(kind: str) -> list[str]:
    changed = [
        f"The recording on {device} is of another code of {', '.join(_changed(kind, where))}."
        for device, (_, where) in tables.recorded(kind).items()
        if _changed(kind, where)
    ]
    return [*tables.left_out(kind), *changed]
