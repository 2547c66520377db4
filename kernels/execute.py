"""One run, start to finish: limits, estimate, build, launch, compare with float64. Runs inside a worker process (workers.py)."""

import datetime
import json
import math
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from kernels import backends, build, reference
from kernels.backends import recorded
from kernels.build import Mode
from kernels.catalog import KernelSpec, defines
from kernels.errors import ProblemError, TooLargeError
from kernels.trace import Trace, decode

FIRST_CAPACITY = 1024  # records per thread to begin with; a run that needs more is repeated with what it needs
TRACE_BYTES = 256 * 2**20  # of raw records; past this the trace is cut, and says by how much
CPU_SECONDS_PER_MULTIPLY_ADD = 1e-8  # about what the project's 2-core machine takes, and only used to refuse runs
CPU_SECONDS = 60.0  # a longer run is refused on the CPU


@dataclass(frozen=True)
class Scope:
    """Which of a plan's items write a trace: `count` of them from `first`. For attention an item is a query tile, numbered row tile by
    row tile, head by head; for paged attention a query head of a sequence, numbered head by head, sequence by sequence."""

    first: int = 0
    count: int = 1

    def blocks(self, launch):
        """First block and number of blocks of a launch (catalog.Launch) that work for these items."""
        return self.first * launch.blocks_per_item, self.count * launch.blocks_per_item

    def check(self, items, item):
        """ProblemError if this is not within `items` of them; `item` is what they are called."""
        if not (0 <= self.first < items and 1 <= self.count <= items - self.first):
            raise ProblemError(f"scope is {item}s {self.first} to {self.first + self.count - 1}; this run has {item}s 0 to {items - 1}.")


@dataclass(frozen=True)
class Request:
    """What to run. problem: of the kernel's problem_type. settings: pairs of compile-time constants that differ from the defaults, or all."""

    kernel: KernelSpec
    problem: object
    settings: tuple[tuple[str, int], ...] = ()
    scope: Scope = field(default_factory=Scope)
    backend: str = "cpu"

    @property
    def constants(self):
        """Every compile-time constant of the kernel, name -> value."""
        return self.kernel.settings(self.settings)

    @property
    def plan(self):
        """The launches (catalog.Plan)."""
        return self.kernel.plan(self.problem, self.constants)

    @property
    def broken(self):
        """The what-if constants (catalog.Constant) that this request sets to break the kernel."""
        chosen = self.constants
        return tuple(c for c in self.kernel.constants if c.what_if and chosen[c.name] != c.default)

    @property
    def sites(self):
        """Line number -> probes.Site of this build."""
        return self.kernel.sites_of(self.problem, self.constants)


@dataclass(frozen=True)
class Run:
    """What a run gave. arrays: the problem's inputs and outputs, by name.

    max_abs_error: the probed build's outputs against float64. Whether that is good enough, `baseline` says.
    provenance: measured, executed or recorded; device, compiler, date say where, with what and when.
    """

    request: Request
    provenance: str
    device: str
    compiler: str
    date: str
    arrays: dict[str, np.ndarray]
    trace: Trace
    max_abs_error: float

    def lines(self, space):
        """The lines of the probes that logged an access of that space (shared or global), in the source's order."""
        logged = set(self.trace.table["line"].unique().to_pylist())
        return [line for line, site in self.request.sites.items() if site.space == space and line in logged]


@dataclass(frozen=True)
class Traffic:
    """Bytes moved, counted in the probes. table: tensor, space, kind (load or store), accesses, bytes; whole: over every
    block of the run, or only over the request's scope because the whole would not fit in memory."""

    table: pd.DataFrame
    whole: bool


@dataclass(frozen=True)
class Estimate:
    """What a run will take, before it is launched: a formula, never shown as a time of a kernel."""

    array_bytes: int
    seconds: float


def estimate(request, device):
    """Bytes of the arrays, and on the CPU the seconds to execute it (0 elsewhere: a GPU needs too few to matter here)."""
    problem, plan = request.problem, request.plan
    array_bytes = problem.input_bytes + 4 * sum(math.prod(shape) for shape in plan.written.values())
    return Estimate(array_bytes, problem.multiply_adds * CPU_SECONDS_PER_MULTIPLY_ADD if device.backend == "cpu" else 0.0)


def check_possible(request, device):
    """Raises ProblemError with the reason if the request cannot run on the device, TooLargeError if it would not fit."""
    reason = request.kernel.limits(request.problem, request.constants, device)
    if reason:
        raise ProblemError(reason)
    request.scope.check(request.plan.items, request.problem.item)
    if device.backend == "recorded":
        return
    needs, problem = estimate(request, device), request.problem
    if needs.array_bytes + TRACE_BYTES > device.memory_bytes:
        raise TooLargeError(f"{request.kernel.name} at {problem.size} needs {needs.array_bytes / 2**30:.1f} GiB for its arrays and up to "
                            f"{TRACE_BYTES / 2**30:.2f} for its trace; {device.name} has {device.memory_bytes / 2**30:.1f} free. "
                            f"{problem.remedy}")
    if needs.seconds > CPU_SECONDS:
        raise TooLargeError(f"{request.kernel.name} at {problem.size} would take about {needs.seconds:,.0f} s on the CPU (estimated); the limit is "
                            f"{CPU_SECONDS:.0f} s. {problem.remedy[:-1]}, or a machine with a GPU.")


