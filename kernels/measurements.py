"""What the memory lab measures on a GPU: latencies, bandwidths, cycles of the lab's accesses, timelines. Nothing here runs on a CPU.

Every figure is of a timed (or timeline) build whose output equalled the reference. Recorded ones lie in kernels/recordings/.
"""

import datetime
import json
import re
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from kernels import build, catalog, execute, memory, tables
from kernels.backends import Device, gpu, recorded
from kernels.build import Mode
from kernels.catalog import defines
from kernels.check import TILES
from kernels.errors import BackendUnavailable, ProblemError, RunError
from kernels.execute import Request
from kernels.hierarchy import ChaseProblem, StreamProblem
from kernels.lab import ROWS, ColumnsProblem
from kernels.problem import AttentionProblem

HIERARCHY, CYCLES, CALIBRATION, TIMELINES = (tables.FOLDER / name for name in ("hierarchy.csv", "cycles.csv", "calibration.csv", "timelines"))
RUNS = 5  # of each figure; the median counts, the least and the most are kept
KIB, MIB = 2**10, 2**20
TIMED_WARPS, TIMED_REPEATS = 8, 64


def hierarchy_sweep(multiprocessors):
    """The problems that show the plateaus: rings from 1 KiB to 512 MiB, and working sets from 64 KiB per multiprocessor to 1 GiB."""
    found = []
    for space, low, high in (("shared", KIB, 192 * KIB), ("through_l1", KIB, 512 * MIB), ("from_l2", 32 * KIB, 512 * MIB)):
        sizes = sorted({s for s in (2**n * half // 2 for n in range(10, 30) for half in (2, 3)) if low <= s <= high} | ({224 * KIB} if low == KIB else set()))
        found += [ChaseProblem(space, size, min(size // 128, 2**19), 8192 if size <= 64 * MIB else 16384) for size in sizes]
    for rounds, passes in ((1, 2000), (2, 1000), (3, 700)):
        found.append(StreamProblem("shared", multiprocessors, 1024, rounds, passes))
    for space, rounds in [("through_l1", r) for r in (1, 2, 3, 4, 6, 8, 16, 32, 64)] + [("from_l2", r) for r in (1, 2, 3, 4, 5, 6, 8, 16, 32, 64)]:
        passes = max(2, (400 if space == "through_l1" and rounds < 4 else 150) // rounds)
        found.append(StreamProblem(space, 4 * multiprocessors, 256, rounds, passes))
    return found + [StreamProblem("copy", blocks, 1024, 1) for blocks in (2048, 4096, 8192, 16384)]


def hierarchy_point(problem):
    """One row of the hierarchy's table: a dict of kind (latency or bandwidth), space, working_set, and cycles and ns of a load or
    gigabytes per second, each median, least and most of RUNS."""
    kernel = next(k for k in catalog.family("hierarchy").values() if isinstance(problem, k.problem_type))
    made, plan, arrays = execute.prepare(Request(kernel, problem, backend="gpu"), Mode.TIMED)
    row = {"kind": "latency" if isinstance(problem, ChaseProblem) else "bandwidth", "space": problem.space, "working_set": problem.working_set}
    if row["kind"] == "latency":
        times = []
        for _ in range(RUNS):
            gpu.launch(made, plan, arrays, None)
            times.append(arrays["times"] / problem.steps)
        figures = {"cycles": [t[0] for t in times], "ns": [t[1] for t in times]}
    else:
        figures = {"gb_per_s": [problem.bytes_moved / ms / 1e6 for ms in gpu.launch_repeatedly(made, plan, arrays, RUNS)]}
    _must_be_right(problem, arrays)
    for name, values in figures.items():
        row |= _figures(name, values)
    return row


def cycles_sweep():
    """(problem, settings) of the walks that are recorded: every setting of the lab with more paddings, and strides from 1 to 64."""
    settings = {tuple(tile.items()): None for tile in TILES} | {
        tuple({"WIDTH": width, "PAD": pad, "SWIZZLE": 0, "MATRICES": 0}.items()): None
        for width in (4, 8, 16) for pad in (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 31, 32) if 4 * pad % width == 0}
    walks = [(ColumnsProblem(32), chosen) for chosen in settings]
    return walks + [(ColumnsProblem(stride), tuple(TILES[0].items())) for stride in [*range(1, 32), *range(33, 41), 48, 64, 96, 128]]


def cycles_point(problem, settings):
    """Cycles of the multiprocessor per access of a warp, with 8 warps that do nothing else: a dict of stride, the settings, the
    wavefronts derived from the probed build's trace, and the cycles (median, least, most)."""
    chosen = dict(settings)
    timed = ColumnsProblem(problem.stride, TIMED_REPEATS, TIMED_WARPS, problem.seed)
    made, plan, arrays = execute.prepare(Request(catalog.KERNELS["lab_columns"], timed, settings, backend="gpu"), Mode.TIMED)
    per_walk = ROWS // 8 // chosen["MATRICES"] * problem.stride // 4 if chosen["MATRICES"] else problem.stride * 4 // chosen["WIDTH"]
    values = []
    for _ in range(RUNS):
        gpu.launch(made, plan, arrays, None)
        values.append((arrays["clocks"][:, 1].max() - arrays["clocks"][:, 0].min()) / (per_walk * TIMED_WARPS * TIMED_REPEATS))
    _must_be_right(timed, arrays)
    return {"stride": problem.stride, **chosen, "wavefronts": wavefronts_per_access(problem, settings, "gpu"), **_figures("cycles", values)}


def wavefronts_per_access(problem, settings, backend):
    """Of the walk's reads, derived from the trace of a probed build: the mean over the accesses."""
    run = execute.run(Request(catalog.KERNELS["lab_columns"], problem, settings, backend=backend))
    costs = memory.requests(run.trace, "shared").costs
    return round(float(costs[costs.kind != "store"].wavefronts.mean()), 3)


def _figures(name, values):
    """The median, the least and the most, as columns."""
    return {f"{name}{suffix}": round(float(pick(values)), 3) for suffix, pick in (("", np.median), ("_least", min), ("_most", max))}


def _must_be_right(problem, arrays):
    for name, true in problem.truth().items():
        if not np.array_equal(arrays[name], true):
            raise RunError(f"No figure is given for {problem}: its output {name} is wrong.")


@lru_cache
def recorded_table(path):
    """(table, provenance) of a committed table such as HIERARCHY; BackendUnavailable if there is none."""
    if not path.exists():
        raise BackendUnavailable(f"There is no recording {path.name}. Make one on a GPU with python -m kernels measure {path.stem}.")
    return tables.load(path)


# ---- timelines ----


@dataclass(frozen=True)
class Timeline:
    """When and where each block of a run ran. table: launch (0, 1, ...), block, sm, start_ns, end_ns from the first start on; blocks that left
    at once, before their first step, are not in it but counted in `left`. provenance: measured or recorded."""

    request: Request
    table: pd.DataFrame
    left: int
    multiprocessors: int
    provenance: str
    device: str
    date: str


def timeline(request):
    """The Timeline of a request on the GPU, of a timeline build whose output passed; or the recorded one. ProblemError on the CPU, which has no time."""
    if request.backend == "recorded":
        return _recorded_timeline(request)
    if request.backend != "gpu":
        raise ProblemError("A timeline is made of times, and a CPU run yields none. Choose the recorded backend, or a machine with a GPU.")
    made, plan, arrays = execute.prepare(request, Mode.TIMELINE)
    device = gpu.device()
    found = gpu.launch_timeline(made, plan, arrays)
    error, allowed = execute.largest_error(request, arrays), execute.baseline(request)
    if not execute.is_correct(error, allowed):
        raise RunError(f"No timeline is shown: {request.kernel.name} missed float64 by {error:.3g}, where torch misses it by {allowed:.3g}.")
    parts = [pd.DataFrame({"launch": number, "block": np.arange(len(times)), "sm": times["sm"], "start_ns": times["start"], "end_ns": times["end"]})
             for number, times in enumerate(found)]
    table = pd.concat(parts)
    ran = table[table.start_ns > 0].reset_index(drop=True)
    ran[["start_ns", "end_ns"]] -= ran.start_ns.min()
    return Timeline(request, ran, len(table) - len(ran), device.multiprocessors, "measured", device.name, datetime.date.today().isoformat())


def recorded_timelines():
    """The requests whose timelines are recorded (`python -m kernels measure timelines`)."""
    wide = AttentionProblem(seq_len=2048, head_dim=64, heads=8)
    return [Request(catalog.KERNELS[name], problem, tuple(catalog.KERNELS[name].settings().items()), backend="gpu") for name, problem in (
        ("03_flash", wide), ("03_flash", AttentionProblem(seq_len=2048, head_dim=64, heads=8, causal=True)),
        ("03_flash", AttentionProblem(seq_len=4096, head_dim=64, heads=8, causal=True)),
        ("02_tiled", AttentionProblem(seq_len=512, head_dim=64, heads=8, causal=True)),
        ("paged_v1", catalog.KERNELS["paged_v1"].problem_type((2000, 30, 400, 90, 1000, 10, 60, 200), 8, 2, 128)),
        ("paged_v2", catalog.KERNELS["paged_v2"].problem_type((2000, 30, 400, 90, 1000, 10, 60, 200), 8, 2, 128)))]


def save_timeline(made):
    request = made.request
    name = re.sub(r"[^\w.]+", "_", f"{request.kernel.name} {' '.join(str(v) for v in asdict(request.problem).values())}")[:80].strip("_")
    return tables.save(made.table, TIMELINES / f"{name}.csv", {**recorded.identity(request), "left": made.left, "multiprocessors": made.multiprocessors,
                                                               "device": made.device, "date": made.date})


@lru_cache
def timeline_index():
    """Path -> provenance of every recorded timeline."""
    found = {}
    for path in sorted(TIMELINES.glob("*.csv")):
        with path.open() as file:
            found[path] = json.loads(file.readline().removeprefix("# "))
    return found


def _recorded_timeline(request):
    wanted = recorded.identity(request)
    for path, entry in timeline_index().items():
        if {key: entry[key] for key in wanted} == wanted:
            return Timeline(request, tables.load(path)[0], entry["left"], entry["multiprocessors"], "recorded", entry["device"], entry["date"])
    raise ProblemError(f"No timeline of {request.kernel.name} at {request.problem.size} with this source and these constants is recorded. "
                       "Choose one of those that are.")


def measure(name, device: Device, progress=lambda done, of: None):
    """Measures one of hierarchy, cycles and timelines on the GPU and writes its recording; the paths written."""
    if name == "timelines":
        return [save_timeline(timeline(request)) for request in recorded_timelines()]
    if name == "hierarchy":
        points, path, ask = hierarchy_sweep(device.multiprocessors), HIERARCHY, hierarchy_point
    else:
        points, path, ask = cycles_sweep(), CYCLES, lambda pair: cycles_point(*pair)
    rows = []
    for number, point in enumerate(points):
        rows.append(ask(point))
        progress(number + 1, len(points))
    kernels = ("lab_columns",) if name == "cycles" else tuple(catalog.family("hierarchy"))
    compiler = build.build(catalog.KERNELS[kernels[0]], _default_defines(kernels[0]), Mode.TIMED, device.target).compiler
    sources = {kernel: catalog.KERNELS[kernel].source_hash for kernel in kernels}
    return [tables.save(pd.DataFrame(rows), path, tables.provenance(device, compiler=compiler, runs=RUNS, sources=sources))]


def _default_defines(name):
    kernel = catalog.KERNELS[name]
    return defines(kernel.problem_type(), kernel.settings())
