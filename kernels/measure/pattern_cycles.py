"""Cycles of a pattern's ways, such as the reductions of the lab: measured on a GPU, or recorded.

A pattern is a problem of families/lab/patterns.py. A way is a kernel of this problem with a named value of a constant.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.build import Mode
from kernels.build.nvrtc import Toolchain
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
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
from kernels.measure.in_worker import in_worker
from kernels.measure.judging import check_exact
from kernels.recordings import tables
from kernels.recordings.tables import Case, Cases, RecordedTable, Row, by
from kernels.run import execute
from kernels.run.backends import Device, gpu

PATTERNS = "patterns"
LAUNCHES = 11  # of each way. Each launch has PASSES passes or tiles
RATE_RUNS = 5  # of which the fastest counts
RATE_PASSES, LONG = (101, 1001), 1.0  # more passes for a launch of at most so many milliseconds
Key = tuple[str, str, str]  # kernel, settings and problem as text


@dataclass(frozen=True)
class Cycles:
    """The cycles of a way.

    cycles, least, most: the median and the range of the launches' medians.
    label: measured or recorded.
    device, date: their GPU and day.
    per_us: passes per microsecond of a GPU full of blocks, or None."""

    cycles: float
    least: float
    most: float
    label: str
    device: str
    date: str
    per_us: float | None = None


def is_pattern(kernel: KernelSpec) -> bool:
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
    timed = replace(request, problem=request.problem.timed(), backend="gpu")
    medians = []
    for _ in range(LAUNCHES):
        made, plan, arrays = execute.prepare(timed, Mode.TIMED)
        gpu.launch(made, plan, arrays, None)
        medians.append(float(np.median(timed.problem.cycles(arrays["clocks"]))))
        check_exact(timed.problem, arrays)
    kernel, settings, problem = key_of(request)
    rate = _rate(request)
    figures = {"cycles": np.median(medians), "least": min(medians), "most": max(medians)}
    rounded = {name: round(float(value), 2) for name, value in figures.items()}
    raw = " ".join(f"{value:g}" for value in medians)
    named: dict[str, object] = {"kernel": kernel, "settings": settings, "problem": problem}
    return named | rounded | {"medians": raw, "per_us": "" if rate is None else round(rate, 2)}


def _rate(request: Request) -> float | None:
    """Passes per microsecond of the whole GPU, if every SM is full of blocks. None for a pattern without this rate.
    Many blocks write its outputs at once, so only `measure` compares outputs."""
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
        return _figures(measure(request), "measured", gpu.device().name, "today")
    key = dict(zip(KEY, key_of(request)))
    for device, (table, where) in TABLE.recorded().items():
        found = table[(table[list(key)].fillna("") == pd.Series(key)).all(axis=1)]
        if len(found):
            return _figures(found.iloc[0].to_dict(), "recorded", device, where.date)
    return None


def broadcasts() -> tuple[pd.DataFrame, Cycles | None]:
    """The recorded cycles of a warp's read of one word or many words, and a figure with its source, or None.

    Columns: kernel, memory, different (number of different words) and cycles."""
    return _recorded(ReadsProblem, "different")


def shapes() -> tuple[pd.DataFrame, Cycles | None]:
    """The recorded cycles of a warp's read of a row, a tile or a column of a matrix, and a figure with its source, or
    None.

    Columns: kernel, memory, columns (of the shape of 32 numbers), areas (of the matrix: many for numbers that only
    L2 holds), and cycles."""
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


def _cases(device: Device, _: object) -> Cases:
    possible = {
        key: request
        for key, request in asked().items()
        if not request.kernel.cannot_run(request.problem, request.constants, device)
    }
    codes = {request.kernel.name: request.kernel.code_hash for request in possible.values()}
    cases = [
        Case(key[0], [key], lambda _, r=request: [in_worker(f"Measuring {r.kernel.name}", measure, r)])
        for key, request in possible.items()
    ]
    return cases, {"codes": codes, "compiler": Toolchain(device.target).version, "runs": LAUNCHES}


def _present(table: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    return table[~table.kernel.isin(tables.changed_code(where.codes))]


KEY = ("kernel", "settings", "problem")
TABLE = RecordedTable(PATTERNS, by(*KEY), _cases, present=_present, same=())


def missing() -> list[str]:
    """A sentence if a way has no recorded cycles of the present code."""
    without = [request for request in asked().values() if cycles(replace(request, backend="cpu")) is None]
    if not without:
        return []
    names = ", ".join(sorted({request.kernel.name for request in without}))
    return [f"{names} has no recorded cycles. Run python -m kernels measure patterns on a GPU."]
