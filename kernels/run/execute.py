"""One run, start to finish: limits, estimate, build, launch, compare with float64. Runs inside a worker process
(workers.py)."""

import datetime
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from kernels import build
from kernels.build import Build, Mode
from kernels.core.dtypes import element_type
from kernels.core.launch import Plan
from kernels.core.request import Request, Scope
from kernels.core.tensors import Initial, Role, Tensor
from kernels.core.tolerance import OutputError, max_abs_error, output_errors
from kernels.errors import ProblemError, TooLargeError
from kernels.run import backends
from kernels.run.backends import Device, recorded
from kernels.run.results import Estimate, Run, Traffic
from kernels.trace.probes import OUT_OF_RANGE, RECORD, sites_of
from kernels.trace.trace import RawRecords, decode

FIRST_CAPACITY = 1024  # records per thread to begin with; a run that needs more is repeated with what it needs
TRACE_BYTES = 256 * 2**20  # of raw records; past this the trace is cut, and says by how much
CPU_SECONDS_PER_STEP = 1e-8  # about what the project's 2-core machine takes, and only used to refuse runs
CPU_SECONDS = 60.0  # a longer run is refused on the CPU


# ---- before a run ----


def estimate(request: Request, device: Device) -> Estimate:
    """Bytes of the arrays, and on the CPU the seconds to execute it (0 elsewhere: a GPU needs too few to matter)."""
    array_bytes = sum(tensor.nbytes for tensor in request.plan.tensors)
    return Estimate(array_bytes, request.problem.cpu_steps * CPU_SECONDS_PER_STEP if device.backend == "cpu" else 0.0)


def check_possible(request: Request, device: Device) -> None:
    """Raises ProblemError with the reason if the request cannot run on the device, TooLargeError if it would not fit.

    Whether it fits the GPU's memory is asked in its worker (prepare), since this also runs in the web process, which
    makes no CUDA call.
    """
    reason = request.kernel.cannot_run(request.problem, request.constants, device)
    if reason:
        raise ProblemError(reason)
    request.scope.check(request.plan)
    if device.backend != "cpu":
        return
    seconds = estimate(request, device).seconds
    if seconds > CPU_SECONDS:
        raise TooLargeError(
            f"{request.kernel.name} at {request.problem.size} would take about {seconds:,.0f} s on the CPU "
            "(estimated); the limit is "
            f"{CPU_SECONDS:.0f} s. {request.problem.remedy[:-1]}, or a machine with a GPU."
        )
    check_fits(request, device)


def check_fits(request: Request, device: Device) -> None:
    """TooLargeError if the arrays and the trace do not fit in what the device has free now. Of a GPU only a worker may
    ask."""
    needed, free = estimate(request, device).array_bytes, backends.module(device.backend).free_bytes()
    if needed + TRACE_BYTES > free:
        raise TooLargeError(
            f"{request.kernel.name} at {request.problem.size} needs {needed / 2**30:.1f} GiB for its arrays and up to "
            f"{TRACE_BYTES / 2**30:.2f} for its trace; {device.name} has {free / 2**30:.1f} free. "
            f"{request.problem.remedy}"
        )


def prepare(request: Request, mode: Mode) -> tuple[Build, Plan, dict[str, np.ndarray]]:
    """What a launch needs: the build, the plan, and the arrays (start_arrays)."""
    device = backends.module(request.backend).device()
    check_possible(request, device)
    if device.backend == "gpu":
        check_fits(request, device)
    made = build.build(request.kernel, request.defines, mode, device.target)
    return made, request.plan, start_arrays(request)


def start_arrays(request: Request) -> dict[str, np.ndarray]:
    """tensor -> array as it is before a run: given by the problem, poisoned or zero. ProblemError if the problem gives
    another shape or type than its tensors() say."""
    given, arrays = request.problem.inputs(), {}
    for tensor in request.plan.tensors:
        if tensor.initial is not Initial.GIVEN:
            arrays[tensor.name] = tensor.fresh()
            continue
        array = given.get(tensor.name)
        if array is None or array.shape != tensor.shape or array.dtype != element_type(tensor.dtype).numpy:
            found = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise ProblemError(
                f"{type(request.problem).__name__}.inputs() gives {found} for the tensor {tensor.name}; its tensors() "
                f"say {tensor.dtype} "
                f"{tensor.shape}. Make them agree."
            )
        arrays[tensor.name] = np.ascontiguousarray(array)
    return arrays


# ---- a run ----


def run(request: Request) -> Run:
    """A Run of the probed build, its trace over the request's scope."""
    if request.backend == "recorded":
        return recorded.load(request)
    made, plan, arrays, raw = _launch_probed(request)
    label = backends.PROVENANCE[request.backend]
    device = backends.module(request.backend).device()
    date = datetime.date.today().isoformat()
    provenance = {
        "kernel": request.kernel.name,
        "code_hash": request.kernel.code_hash,
        "problem": json.dumps(asdict(request.problem)),
        "settings": json.dumps(request.constants),
        "scope": json.dumps(asdict(request.scope)),
        "build": made.mode.value,
        "backend": request.backend,
        "provenance": label,
        "device": device.name,
        "driver": device.driver,
        "compiler": made.compiler,
        "date": date,
    }
    trace = decode(raw, sites_of(request), provenance)
    kept = {tensor.name: arrays[tensor.name] for tensor in plan.tensors if tensor.role is not Role.SCRATCH}
    return Run(
        request,
        label,
        device.name,
        made.compiler,
        date,
        kept,
        trace,
        largest_errors(request.problem, arrays, request.backend),
    )