def run(request):
    """A Run of the probed build, its trace over the request's scope."""
    if request.backend == "recorded":
        return recorded.load(request)
    made, plan, arrays, raw = _launch_probed(request)
    problem = request.problem
    label = backends.PROVENANCE[request.backend]
    device = backends.module(request.backend).device()
    date = datetime.date.today().isoformat()
    trace = decode(raw, request.sites, {
        "kernel": request.kernel.name, "problem": json.dumps(asdict(problem)), "settings": json.dumps(request.constants),
        "scope": json.dumps(asdict(request.scope)), "build": made.mode.value, "source_hash": request.kernel.source_hash, "backend": request.backend,
        "provenance": label, "device": device.name, "driver": device.driver, "compiler": made.compiler, "date": date})
    kept = {name: array for name, array in arrays.items() if name not in plan.written or name in problem.outputs}
    return Run(request, label, device.name, made.compiler, date, kept, trace, largest_error(request, arrays))


def run_timed_build(request):
    """The arrays that the timed build computes: what `check` compares, beside the probed build's."""
    made, plan, arrays = prepare(request, Mode.TIMED)
    backends.module(request.backend).launch(made, plan, arrays, request.scope)
    return arrays


def baseline(request):
    """The largest error of torch's own fp32 attention against float64: a kernel's may be at most twice that (`is_correct`).

    Apart from `run`, because importing torch takes longer than running a small problem.
    """
    if request.backend == "recorded":
        return recorded.load_baseline(request)
    return largest_error(request, request.problem.torch_outputs("cuda" if request.backend == "gpu" else "cpu"))


def largest_error(request, arrays):
    """The largest difference from float64 among the problem's outputs, found by name in `arrays`."""
    return max(reference.max_abs_error(arrays[name], true) for name, true in truth(request.problem, request.backend).items())


def is_correct(max_abs_error, baseline_max_abs_error):
    """The project's tolerance: at most twice the error of torch's own attention in the same type."""
    return max_abs_error <= 2 * baseline_max_abs_error


@lru_cache(maxsize=1)
def truth(problem, backend):
    """The problem's outputs in float64, on the GPU where there is one; a check asks for the same ones three times."""
    return problem.truth(on_gpu=backend == "gpu")


def traffic(request):
    """The Traffic of every block of the run where that fits in memory, else of the request's scope."""
    if request.backend == "recorded":
        return recorded.load_traffic(request)
    _, plan, _, raw = _launch_probed(request)
    whole = 16 * sum(int(r.counts.sum()) for r in raw) / request.scope.count * plan.items < TRACE_BYTES
    if whole:
        _, _, _, everything = _launch_probed(replace(request, scope=Scope(0, plan.items)))
        whole = not any(r.lost for r in everything)
    return Traffic(count_bytes(everything if whole else raw, request.sites), whole)


def count_bytes(raw_records, sites):
    """Accesses and bytes by tensor, space and kind, from raw records: a table without a row per access."""
    rows = []
    for raw in raw_records:
        kept = np.arange(raw.records.shape[1]) < np.minimum(raw.counts, raw.records.shape[1])[:, None]
        for line, count in enumerate(np.bincount(raw.records["line"][kept])):
            if count and sites[line].space:
                site = sites[line]
                rows.append((site.tensor, site.space, site.kind, int(count), int(count) * site.bytes))
    table = pd.DataFrame(rows, columns=["tensor", "space", "kind", "accesses", "bytes"])
    return table.groupby(["tensor", "space", "kind"], as_index=False).sum()


def prepare(request, mode):
    """What a launch needs: the build, the plan, and the arrays: inputs as the problem makes them, everything else that the kernel writes poisoned with NaN."""
    backend = backends.module(request.backend)
    check_possible(request, backend.device())
    plan = request.plan
    made = build.build(request.kernel, defines(request.problem, request.constants), mode, backend.device().target)
    types, inputs = request.problem.outputs, request.problem.inputs()
    fresh = {name: np.full(shape, np.nan, types.get(name, np.float32)) for name, shape in plan.written.items() if name not in inputs}
    return made, plan, inputs | fresh


def _launch_probed(request):
    """Launches the probed build; a second time with exact capacities if the first guess was short and the exact one fits."""
    made, plan, arrays = prepare(request, Mode.PROBED)
    backend = backends.module(request.backend)
    threads = [request.scope.blocks(step)[1] * step.threads for step in plan.launches]
    room = TRACE_BYTES // (16 * sum(threads))  # records per thread, were all launches alike
    guess = min(FIRST_CAPACITY, room)
    raw = backend.launch(made, plan, arrays, request.scope, [guess] * len(threads))
    if any(r.lost for r in raw):
        exact = [int(r.counts.max()) for r in raw]
        if 16 * sum(t * c for t, c in zip(threads, exact)) > TRACE_BYTES:
            exact = [min(c, room) for c in exact]
        if exact != [guess] * len(threads):
            raw = backend.launch(made, plan, arrays, request.scope, exact)
    return made, plan, arrays, raw
