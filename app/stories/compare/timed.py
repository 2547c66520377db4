"""The recorded times of two builds, and the problem on which both were timed and can run here."""

import json
from functools import lru_cache
from itertools import product

import pandas as pd

from app.choices import estimates
from explainers.stories.compare import pair_times, time_verdict
from explainers.stories.timing import sweeps
from kernels.core.problem import Problem
from kernels.core.remembered import of_recordings, remembered
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TooLargeError
from kernels.measure import bench, bench_rows, gradient_duels
from kernels.run import execute, workers
from kernels.run.backends import Device

Settings = tuple[tuple[str, int], ...]
Builds = tuple[tuple[KernelSpec, Settings], ...]
Row = pair_times.PairRow


def times(a: Request, b: Request) -> pd.DataFrame:
    """pair_times.times of two requests, from all recorded tables."""
    return _times(_builds(a, b), a.problem.problem_type)


def absent(a: Request, b: Request) -> str:
    """The sentences that name the requests without a recorded time."""
    said, met = time_verdict.absent(_recorded(), (a, b)), gradient_duels.recorded()
    duelled = met is not None and {a.kernel.name, b.kernel.name} <= set(met[0].name)
    return f"{said} How fast has duels of both with torch." if duelled else said


def of_page(a: Request, b: Request) -> Row | None:
    """pair_times.of_page of two requests."""
    return _of_page(_builds(a, b), a.problem)


def problems(request: Request) -> list[Problem]:
    """The problems of a request's kind on which its kernel has a time, with any constants."""
    own = _recorded()[lambda table: (table.name == request.kernel.name) & (table.status == "ok")]
    return [request.problem.problem_type(**json.loads(text)) for text in own.problem.drop_duplicates()]


def settable(a: Request, b: Request, backend: str) -> tuple[Row | None, str]:
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


def _builds(*requests: Request) -> Builds:
    """The builds of requests. Constants that were never timed count as one choice."""
    found = []
    for request in requests:
        settings, (known, untimed) = tuple(request.constants.items()), _timed_with(request.kernel)
        was_timed = untimed is None or bench_rows.settings_text(settings) in known
        found.append((request.kernel, settings if was_timed or untimed is None else untimed))
    return tuple(found)


@of_recordings(lru_cache(maxsize=64))
def _timed_with(kernel: KernelSpec) -> tuple[frozenset[str], Settings | None]:
    """The timed constants of a kernel, as texts of its table, and one other choice of constants, if there is one."""
    timed = frozenset(_recorded()[lambda table: table.name == kernel.name].settings)
    names = [constant.name for constant in kernel.constants]
    every = (tuple(zip(names, values)) for values in product(*(constant.values for constant in kernel.constants)))
    return timed, next((settings for settings in every if bench_rows.settings_text(settings) not in timed), None)


@of_recordings(remembered(256))
def _of_page(builds: Builds, problem: Problem) -> Row | None:
    return pair_times.of_page(_times(builds, problem.problem_type), problem)


@of_recordings(lru_cache(maxsize=256))
def _times(builds: Builds, kind: type[Problem]) -> pd.DataFrame:
    return pair_times.times(_recorded(), [Request(kernel, kind(), settings) for kernel, settings in builds])


@of_recordings(lru_cache(maxsize=1))
def _recorded() -> pd.DataFrame:
    tables = [sweeps.prepared(table, where, "recorded") for table, where in bench.recorded().values()]
    return (
        pd.concat(tables, ignore_index=True) if tables else bench_rows.table([]).assign(device="", date="", source="")
    )


def _runs(row: Row, a: Request, b: Request, device: Device) -> bool:
    """Whether both builds of a row can run on a device, within the time of one stage."""
    problem = pair_times.problem_of(row, a.problem.problem_type)
    requests = [
        Request(request.kernel, problem, tuple(pair_times.settings_of(row, number).items()), backend=device.backend)
        for number, request in enumerate((a, b))
    ]
    return all(_possible(request, device) for request in requests) and estimates.fits(estimates.run(requests))


@lru_cache(maxsize=1024)
def _possible(request: Request, device: Device) -> bool:
    try:
        execute.check_possible(request, device)
    except (ProblemError, TooLargeError):
        return False
    return True
