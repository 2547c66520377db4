"""Cycles of a pattern's ways, such as the reductions of the lab: measured on a GPU, or recorded.

A pattern is a problem of families/lab/patterns.py. A way is a kernel of this problem with a named value of a constant.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import RunError
from kernels.families.lab.patterns import (
    COLUMNS,
    FEW,
    MANY,
    LoadProblem,
    Pattern,
    ReadsProblem,
    ReduceProblem,
    ShapesProblem,
    StagesProblem,
    settings_of,
)
from kernels.recordings import tables
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device

PATTERNS = "patterns"
LAUNCHES = 11  # of each way. Each launch has PASSES passes or tiles
RATE_RUNS = 5  # of which the fastest counts
RATE_PASSES, LONG = (101, 1001), 1.0  # more passes for a launch of at most so many milliseconds
TIME_LIMIT = 600.0  # seconds for one way
Key = tuple[str, str, str]  # kernel, settings and problem as text
Row = Mapping[str, object]


@dataclass(frozen=True)
class Cycles:
    """The cycles of a way.

    cycles, least, most: the median and the range of the launches' medians.
    label: measured or recorded.
    device, date: their GPU and day.
    per_us: passes per microsecond of a GPU full of blocks, or None.
    """

    cycles: float
    least: float
    most: float
    label: str
    device: str
    date: str
    per_us: float | None = None


def is_pattern(kernel: KernelSpec) -> bool:
    """Whether the kernel is a way of a pattern."""
    return any(kernel.solves_class(kind) for kind in problems())


def why(kernel: KernelSpec, settings: tuple[tuple[str, int], ...]) -> str:
    """The reason for the cost of a way, or ""."""
    every = settings_of(kernel)
    return kernel.why[every.index(settings)] if kernel.why and settings in every else ""


def waits(kernel: KernelSpec, settings: tuple[tuple[str, int], ...]) -> str:
    """The main wait of a way, or ""."""
    every = settings_of(kernel)
    return kernel.waits[every.index(settings)] if kernel.waits and settings in every else ""


def ways(kernel: KernelSpec) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """(name, settings) of each way of a kernel."""
    named = {c.name: dict(zip(c.values, c.names)) for c in kernel.constants if c.names}
    return [
        (named[settings[0][0]][settings[0][1]] if settings else kernel.title, settings)
        for settings in settings_of(kernel)
    ]


def problems() -> dict[type[Pattern], list[Pattern]]:
    """Class -> the recorded problems."""
    tiles = [LoadProblem(tile_size=size) for size in (512, 1024, 2048)]
    stages = [StagesProblem(rounds=rounds) for rounds in (1, 2, 4, 8, 16, 32)]
    reads = [ReadsProblem(different) for different in (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32)]
    shapes = [ShapesProblem(columns, areas) for areas in (FEW, MANY) for columns in COLUMNS]
    sums = [ReduceProblem(numbers) for numbers in (32, 64, 128, 256, 512, 1024)]
    return {
        ReduceProblem: [*sums],
        LoadProblem: [*tiles],
        StagesProblem: [*stages],
        ReadsProblem: [*reads],
        ShapesProblem: [*shapes],
    }


def asked() -> dict[Key, Request]:
    """The requests to record."""
    found = {}
    for kind, recorded_ones in problems().items():
        kernels = catalog.current().of_problem(kind).values()
        for problem, kernel in product(recorded_ones, kernels):
            for _, settings in ways(kernel):
                request = Request(kernel, problem, settings, backend="gpu")
                found[key_of(request)] = request
    return found


def key_of(request: Request) -> Key:
    """The key of a request's row. The number of passes and the seed do not count."""
    fields = [f"{name}={value}" for name, value in request.problem.timed().values().items()]
    settings = [f"{name}={value}" for name, value in request.constants.items()]
    return request.kernel.name, " ".join(settings), " ".join(fields)


def measure(request: Request) -> dict[str, object]:
    """The row of a request, measured on this GPU by a timed build with a right output: the key, the median, least and
    most of the launches' medians, and all medians."""
    from kernels.build import Mode
    from kernels.run import execute
    from kernels.run.backends import gpu

    timed = replace(request, problem=request.problem.timed(), backend="gpu")
    medians = []
    for _ in range(LAUNCHES):
        made, plan, arrays = execute.prepare(timed, Mode.TIMED)
        gpu.launch(made, plan, arrays, None)
        medians.append(float(np.median(timed.problem.cycles(arrays["clocks"]))))
        for name, true in timed.problem.truth().items():
            if not np.array_equal(arrays[name], true):
                raise RunError(f"{request.kernel.name} has no cycles, because its output {name} is wrong.")
    kernel, settings, problem = key_of(request)
    rate = _rate(request)
    figures = {"cycles": np.median(medians), "least": min(medians), "most": max(medians)}
    rounded = {name: round(float(value), 2) for name, value in figures.items()}
    raw = " ".join(f"{value:g}" for value in medians)
    named: dict[str, object] = {"kernel": kernel, "settings": settings, "problem": problem}
    return named | rounded | {"medians": raw, "per_us": "" if rate is None else round(rate, 2)}


