"""Nsight Compute's counters of timed builds, and the same counts derived from the probed builds' traces. Needs a GPU and ncu.

Not needed by any page: it is how kernels/memory.py is held against the hardware.
"""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import pandas as pd

from kernels import build, catalog, check, execute, memory, occupancy, tables
from kernels.backends import gpu
from kernels.build import Mode
from kernels.check import TILES
from kernels.errors import BackendUnavailable, RunError
from kernels.execute import Request, Scope
from kernels.lab import LAYOUTS, ColumnsProblem, GlobalProblem, TransposeProblem
from kernels.probes import READS
from kernels.problem import AttentionProblem

METRICS = {
    "wavefronts_load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "wavefronts_store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "sectors_load": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "sectors_store": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
OCCUPANCY = tables.FOLDER / "occupancy.csv"
NOISE_PERCENT = 1.0  # by how much a counter of many warps may be off: the profiler's, not the model's


def profile(requests, metrics=METRICS):
    """The counters of each launch of each request's timed build: a table of request (its place), launch, entry, and a column per metric.

    Raises BackendUnavailable without ncu, RunError if it fails, an output is wrong, or the counters may not be read.
    """
    ncu = shutil.which("ncu") or shutil.which("ncu", path=os.pathsep.join(
        str(Path(root) / "bin") for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root))
    if not ncu:
        raise BackendUnavailable("ncu, Nsight Compute's command line, was not found. Install it, or put it on PATH.")
    launches = [(number, at, launch.entry) for number, request in enumerate(requests) for at, launch in enumerate(request.plan.launches)]
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder, "requests.json")
        asked.write_text(json.dumps([{"kernel": r.kernel.name, "problem": asdict(r.problem), "settings": r.settings, "baseline": execute.baseline(r)}
                                     for r in requests]))
        entries = "|".join(sorted({entry for *_, entry in launches}))
        done = subprocess.run([ncu, "--csv", "--clock-control", "none", "--cache-control", "none", "--kernel-name", f"regex:^({entries})$",
                               "--metrics", ",".join(metrics.values()), sys.executable, "-m", "kernels.counters", str(asked)],
                              capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise RunError(f"ncu failed with exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    found = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        found.setdefault(int(row["ID"]), {})[row["Metric Name"]] = row["Metric Value"].replace(",", "")
    if len(found) != len(launches):
        raise RunError(f"ncu saw {len(found)} launches; {len(launches)} were made.")
    rows = [[*launch, *(float(found[key][metric]) for metric in metrics.values())] for launch, key in zip(launches, sorted(found))]
    return pd.DataFrame(rows, columns=["request", "launch", "entry", *metrics])


def derived(request):
    """The same counts per launch from the trace of the probed build, over the whole grid."""
    run = execute.run(replace(request, scope=Scope(0, request.plan.items)))
    if run.trace.lost:
        raise RunError(f"the trace of {request.kernel.name} at {request.problem.size} lost {run.trace.lost} records; choose a smaller problem")
    costs = memory.requests(run.trace).costs
    rows = []
    for at, launch in enumerate(request.plan.launches):
        part = costs[costs.launch == at]
        reads, writes = part.kind.isin(READS), part.kind == "store"
        rows.append((at, launch.entry, part.wavefronts[reads].sum(), part.wavefronts[writes].sum(), part.sectors[reads].sum(), part.sectors[writes].sum()))
    return pd.DataFrame(rows, columns=["launch", "entry", *METRICS])


def requests(names=()):
    """What `python -m kernels counters` compares: every setting of the lab, every layout, and the attention kernels with and without padding."""
    def ask(name, problem, settings=()):
        return Request(catalog.KERNELS[name], problem, tuple(settings.items()) if isinstance(settings, dict) else settings, backend="gpu")

    found = [ask("lab_columns", ColumnsProblem(), tile) for tile in TILES]
    found += [ask("lab_transpose", TransposeProblem(96, 64), tile) for tile in TILES]
    found += [ask("lab_global", GlobalProblem(layout, 16 if "paged" in layout else 4)) for layout in LAYOUTS]
    padding = [(name, c.name, pad) for name, spec in catalog.ATTENTION.items() for c in spec.constants if c.name.startswith("PAD") for pad in c.values]
    for (name, constant, pad), causal in product(padding, (False, True)):
        found += [ask(name, AttentionProblem(seq_len=n, head_dim=d, causal=causal), {constant: pad}) for n, d in ((64, 32), (100, 64), (48, 128))]
    found += [ask("01_naive", AttentionProblem(seq_len=100))]
    found += [ask(name, spec.problem_type()) for name, spec in catalog.KERNELS.items() if spec.family in ("paged", "cache")]
    return [request for request in found if not names or request.kernel.name in names]


def side_by_side(asked):
    """One row per request and launch: each count as derived and as counted, and their largest difference in per cent of the counted one."""
    counted, rows = profile(asked), []
    for number, request in enumerate(asked):
        for model, hardware in zip(derived(request).itertuples(), counted[counted.request == number].itertuples()):
            pairs = {name: (int(getattr(model, name)), int(getattr(hardware, name))) for name in METRICS}
            off = max(abs(a - b) / max(b, 1) for a, b in pairs.values())
            rows.append({"kernel": request.kernel.name, "launch": model.entry, "problem": request.problem.size,
                         "settings": " ".join(f"{k}={v}" for k, v in request.settings),
                         **{f"{name}_{who}": pair[n] for name, pair in pairs.items() for n, who in enumerate(("derived", "counted"))},
                         "off_percent": round(100 * off, 3)})
    return pd.DataFrame(rows)


def occupancies():
    """Blocks per multiprocessor of every launch of every kernel at three sizes, as kernels/occupancy.py derives them and as the driver says."""
    arch, rows = gpu.device().target, []
    for kernel in catalog.KERNELS.values():
        pairs = check.grid(kernel)
        for problem, settings in (pairs[0], pairs[len(pairs) // 2], pairs[-1]):
            for mode in (Mode.TIMED, Mode.PROBED):
                made = build.build(kernel, catalog.defines(problem, kernel.settings(settings)), mode, arch)
                plan = kernel.plan(problem, kernel.settings(settings))
                for launch, ours in zip(plan.launches, occupancy.occupancy(kernel, problem, settings, arch, mode)):
                    rows.append((kernel.name, launch.entry, mode.value, problem.size, launch.threads, ours.registers, ours.shared_bytes, ours.blocks,
                                 gpu.blocks_per_multiprocessor(made, launch)))
    return pd.DataFrame(rows, columns=["kernel", "launch", "build", "problem", "threads", "registers", "shared_bytes", "derived", "driver"])


def _launch(path):
    """Runs, under ncu, the timed build of every request in the file, and checks what it computed."""
    for entry in json.loads(Path(path).read_text()):
        kernel = catalog.find(entry["kernel"])
        request = Request(kernel, kernel.problem_type(**entry["problem"]), tuple(map(tuple, entry["settings"])), backend="gpu")
        error = execute.largest_error(request, execute.run_timed_build(request))
        if not execute.is_correct(error, entry["baseline"]):
            raise RunError(f"{kernel.name} at {request.problem} is wrong: its error is {error}, torch's {entry['baseline']}")


if __name__ == "__main__":
    _launch(sys.argv[1])
