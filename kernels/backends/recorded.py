"""Runs recorded on named GPUs: Parquet and JSON in kernels/recordings/, one folder per run.

A folder holds recording.json (kernel, problem, settings, scope, device, compiler, date, errors), trace.parquet (of that scope),
outputs.parquet (the problem's outputs, flat) and traffic.parquet. Inputs are made again from the problem's seed.
"""

import hashlib
import json
import re
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kernels.backends import Device
from kernels.errors import BackendUnavailable, ProblemError, TraceError
from kernels.trace import Trace

FOLDER = Path(__file__).parent.parent / "recordings"
LONGEST_NAME = 150  # a longer folder name is cut to a hash


@lru_cache
def device():
    names = sorted({entry["device"] for entry in index().values()})
    if not names:
        raise BackendUnavailable("There are no recordings: kernels/recordings/ is empty. Make some on a GPU with python -m kernels record.")
    return Device("recorded", ", ".join(names), "recorded", 227 * 1024, 0)


@lru_cache
def index():
    """Folder -> its recording.json, for every recording that can be read."""
    found = {}
    for path in sorted(FOLDER.glob("*/recording.json")):
        try:
            found[path.parent] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise TraceError(f"{path.parent.name}/recording.json cannot be read: {error}") from None
    return found


def of(kernel):
    """The recording.json of every recording of a KernelSpec's present source."""
    return [entry for entry in index().values() if entry["kernel"] == kernel.name and entry["source_hash"] == kernel.source_hash]


def find(request):
    """The folder of the recording that answers the request; ProblemError with the recorded problems if there is none."""
    wanted = identity(request)
    for folder, entry in index().items():
        if {key: entry[key] for key in wanted} == wanted:
            return folder
    same = [entry for entry in index().values() if entry["kernel"] == request.kernel.name]
    have = "; ".join(dict.fromkeys(_brief(entry) for entry in same)) or "none"
    raise ProblemError(f"No recording of {request.kernel.name} has this source, this problem and these constants. Recorded: {have}.")


def load(request):
    """The recorded Run, its trace cut to the request's scope."""
    from kernels.execute import Run

    folder = find(request)
    entry = index()[folder]
    have, wanted, item = entry["scope"], request.scope, request.problem.item
    if not have["first"] <= wanted.first <= wanted.first + wanted.count <= have["first"] + have["count"]:
        raise ProblemError(f"The recording on {entry['device']} traced {item}s {have['first']} to {have['first'] + have['count'] - 1}; "
                           f"{item}s {wanted.first} to {wanted.first + wanted.count - 1} were asked for. Choose among those.")
    trace = Trace.load(folder / "trace.parquet")
    launch, block = (trace.table[name].to_numpy() for name in ("launch", "block"))
    first, count = np.array([request.scope.blocks(step) for step in request.plan.launches])[launch].T
    trace = replace(trace, table=trace.table.filter(pa.array((first <= block) & (block < first + count))))
    table, shapes = pq.read_table(folder / "outputs.parquet"), request.plan.written
    outputs = {name: table[name].to_numpy().reshape(shapes[name]) for name in table.column_names}
    return Run(request, "recorded", entry["device"], entry["compiler"], entry["date"], {**request.problem.inputs(), **outputs}, trace, entry["max_abs_error"])


def load_baseline(request):
    """torch's error on the GPU of the recording."""
    return index()[find(request)]["baseline_max_abs_error"]


def load_traffic(request):
    from kernels.execute import Traffic

    folder = find(request)
    return Traffic(pd.read_parquet(folder / "traffic.parquet"), index()[folder]["traffic_whole"])


def save(run, traffic, baseline, base=FOLDER):
    """Writes a recording of a Run, its Traffic and torch's error on the same problem; returns its folder."""
    request = run.request
    name = re.sub(r"[^\w.-]", "", "-".join([request.kernel.name, *(f"{key}{value}" for key, value in asdict(request.problem).items()),
                                           *(f"{key}{value}" for key, value in request.settings)]))
    folder = Path(base) / (name if len(name) <= LONGEST_NAME else f"{request.kernel.name}-{hashlib.sha256(name.encode()).hexdigest()[:16]}")
    folder.mkdir(parents=True, exist_ok=True)
    run.trace.save(folder / "trace.parquet")
    pq.write_table(pa.table({name: run.arrays[name].ravel() for name in request.problem.outputs}), folder / "outputs.parquet", compression="zstd")
    traffic.table.to_parquet(folder / "traffic.parquet", compression="zstd")
    entry = {**identity(request), "scope": asdict(request.scope), "device": run.device, "driver": run.trace.provenance["driver"],
             "compiler": run.compiler, "date": run.date, "max_abs_error": run.max_abs_error,
             "baseline_max_abs_error": baseline, "traffic_whole": traffic.whole}
    (folder / "recording.json").write_text(json.dumps(entry, indent=1) + "\n")
    return folder


def identity(request):
    problem = json.loads(json.dumps(asdict(request.problem)))  # tuples as lists, as a recording.json gives them
    return {"kernel": request.kernel.name, "source_hash": request.kernel.source_hash, "problem": problem, "settings": request.constants}


def _brief(entry):
    problem = ", ".join(f"{key} {value}" for key, value in entry["problem"].items() if len(str(value)) < 40)
    changed = ", ".join(f"{key} {value}" for key, value in entry["settings"].items())
    return f"{problem}, {changed}"
