"""One run in a worker process: limits, estimate, build, launch, comparison with float64."""

import datetime
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from kernels import build
from kernels.build import Build, Mode
from kernels.core.dtypes import element_type
from kernels.core.launch import Plan
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Initial, Role
from kernels.core.tolerance import OutputError, max_abs_error, output_errors
from kernels.errors import CannotRun, ProblemError, TooLargeError
from kernels.run import backends
from kernels.run.backends import Device, recorded
from kernels.run.plain import launches, tables
from kernels.run.plain.launches import Probed
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import BOXES
from kernels.trace.probes import OUT_OF_RANGE, RECORD, sites_of
from kernels.trace.trace import RawRecords, Trace, decode

FIRST_CAPACITY = 1024  # records per thread at first. A run with more records repeats with room for all
TRACE_BYTES = 256 * 2**20  # of raw records. The trace counts the records beyond
CPU_SECONDS_PER_STEP = 1e-8  # measured roughly on 2 cores, only for the refusal of runs
CPU_SECONDS = 60.0  # the longest run on the CPU


# ---- before a run ----


def check_possible(request: Request, device: Device) -> None:
    """Raises CannotRun if the request cannot run on the device, TooLargeError if it does not fit. The web process calls
    this too and makes no CUDA call. A GPU's free memory is therefore checked in prepare."""
    reason = request.kernel.cannot_run(request.problem, request.constants, device)
    if reason:
        raise CannotRun(reason)
    request.scope.check(request.plan)
    if device.backend != "cpu":
        return
    seconds = request.problem.cpu_steps * CPU_SECONDS_PER_STEP
    if seconds > CPU_SECONDS:
        raise TooLargeError(
            f"{request.kernel.name} at {request.problem.size} would take about {seconds:,.0f} s on the CPU "
            f"(estimated). The limit is {CPU_SECONDS:.0f} s. {request.problem.remedy[:-1]}, or a machine with a GPU."
        )
    check_fits(request, device)


def check_fits(request: Request, device: Device) -> None:
    """Raises TooLargeError if the arrays and the trace exceed the device's free memory. For a GPU only in a worker."""
    needed = sum(tensor.nbytes for tensor in request.plan.tensors)
    free = backends.module(device.backend).free_bytes()
    if needed + TRACE_BYTES > free:
        raise TooLargeError(
            f"{request.kernel.name} at {request.problem.size} needs {needed / 2**30:.1f} GiB for its arrays and up to "
            f"{TRACE_BYTES / 2**30:.2f} for its trace. {device.name} has {free / 2**30:.1f} free. "
            f"{request.problem.remedy}"
        )


def prepare(request: Request, mode: Mode) -> tuple[Build, Plan, dict[str, np.ndarray]]:
    device = backends.module(request.backend).device()
    check_possible(request, device)
    if device.backend == "gpu":
        check_fits(request, device)
    built = build.build(request.kernel, request.defines, mode, device.target)
    return built, request.plan, start_arrays(request)


def start_arrays(request: Request) -> dict[str, np.ndarray]:
    """tensor -> its array before a run: a copy of the problem's input, poisoned or zero. Raises ProblemError if an
    input's shape or type differs from the problem's tensors()."""
    given, arrays = request.problem.inputs(), {}
    for tensor in request.plan.tensors:
        if tensor.initial is not Initial.GIVEN:
            arrays[tensor.name] = tensor.fresh()
            continue
        array = given.get(tensor.name)
        if array is None or array.shape != tensor.shape or array.dtype != element_type(tensor.dtype).numpy:
            found = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise ProblemError(
                f"{request.kernel.problem_type.__name__}.inputs() gives {found} for the tensor {tensor.name}. "
                f"Its tensors() say {tensor.dtype} {tensor.shape}. Make them agree."
            )
        arrays[tensor.name] = np.array(array, order="C")
    return arrays


# ---- a run ----


def run(request: Request) -> Run:
    """A Run of the probed build. Its trace covers the request's scope."""
    if request.backend == "recorded":
        return recorded.load(request)
    if launches.is_automatic(request):
        return run_of_probe(request, *probe_plain(request))
    built, plan, arrays, raw = _launch_probed(request)
    trace = decode(raw, sites_of(request), _provenance(request, built))
    return _run_of(request, built, plan, arrays, trace)


