"""Nsight Compute's counters of timed builds, and the same counts derived from the probed builds' traces. Needs a GPU
and ncu.

No page needs it. It compares trace/memory/model.py with the hardware. ncu runs `python -m kernels.measure.counters
FILE`."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from kernels import build, catalog
from kernels.build import Mode, occupancy
from kernels.core.cases import cases_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.errors import BackendUnavailable, RunError
from kernels.run import execute
from kernels.run.backends import gpu
from kernels.trace.kinds import KIND, KINDS
from kernels.trace.memory import traced

SECONDS = 1800.0  # for all runs under ncu
METRICS = {
    "wavefronts_load": KIND["shared_load"].metric,
    "wavefronts_store": KIND["shared_store"].metric,
    "sectors_load": KIND["global_load"].metric,
    "sectors_store": KIND["global_store"].metric,
}
OCCUPANCY = "occupancy"  # the kind of the table `occupancies` in kernels/recordings/data/
NOISE_PERCENT = 1.0  # by how much a counter of many warps may be off: the profiler's, not the model's


# ---- counters ----


def requests(kernels: Iterable[KernelSpec] = ()) -> list[Request]:
    """The requests of `python -m kernels counters`: the counter_cases of these kernels, or of all in the catalogue."""
    return [
        Request(kernel, case.problem, case.settings, backend="gpu")
        for kernel in list(kernels) or catalog.current().kernels.values()
        for case in cases_of(kernel, "counter_cases").possible
    ]


def side_by_side(asked: Sequence[Request]) -> pd.DataFrame:
    """One row per request and launch: each count as derived and as counted, and their largest difference in per cent of
    the counted one."""
    counted, rows = profile(asked), []
    for number, request in enumerate(asked):
        for made, hardware in zip(derived(request).itertuples(), counted[counted.request == number].itertuples()):
            pairs = {name: (int(getattr(made, name)), int(getattr(hardware, name))) for name in METRICS}
            row: dict[str, object] = {"kernel": request.kernel.name, "launch": made.entry}
            row |= {"problem": request.problem.size, "settings": " ".join(f"{k}={v}" for k, v in request.settings)}
            for name, (ours, theirs) in pairs.items():
                row |= {f"{name}_derived": ours, f"{name}_counted": theirs}
            off = max(abs(ours - theirs) / max(theirs, 1) for ours, theirs in pairs.values())
            rows.append({**row, "off_percent": round(100 * off, 3)})
    return pd.DataFrame(rows)


def derived(request: Request) -> pd.DataFrame:
    """The counts of METRICS per launch from the trace of the probed build, over every block: a table of launch, entry,
    and a column for each. RunError if the trace lost records."""
    plan = request.plan
    run = execute.run(replace(request, scope=Scope.everything(plan)))
    if run.trace.lost:
        raise RunError(
            f"The trace of {request.kernel.name} at {request.problem.size} lost {run.trace.lost} records. Choose a "
            "smaller problem."
        )
    costs = traced.requests(run.trace).costs
    rows: list[dict[str, object]] = [{"launch": at, "entry": launch.entry} for at, launch in enumerate(plan.launches)]
    for name, metric in METRICS.items():  # a counter is the sum of the costs of its kinds of access
        kinds = [kind for kind in KINDS if kind.metric == metric]
        space = kinds[0].space
        mine = costs[(costs.space == space) & costs.kind.isin([kind.event for kind in kinds])]
        for row in rows:
            cost = mine.loc[mine.launch == row["launch"], "wavefronts" if space == "shared" else "sectors"]
            row[name] = int(cost.sum())
    return pd.DataFrame(rows)


def profile(asked: Sequence[Request], metrics: Mapping[str, str] = METRICS) -> pd.DataFrame:
    """The counters of each launch of each request's timed build: a table of request (its place), launch, entry, and a
    column per metric. Raises BackendUnavailable without ncu, RunError if it fails, an output is wrong, or the counters
    may not be read."""
    launches = [
        (number, at, launch.entry)
        for number, request in enumerate(asked)
        for at, launch in enumerate(request.plan.launches)
    ]
    found: dict[int, dict[str, str]] = {}
    for row in csv.DictReader(io.StringIO(_run_ncu(asked, {entry for *_, entry in launches}, metrics.values()))):
        found.setdefault(int(row["ID"]), {})[row["Metric Name"]] = row["Metric Value"].replace(",", "")
    if len(found) != len(launches):
        raise RunError(f"ncu saw {len(found)} of {len(launches)} launches. Run the command again.")
    rows = [
        [*launch, *(float(found[key][metric]) for metric in metrics.values())]
        for launch, key in zip(launches, sorted(found))
    ]
    return pd.DataFrame(rows, columns=["request", "launch", "entry", *metrics])


def _run_ncu(asked: Sequence[Request], entries: set[str], metrics: Iterable[str]) -> str:
    """ncu's CSV for the launches of these entries. This module launches them in a process under ncu."""
    folders = [str(Path(root) / "bin") for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]
    ncu = shutil.which("ncu") or shutil.which("ncu", path=os.pathsep.join(folders))
    if not ncu:
        raise BackendUnavailable("ncu, Nsight Compute's command line, was not found. Install it, or put it on PATH.")
    options = ["--csv", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(metrics)]
    options += ["--kernel-name", f"regex:^({'|'.join(sorted(entries))})$"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requests.json")
        # the yardsticks go with a request, because torch's own launches are not to be under ncu
        given = [
            {
                "kernel": str(request.kernel.path),
                "problem": asdict(request.problem),
                "settings": request.settings,
                "yardsticks": execute.yardstick(request),
            }
            for request in asked
        ]
        file.write_text(json.dumps(given))
        try:
            done = subprocess.run(
                [ncu, *options, sys.executable, "-m", __name__, str(file)],
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
                cwd=Path(__file__).parents[__name__.count(".")],
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"ncu did not end within {SECONDS:g} s. Ask for fewer kernels.") from None
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise RunError(f"ncu failed with exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout[start:]


# ---- the program under ncu ----


def _launch(path: str) -> None:
    """Runs the timed build of every request in the file, and checks its outputs."""
    for entry in json.loads(Path(path).read_text()):
        kernel = catalog.find(entry["kernel"])
        problem = kernel.problem_type(**entry["problem"])
        request = Request(kernel, problem, tuple(map(tuple, entry["settings"])), backend="gpu")
        errors = execute.largest_errors(problem, execute.run_timed_build(request), "gpu")
        found = worst(execute.judge(errors, entry["yardsticks"], problem))
        if not found.ok:
            raise RunError(
                f"{kernel.name} at {problem} is wrong: the error of {found.output} is {found.largest}, and "
                f"{found.allowed} is allowed."
            )


# ---- occupancy ----


def occupancies() -> pd.DataFrame:
    """Blocks per multiprocessor of every launch of every kernel at three sizes, as build/occupancy.py derives them and
    as the driver of this GPU says."""
    arch = gpu.device().target
    columns = ["kernel", "launch", "build", "problem", "threads", "registers", "shared_bytes", "derived", "driver"]
    rows = []
    for kernel in catalog.current().kernels.values():
        cases = cases_of(kernel, "check_cases").possible
        for case in (cases[0], cases[len(cases) // 2], cases[-1]):
            request = Request(kernel, case.problem, case.settings, backend="gpu")
            for mode in (Mode.TIMED, Mode.PROBED):
                made = build.build(kernel, request.defines, mode, arch)
                ours = occupancy.occupancy(kernel, case.problem, case.settings, arch, mode)
                for launch, own in zip(request.plan.launches, ours):
                    row = (kernel.name, launch.entry, mode.value, case.problem.size, launch.threads, own.registers)
                    driver = gpu.blocks_per_multiprocessor(made, launch)
                    rows.append((*row, own.shared_bytes, own.blocks, driver))
    return pd.DataFrame(rows, columns=columns)


if __name__ == "__main__":
    _launch(sys.argv[1])