def run_timed_build(request: Request) -> dict[str, np.ndarray]:
    """The arrays that the timed build computes: what `check` compares, beside the probed build's."""
    made, plan, arrays = prepare(request, Mode.TIMED)
    backends.module(request.backend).launch(made, plan, arrays, request.scope)
    return arrays


def traffic(request: Request) -> Traffic:
    """The Traffic of every block of the run where that fits in memory, else of the request's scope."""
    if request.backend == "recorded":
        return recorded.load_traffic(request)
    _, plan, _, raw = _launch_probed(request)
    shares = [request.scope.range_of(launch.item, plan)[1] / launch.items for launch in plan.launches]
    whole = RECORD.itemsize * sum(int(r.counts.sum()) / share for r, share in zip(raw, shares)) < TRACE_BYTES
    if whole:
        _, _, _, everything = _launch_probed(replace(request, scope=Scope.everything(plan)))
        whole = not any(r.lost for r in everything)
    return Traffic(count_bytes(everything if whole else raw, request), whole)


def count_bytes(raw_records: Sequence[RawRecords], request: Request) -> pd.DataFrame:
    """Accesses and bytes by tensor, space and kind (the event, such as load), from raw records: a table without a row
    per access. Of a box by TMA what lies in the tensor counts; a bulk copy without a tensor map is all in it."""
    rows, sites = [], sites_of(request)
    for raw in raw_records:
        kept = np.arange(raw.records.shape[1]) < np.minimum(raw.counts, raw.records.shape[1])[:, None]
        place = sites.index_of_words(raw.records["site"][kept] & np.uint32(~OUT_OF_RANGE & 0xFFFFFFFF))
        for number, count in enumerate(np.bincount(place[place >= 0], minlength=len(sites))):
            site = sites[number]
            if count and site.space:
                size = int(count) * site.bytes
                if site.event == "tma":
                    tensor = request.plan.tensor(request.kernel.tensor_of_symbol[str(site.tensor)])
                    if request.plan.has_map(tensor):
                        size = _in_tensor(request.plan, tensor, raw.records["payload"][kept][place == number])
                rows.append((site.tensor, site.space, site.event, int(count), size))
    table = pd.DataFrame(rows, columns=["tensor", "space", "kind", "accesses", "bytes"])
    return table.groupby(["tensor", "space", "kind"], as_index=False).sum()


def _in_tensor(plan: Plan, tensor: Tensor, offsets: np.ndarray) -> int:
    """The bytes of boxes that lie in the tensor, whose first elements are at these byte offsets."""
    begin = np.unravel_index(offsets.astype(np.int64) // tensor.itemsize, tensor.shape)
    sides = [np.minimum(n, size - at) for at, n, size in zip(begin, plan.box_of(tensor), tensor.shape)]
    return int(np.prod(sides, axis=0).sum()) * tensor.itemsize


MOST_NEEDED = 256  # builds
_needed: OrderedDict[tuple, list[int]] = OrderedDict()
"""A build -> records per thread of each launch of its last run that needed more, of the last MOST_NEEDED builds."""


def _launch_probed(request: Request) -> tuple[Build, Plan, dict[str, np.ndarray], list[RawRecords]]:
    """Launches the probed build; a second time, from the start, with exact capacities if the first guess was short and
    the exact one fits; the next run of that build begins with those. On a CPU a what-if runs with copies that land as
    late as they may: a missing wait then shows."""
    made, plan, arrays = prepare(request, Mode.PROBED)
    backend = backends.module(request.backend)
    late = {"reversed_order": True} if request.backend == "cpu" and request.broken else {}
    threads = [request.scope.blocks(step, plan)[1] * step.threads for step in plan.launches]
    room = TRACE_BYTES // (RECORD.itemsize * sum(threads))  # records per thread, were all launches alike
    key = request.kernel.code_hash, tuple(request.defines.items())
    guess = [min(c, room) for c in _needed.get(key, [FIRST_CAPACITY] * len(threads))]
    raw = backend.launch(made, plan, arrays, request.scope, guess, **late)
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
            raw = backend.launch(made, plan, arrays, request.scope, exact, **late)
    return made, plan, arrays, raw


# ---- after a run ----


def yardstick(request: Request) -> dict[str, float]:
    """output -> the largest error of torch's own answer, in the same type, against float64: what `judge` goes by.

    Apart from `run`, because importing torch takes longer than running a small problem.
    """
    if request.backend == "recorded":
        return recorded.load_yardsticks(request)
    problem = request.problem
    return largest_errors(problem, problem.yardstick("cuda" if request.backend == "gpu" else "cpu"), request.backend)


def judge(
    max_abs_errors: Mapping[str, float], yardsticks: Mapping[str, float], problem: Any
) -> tuple[OutputError, ...]:
    """An OutputError for each output: its error, torch's, and what is allowed. tolerance.worst of them is the one
    number to show."""
    return output_errors(max_abs_errors, yardsticks, problem.largest_terms())


def largest_errors(problem: Any, arrays: Mapping[str, np.ndarray], backend: str = "cpu") -> dict[str, float]:
    """output -> its largest difference from float64, of the problem's outputs found by name in `arrays`."""
    return {name: max_abs_error(arrays[name], true) for name, true in truth(problem, backend).items()}


@lru_cache(maxsize=1)
def truth(problem: Any, backend: str) -> dict[str, np.ndarray]:
    """The problem's outputs in float64, on the GPU where there is one; a check asks for the same ones three times."""
    return problem.truth(on_gpu=backend == "gpu")