def probe_plain(request: Request) -> tuple[Build, Plan, Probed, dict[str, np.ndarray]]:
    """The probed run of a plain kernel on the CPU: its build, plan, log with faults, and arrays."""
    built, plan, _ = prepare(request, Mode.PROBED)
    probed, arrays = launches.probe(request, built, plan, lambda: start_arrays(request), TRACE_BYTES)
    return built, plan, probed, arrays


def run_of_probe(request: Request, built: Build, plan: Plan, probed: Probed, arrays: dict[str, np.ndarray]) -> Run:
    """The Run of probe_plain's result. Raises RunError for a stopped run, and for a false log."""
    if probed.stopped:
        raise launches.stop(probed)
    return _run_of_log(request, built, plan, probed, arrays)


def run_to_fault(request: Request) -> Run:
    """The Run of a plain kernel on the CPU. If a launch stops, it has the records and the arrays until then, and the
    reason is the last of its faults."""
    return _run_of_log(request, *probe_plain(request))


def _run_of_log(request: Request, built: Build, plan: Plan, probed: Probed, arrays: dict[str, np.ndarray]) -> Run:
    if built.jailed:
        tables.check_rows(probed, request.kernel, plan, request.scope)
    trace = tables.trace(probed, request.kernel, plan, _provenance(request, built))
    return replace(_run_of(request, built, plan, arrays, trace), faults=probed.faults)


def _run_of(request: Request, built: Build, plan: Plan, arrays: dict[str, np.ndarray], trace: Trace) -> Run:
    label, device = backends.PROVENANCE[request.backend], backends.module(request.backend).device()
    kept = {tensor.name: arrays[tensor.name] for tensor in plan.tensors if tensor.role is not Role.SCRATCH}
    errors = largest_errors(request.problem, arrays, request.backend, plan)
    return Run(request, label, device.name, built.compiler, trace.provenance["date"], kept, trace, errors)


def _provenance(request: Request, built: Build) -> dict[str, str]:
    device = backends.module(request.backend).device()
    return {
        "kernel": request.kernel.name,
        "code_hash": request.kernel.code_hash,
        "problem": json.dumps(asdict(request.problem)),
        "settings": json.dumps(request.constants),
        "scope": json.dumps(asdict(request.scope)),
        "build": built.mode.value,
        "backend": request.backend,
        "provenance": backends.PROVENANCE[request.backend],
        "device": device.name,
        "driver": device.driver,
        "compiler": built.compiler,
        "date": datetime.date.today().isoformat(),
    }


def run_timed_build(request: Request) -> dict[str, np.ndarray]:
    built, plan, arrays = prepare(request, Mode.TIMED)
    backends.module(request.backend).launch(built, plan, arrays, request.scope)
    return arrays


def traffic(request: Request) -> Traffic:
    """The Traffic of all blocks if it fits in memory, else of the request's scope."""
    if request.backend == "recorded":
        return recorded.load_traffic(request)
    if launches.is_automatic(request):
        of_all = replace(request, scope=Scope.everything(request.plan))
        found = run_of_probe(of_all, *probe_plain(of_all)).trace
        return Traffic(tables.traffic(found), not found.lost)
    _, plan, _, raw = _launch_probed(request)
    shares = [request.scope.range_of(launch.item, plan)[1] / launch.items for launch in plan.launches]
    whole = RECORD.itemsize * sum(int(r.counts.sum()) / share for r, share in zip(raw, shares)) < TRACE_BYTES
    if whole:
        _, _, _, everything = _launch_probed(replace(request, scope=Scope.everything(plan)))
        whole = not any(r.lost for r in everything)
    return Traffic(count_bytes(everything if whole else raw, request), whole)


