"""The backend of recorded runs: the files of kernels/recordings/data/runs as Runs."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernels.core.dtypes import element_type, widened
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.errors import BackendUnavailable, ProblemError, TraceError
from kernels.recordings import run_index
from kernels.run.backends import Device
from kernels.run.results import Run, Traffic

SHARED_MAX = 227 * 1024


@of_recordings(lru_cache)
def device() -> Device:
    """All recorded GPUs together. BackendUnavailable without a recording."""
    names = sorted({entry.device for entry in run_index.entries()})
    if not names:
        raise BackendUnavailable(
            " ".join(run_index.left_out())
            or "There are no recordings: kernels/recordings/data/runs/ is empty. Make some on a GPU with "
            "python -m kernels record."
        )
    return Device("recorded", ", ".join(names), "recorded", SHARED_MAX)


def load(request: Request) -> Run:
    """The recorded Run, its trace cut to the request's scope."""
    entry = run_index.find(request)
    outside = run_index.outside(entry, request)
    if outside:
        raise ProblemError(f"The recording on {entry.device} {outside}. Choose among those.")
    plan = request.plan
    trace = run_index.read_trace(entry, request)
    launch, block = (trace.table[name].to_numpy() for name in ("launch", "block"))
    first, count = np.array([request.scope.blocks(step, plan) for step in plan.launches])[launch].T
    trace = replace(trace, table=trace.table.filter(pa.array((first <= block) & (block < first + count))))
    held = run_index.read_outputs(entry)
    try:
        outputs = {
            tensor.name: held[tensor.name]
            .to_numpy(zero_copy_only=False)
            .astype(element_type(tensor.dtype).numpy)
            .reshape(tensor.shape)
            for tensor in request.problem.outputs
        }
    except (KeyError, ValueError) as error:
        raise TraceError(f"{entry.name} has not the outputs of its problem: {error}. {run_index.REMEDY}.") from None
    arrays = {**request.problem.inputs(), **outputs}
    return Run(request, "recorded", entry.device, entry.compiler, entry.date, arrays, trace, entry.errors)


def load_yardsticks(request: Request) -> dict[str, float]:
    return run_index.find(request).yardsticks


def load_traffic(request: Request) -> Traffic:
    entry = run_index.find(request)
    return Traffic(run_index.read_traffic(entry), entry.traffic_whole)


def save(run: Run, traffic: Traffic, yardsticks: Mapping[str, float], base: Path | None = None) -> Path:
    """Writes a recording of a Run, its Traffic and torch's errors on the same problem. Returns the file."""
    outputs = {t.name: pa.array(widened(run.arrays[t.name]).ravel()) for t in run.request.problem.outputs}
    return run_index.write(
        run.request,
        run.trace,
        outputs,
        traffic.table,
        base,
        device=run.device,
        driver=run.trace.provenance["driver"],
        compiler=run.compiler,
        date=run.date,
        errors=run.max_abs_errors,
        yardsticks=dict(yardsticks),
        traffic_whole=traffic.whole,
    )
