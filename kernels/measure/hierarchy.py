"""The memory hierarchy: latency and bandwidth against the working set, and the cycles of a walk through shared memory.

Every figure comes from a timed build with a correct output. Measuring needs a GPU. Reading the recorded tables,
kernels/recordings/data/hierarchy/ and cycles/, does not.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.build import Mode
from kernels.build.nvrtc import Toolchain
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable
from kernels.families.lab.hierarchy import (
    CONSTANT_BYTES,
    ChaseProblem,
    ConstantChaseProblem,
    StreamProblem,
    TextureChaseProblem,
)
from kernels.families.lab.tiles import ROWS, TILES, ColumnsProblem
from kernels.measure.in_worker import in_worker
from kernels.measure.judging import check_exact
from kernels.recordings import tables
from kernels.recordings.tables import Case, Cases, RecordedTable, by
from kernels.run import execute
from kernels.run.backends import Device, gpu
from kernels.trace.kinds import READS
from kernels.trace.memory import traced

HIERARCHY, CYCLES = "hierarchy", "cycles"
RUNS = 5  # of each figure. The median counts. The table also has the least and the most
KIB, MIB = 2**10, 2**20
LARGEST_TEXTURE = 256 * MIB  # of a chase; it meets device memory from 128 MiB on
TIMED_WARPS, TIMED_REPEATS = 8, 64
Settings = tuple[tuple[str, int], ...]


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
    check_exact(problem, arrays)
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
    check_exact(timed, arrays)
    wavefronts = wavefronts_per_access(problem, settings, "gpu")
    return {"stride": problem.stride, **chosen, "wavefronts": wavefronts, **_figures("cycles", values)}


def wavefronts_per_access(problem: ColumnsProblem, settings: Settings, backend: str) -> float:
    """The mean wavefronts per access of the walk's reads, derived from the trace of a probed build."""
    run = execute.run(Request(_kernel_of(ColumnsProblem), problem, settings, backend=backend))
    costs = traced.requests(run.trace, space="shared").costs
    return round(float(costs[costs.kind.isin(READS)].wavefronts.mean()), 3)


def _kernel_of(problem_type: type) -> KernelSpec:
    return next(iter(catalog.current().of_problem(problem_type).values()))


def _figures(name: str, values: Iterable[float]) -> dict[str, float]:
    picks: tuple[tuple[str, Callable], ...] = (("", np.median), ("_least", min), ("_most", max))
    return {f"{name}{suffix}": round(float(pick(values)), 3) for suffix, pick in picks}


# ---- recorded ----


def _levels(device: Device, _: object) -> Cases:
    cases = [
        Case(
            HIERARCHY,
            [(place.kind, place.problem.space, place.problem.working_set)],
            lambda _, place=place: [in_worker("Memory hierarchy", point, place)],
        )
        for place in sweep(device.multiprocessors)
    ]
    return cases, _origin(device, ChaseProblem, StreamProblem, ConstantChaseProblem, TextureChaseProblem)


def _walks(device: Device, _: object) -> Cases:
    cases = [
        Case(
            CYCLES,
            [(problem.stride, *dict(settings).values())],
            lambda _, walk=(problem, settings): [in_worker("Cycles of a walk", cycles_point, *walk)],
        )
        for problem, settings in cycles_sweep()
    ]
    return cases, _origin(device, ColumnsProblem)


def _origin(device: Device, *kinds: type[Problem]) -> dict[str, object]:
    codes = {spec.name: spec.code_hash for spec in map(_kernel_of, kinds)}
    return {"codes": codes, "compiler": Toolchain(device.target).version, "runs": RUNS}


def _present(table: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    """No row of a table with a changed kernel. A table may lack a kernel, if it is older than the kernel."""
    return table.iloc[:0] if tables.changed_code(where.codes) else table


TABLES = {
    HIERARCHY: RecordedTable(HIERARCHY, by("kind", "space", "working_set"), _levels, present=_present, same=()),
    CYCLES: RecordedTable(CYCLES, by("stride", *TILES[0]), _walks, present=_present, same=()),
}


def recorded(device: str = "", kind: str = HIERARCHY) -> Measured:
    """The recorded table of a GPU, or of the GPU with the newest table. BackendUnavailable, with the remedy, if none
    is of the present code. kind: HIERARCHY or CYCLES."""
    found = TABLES[kind].recorded()
    if not found or device and device not in found:
        reasons = [
            f"The recording on {gpu} is of another code of {', '.join(changed)}."
            for gpu, (_, where) in tables.recorded(kind).items()
            if (changed := tables.changed_code(where.codes))
        ]
        said = f"There is no recording of the {kind} {f'on {device} ' if device else ''}by the present code."
        advice = f"Make one on a GPU with python -m kernels measure {kind}."
        raise BackendUnavailable(" ".join([said, *tables.left_out(kind), *reasons, advice]))
    table, where = found[device] if device else next(iter(found.values()))
    return Measured(table, where.device, where.driver, where.date, where.compiler)


def devices(kind: str = HIERARCHY) -> list[str]:
    """The GPUs with a recorded table of this kind, the newest first."""
    return list(TABLES[kind].recorded())
