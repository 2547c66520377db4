"""The recorded times of two builds, and the problem on which both were timed and can run here."""

import json
from functools import lru_cache

import pandas as pd

from app.choices import estimates
from explainers.stories.compare import pair_times
from explainers.stories.compare.pair_times import PairRow
from explainers.stories.timing import sweeps
from kernels.core.problem import Problem
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TooLargeError
from kernels.measure import bench, bench_rows, gradient_duels
from kernels.run import execute, workers
from kernels.run.backends import Device


def times(a: Request, b: Request) -> pd.DataFrame:
    """pair_times.times of two requests, from all recorded tables."""
    builds = tuple((request.kernel, tuple(request.constants.items())) for request in (a, b))
    return _times(builds, a.problem.problem_type)


@of_recordings(lru_cache(maxsize=256))
def _times(builds: tuple[tuple[KernelSpec, tuple[tuple[str, int], ...]], ...], kind: type[Problem]) -> pd.DataFrame:
    return pair_times.times(_recorded(), [Request(kernel, kind(), settings) for kernel, settings in builds])


@of_recordings(lru_cache(maxsize=1))
def _recorded() -> pd.DataFrame:
    nothing = bench_rows.table([]).assign(device="", date="", source="")
    tables = [sweeps.prepared(table, where, "recorded") for table, where in bench.recorded().values()]
    return pd.concat(tables, ignore_index=True) if tables else nothing


def absent(a: Request, b: Request) -> str:
    """The sentences that name the requests without a recorded time."""
    said, met = pair_times.absent(_recorded(), (a, b)), gradient_duels.recorded()
    duelled = met is not None and {a.kernel.name, b.kernel.name} <= set(met[0].name)
    return f"{said} How fast has duels of both with torch." if duelled else said


def of_page(a: Request, b: Request) -> PairRow | None:
    """pair_times.of_page of two requests."""
    return pair_times.of_page(times(a, b), a.problem)


def problems(request: Request) -> list[Problem]:
    """The problems of a request's kind on which its kernel has a time, with any constants."""
    own = _recorded()[lambda table: (table.name == request.kernel.name) & (table.status == "ok")]
    return [request.problem.problem_type(**json.loads(text)) for text in own.problem.drop_duplicates()]


def settable(a: Request, b: Request, backend: str) -> tuple[PairRow | None, str]:
    """The row for the choice As timed, and "": both have a time, its problem can run on the backend, and it is nearest
    to theirs. Or None and the reason."""
    both = times(a, b)
    if both.empty:
        return None, "no problem has a time of both"
    device = workers.survey().pick(backend)
    row = of_page(a, b)
    if row is None or not _runs(row, a, b, device):
        can_run = [_runs(each, a, b, device) for each in both.itertuples()]
        row = pair_times.nearest(both[can_run], a.problem)
    return row, "" if row is not None else "no problem that has a time of both can run here"


def _runs(row: PairRow, a: Request, b: Request, device: Device) -> bool:
    """Whether both builds of a row can run on a device, within the time of one stage."""
    problem = pair_times.problem_of(row, a.problem.problem_type)
    requests = [
        Request(request.kernel, problem, tuple(pair_times.settings_of(row, n).items()), backend=device.backend)
        for n, request in enumerate((a, b))
    ]
    return all(_possible(request, device) for request in requests) and estimates.fits(estimates.run(requests))


@lru_cache(maxsize=1024)
def _possible(request: Request, device: Device) -> bool:
    try:
        execute.check_possible(request, device)
    except (ProblemError, TooLargeError):
        return False
    return True