def count_bytes(raw_records: Sequence[RawRecords], request: Request) -> pd.DataFrame:
    """Accesses and bytes by tensor, space and kind (the event, such as load). A box by TMA counts only its part inside
    the tensor. A bulk copy without a tensor map counts in full."""
    rows, sites = [], sites_of(request)
    for raw in raw_records:
        kept = np.arange(raw.records.shape[1]) < np.minimum(raw.counts, raw.records.shape[1])[:, None]
        site_numbers = sites.index_of_words(raw.records["site"][kept] & np.uint32(~OUT_OF_RANGE & 0xFFFFFFFF))
        for number, count in enumerate(np.bincount(site_numbers[site_numbers >= 0], minlength=len(sites))):
            site = sites[number]
            if count and site.space:
                size = int(count) * site.bytes
                if site.event in BOXES:
                    launch = request.plan.launches[raw.launch]
                    tensor = request.plan.tensor(request.kernel.tensor_in(launch, str(site.tensor)))
                    if request.plan.has_map(tensor):
                        offsets = raw.records["payload"][kept][site_numbers == number].astype(np.int64)
                        corners = np.unravel_index(offsets // tensor.itemsize, tensor.shape)
                        boxes = zip(corners, request.plan.box_of(tensor), tensor.shape)
                        inside = np.prod([np.minimum(n, side - at) for at, n, side in boxes], axis=0)
                        size = int(inside.sum()) * tensor.itemsize
                rows.append((site.tensor, site.space, site.event, int(count), size))
    table = pd.DataFrame(rows, columns=["tensor", "space", "kind", "accesses", "bytes"])
    return table.groupby(["tensor", "space", "kind"], as_index=False).sum()


MOST_NEEDED = 256  # builds
_needed: OrderedDict[tuple[object, ...], list[int]] = OrderedDict()
"""A build -> the records per thread of each launch, after a run beyond the guess. The last MOST_NEEDED builds."""


def _launch_probed(request: Request) -> tuple[Build, Plan, dict[str, np.ndarray], list[RawRecords]]:
    """Launches the probed build. If the guessed capacities are short, it launches again with exact ones. The next run
    of the build starts with these. On the CPU, the copies of a what-if build land as late as possible, so a missing
    wait shows."""
    built, plan, arrays = prepare(request, Mode.PROBED)
    backend = backends.module(request.backend)
    late = {"reversed_order": True} if request.backend == "cpu" and request.broken else {}
    threads = [request.scope.blocks(step, plan)[1] * step.threads for step in plan.launches]
    room = TRACE_BYTES // (RECORD.itemsize * sum(threads))  # records per thread, if all launches are alike
    key = request.kernel.code_hash, tuple(request.defines.items()), len(threads)
    guess = [min(c, room) for c in _needed.get(key, [FIRST_CAPACITY] * len(threads))]
    raw = backend.launch(built, plan, arrays, request.scope, guess, **late)
    if any(r.lost for r in raw):
        exact = [int(r.counts.max()) for r in raw]
        if RECORD.itemsize * sum(t * c for t, c in zip(threads, exact)) > TRACE_BYTES:
            exact = [min(c, room) for c in exact]
        if exact != guess:
            _needed[key] = exact
            _needed.move_to_end(key)
            while len(_needed) > MOST_NEEDED:
                _needed.popitem(last=False)
            arrays = start_arrays(request)
            raw = backend.launch(built, plan, arrays, request.scope, exact, **late)
    return built, plan, arrays, raw


# ---- after a run ----


def yardstick(request: Request) -> dict[str, float]:
    """output -> the largest error against float64 of torch's answer in the same type. It is not a part of `run`,
    because the import of torch takes longer than a small problem."""
    if request.backend == "recorded":
        return recorded.load_yardsticks(request)
    problem = request.problem
    return largest_errors(problem, problem.yardstick("cuda" if request.backend == "gpu" else "cpu"), request.backend)


def judge(
    max_abs_errors: Mapping[str, float], yardsticks: Mapping[str, float], problem: Problem, plain: bool = False
) -> tuple[OutputError, ...]:
    """An OutputError for each output: its error, torch's, and the limit. tolerance.worst chooses the one to show.

    plain: of a kernel without written probes, a stranger's, which may sum one by one (tolerance)."""
    return output_errors(max_abs_errors, yardsticks, problem.largest_terms(), problem.terms if plain else 1)


def largest_errors(
    problem: Problem, arrays: Mapping[str, np.ndarray], backend: str = "cpu", plan: Plan | None = None
) -> dict[str, float]:
    """output -> its largest difference from float64. arrays: by name, with the problem's outputs.

    plan: leaves out the outputs that no launch takes, such as lse. Raises ProblemError if none takes any. Empty for a
    problem without a truth."""
    taken = {name for step in plan.launches for name in step.tensors} if plan else {*arrays}
    right = truth(problem, backend)
    found = {name: max_abs_error(arrays[name], true) for name, true in right.items() if name in taken}
    if right and not found:
        outputs = ", ".join(tensor.name for tensor in problem.outputs)
        raise ProblemError(f"No launch of the kernel takes an output ({outputs}). Name one among its args.")
    return found


@lru_cache(maxsize=1)
def truth(problem: Problem, backend: str) -> dict[str, np.ndarray]:
    """The problem's outputs in float64, from the GPU if it has the backend. A check needs them three times."""
    return problem.truth(on_gpu=backend == "gpu")
