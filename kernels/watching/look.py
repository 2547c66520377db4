"""A look at one version of a kernel: its results, faults, registers and counts."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from kernels import catalog
from kernels.build import DEFAULT_ARCH, EntryFacts, Mode, build
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.errors import BackendUnavailable, BuildError
from kernels.run import backends, execute, options, workers
from kernels.run.plain import launches, tables
from kernels.run.results import Run
from kernels.trace.memory import traced

TIMED_RUNS = 20


@dataclass(frozen=True)
class Look:
    """One version of a kernel.

    run: on the CPU, of the request's scope.
    arrays: outputs and scratch memory after it, in the order of the launches' arguments.
    entries: ptxas's facts, or () without NVRTC. note: the reason.
    wavefronts, sectors: of shared and global memory in the scope.
    bytes: (tensor, space, kind) -> bytes in the scope.
    time_us: the median on a GPU, or None without one.
    """

    run: Run
    arrays: dict[str, np.ndarray]
    errors: tuple[OutputError, ...]
    entries: tuple[EntryFacts, ...]
    note: str
    wavefronts: int
    sectors: int
    bytes: dict[tuple[str, str, str], int]
    time_us: float | None = None

    @property
    def kernel(self) -> KernelSpec:
        return self.run.request.kernel

    @property
    def faults(self) -> list[str]:
        """The sentences of the faults that make the kernel wrong."""
        return launches.errors(self.run.faults)

    @property
    def is_correct(self) -> bool:
        """Whether all outputs are within their limits, without a fault."""
        return all(error.ok for error in self.errors) and not self.faults


def request_of(path: Path, fields: Sequence[str]) -> Request:
    """The request for a .cu as it is now. fields: FIELD=VALUE of the command line. Raises WarpglassError."""
    kernel = catalog.load_kernel(path)
    problem, settings = options.assignments(kernel, list(fields))
    return Request(kernel, problem, settings, backend="cpu")


def look(request: Request, time_limit: float) -> Look:
    """Builds and runs a version. Raises WarpglassError with the line of a fault."""
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(_compiled, request)
        job = workers.submit(_looked, request, backend="cpu", title=request.kernel.name, time_limit=time_limit)
        run, arrays, errors = job.result()
        entries, note = compiled.result()
    costs = traced.requests(run.trace).costs
    moved = tables.traffic(run.trace)
    return Look(
        run,
        arrays,
        errors,
        entries,
        note,
        int(costs.wavefronts.fillna(0).sum()),
        int(costs.sectors.fillna(0).sum()),
        {(str(r.tensor), str(r.space), str(r.kind)): int(r.bytes) for r in moved.itertuples()},
        _time_us(request, time_limit),
    )


def _compiled(request: Request) -> tuple[tuple[EntryFacts, ...], str]:
    try:
        return build(request.kernel, request.defines, Mode.TIMED, DEFAULT_ARCH).facts, ""
    except (BackendUnavailable, BuildError) as error:
        return (), str(error)


def _looked(request: Request) -> tuple[Run, dict[str, np.ndarray], tuple[OutputError, ...]]:
    if launches.is_automatic(request):
        built, plan, probed, arrays = execute.probe_plain(request)
        run = execute.run_of_probe(request, built, plan, probed, arrays)
    else:
        run = execute.run(request)
        arrays, plan = run.arrays, request.plan
    order = dict.fromkeys(name for step in plan.launches for name in step.tensors)
    written = {tensor.name for tensor in plan.tensors if tensor.is_written}
    kept = {name: arrays[name] for name in order if name in written and name in arrays}
    errors = execute.judge(run.max_abs_errors, execute.yardstick(request), request.problem)
    return run, kept, tuple(errors)


def _time_us(request: Request, time_limit: float) -> float | None:
    if "gpu" not in workers.survey().devices:
        return None
    timed = replace(request, backend="gpu")
    return workers.submit(_timed, timed, backend="gpu", title=request.kernel.name, time_limit=time_limit).result()


def _timed(request: Request) -> float:
    from kernels.run.backends import gpu

    built, plan, arrays = execute.prepare(request, Mode.TIMED)
    assert backends.module("gpu") is gpu
    return float(median(gpu.launch_repeatedly(built, plan, arrays, TIMED_RUNS)))