def _rate(request: Request) -> float | None:
    """Passes per microsecond of the whole GPU, if every SM is full of blocks. None for a pattern without this rate.

    Its outputs are those of many blocks at once, so only `measure` compares outputs.
    """
    from kernels.build import Mode
    from kernels.run import execute
    from kernels.run.backends import gpu

    for passes in RATE_PASSES:
        if (filled := request.problem.filled(passes)) is None:
            return None
        problem, per_sm = filled
        made, plan, arrays = execute.prepare(replace(request, problem=problem, backend="gpu"), Mode.TIMED)
        blocks = per_sm * gpu.device().multiprocessors
        plan = replace(plan, launches=(replace(plan.launches[0], grid=(blocks, 1, 1)),))
        least = min(gpu.launch_repeatedly(made, plan, arrays, RATE_RUNS))
        if least > LONG:
            break
    return blocks * passes / least / 1e3


def cycles(request: Request) -> Cycles | None:
    """The cycles of a request's way: measured on this GPU, or the newest recorded ones of the present code, or None."""
    if request.backend == "gpu":
        from kernels.run.backends import gpu

        return _figures(measure(request), "measured", gpu.device().name, "today")
    for device, (table, where) in tables.recorded(PATTERNS).items():
        if tables.changed_code(where.codes, [request.kernel.name]):
            continue
        key = dict(zip(("kernel", "settings", "problem"), key_of(request)))
        found = table[(table[list(key)].fillna("") == pd.Series(key)).all(axis=1)]
        if len(found):
            return _figures(found.iloc[0].to_dict(), "recorded", device, where.date)
    return None


def broadcasts() -> tuple[pd.DataFrame, Cycles | None]:
    """The recorded cycles of a warp's read of one word or many words, and a figure with its source, or None.

    Columns: kernel, memory, different (number of different words) and cycles.
    """
    return _recorded(ReadsProblem, "different")


def shapes() -> tuple[pd.DataFrame, Cycles | None]:
    """The recorded cycles of a warp's read of a row, a tile or a column of a matrix, and a figure with its source, or
    None.

    Columns: kernel, memory, columns (of the shape of 32 numbers), areas (of the matrix: many for numbers that only
    L2 holds), and cycles.
    """
    return _recorded(ShapesProblem, "columns", "areas")


def _recorded(kind: type[Pattern], *fields: str) -> tuple[pd.DataFrame, Cycles | None]:
    rows, last = [], None
    for request in asked().values():
        if not request.kernel.solves_class(kind) or not (found := cycles(replace(request, backend="cpu"))):
            continue
        names = {settings: name for name, settings in ways(request.kernel)}
        values = request.problem.values()
        row = {
            "kernel": request.kernel.name,
            "memory": names[request.settings],
            **{name: values[name] for name in fields},
        }
        rows.append(row | {"cycles": found.cycles})
        last = found
    return pd.DataFrame(rows, columns=["kernel", "memory", *fields, "cycles"]), last


def _figures(row: Row, label: str, device: str, date: str) -> Cycles:
    median, least, most = (float(str(row[name])) for name in ("cycles", "least", "most"))
    rate = row.get("per_us")
    return Cycles(median, least, most, label, device, date, float(str(rate)) if rate and pd.notna(rate) else None)


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Measures every way on this GPU and writes the table after each. Returns its path. Rows of the present code stay,
    unless `anew`."""
    from kernels.build.nvrtc import Toolchain

    path, possible = tables.path_of(PATTERNS, device.name), asked().items()
    requests = {key: r for key, r in possible if not r.kernel.cannot_run(r.problem, r.constants, device)}
    codes = {request.kernel.name: request.kernel.code_hash for request in requests.values()}
    kept = {} if anew else _kept(device.name)

    def write(rows: Mapping[Key, Row]) -> None:
        where = tables.provenance(device, codes, compiler=Toolchain(device.target).version, runs=LAUNCHES)
        tables.save(pd.DataFrame([rows[key] for key in requests if key in rows]), path, where)

    groups = [Group(key[0], [key], partial(_measured, key, request)) for key, request in requests.items()]
    resume(groups, kept, write, progress)
    return [path]


def _kept(device: str) -> dict[Key, Row]:
    """The rows of present code of this GPU."""
    if device not in tables.recorded(PATTERNS):
        return {}
    table, where = tables.recorded(PATTERNS)[device]
    changed = tables.changed_code(where.codes)
    rows: Iterable[Row] = table.fillna("")[~table.kernel.isin(changed)].to_dict("records")
    return {(str(row["kernel"]), str(row["settings"]), str(row["problem"])): row for row in rows}


def _measured(key: Key, request: Request) -> dict[Key, Row]:
    from kernels.run import workers

    job = workers.submit(measure, request, backend="gpu", title=f"Measuring {key[0]}", time_limit=TIME_LIMIT)
    return {key: job.result()}


def missing() -> list[str]:
    """A sentence if a way has no recorded cycles of the present code."""
    without = [request for request in asked().values() if cycles(replace(request, backend="cpu")) is None]
    if not without:
        return []
    names = ", ".join(sorted({request.kernel.name for request in without}))
    return [f"{names} has no recorded cycles. Run python -m kernels measure patterns on a GPU."]
