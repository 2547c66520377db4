"""The reasons for the faster side of Compare: figures of the timed builds, from their runs."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from app.parts import running
from app.stories.compare import timed
from app.stories.compare.timed import Row
from explainers.models import tiling
from explainers.stories.compare import build_needs, compare_reasons, pair_times
from explainers.stories.compare.build_needs import Figures, Rates
from explainers.stories.compare.compare_reasons import Reason
from explainers.stories.memory_hierarchy import memory_levels
from explainers.story import picture
from kernels.build.occupancy import MACHINES, arch_named, occupancy
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import bench, bench_rows
from kernels.measure.hierarchy import recorded as recorded_hierarchy
from kernels.run.results import Run

Pair = tuple[Request, Request]
STEPS = {"cpu": 2e7, "gpu": 3e8}  # the most multiply-adds of a run that only gives figures


@dataclass(frozen=True)
class Why:
    """The reasons for the ratio of a row of times.

    rates: of the GPU on which the row was timed.
    figures, runs: of the timed builds, one for each side.
    found: the reasons for the faster side, the weightiest first.
    against: the reasons for the slower side.
    """

    row: Row
    rates: Rates
    figures: list[Figures]
    runs: list[Run]
    found: list[Reason]
    against: list[Reason]

    @property
    def times_us(self) -> tuple[float, float]:
        return self.row.median_us, self.row.median_us_b

    @property
    def faster(self) -> str:
        return "AB"[self.row.ratio >= 1]

    @property
    def problem(self) -> Problem:
        """The timed problem."""
        return pair_times.problem_of(self.row, self.runs[0].request.problem.problem_type)


def why(pair: Pair, row: Row | None) -> Why:
    """The reasons for a row's ratio. Raises WarpglassError if they are not known."""
    if row is None:
        raise ProblemError("No two of their builds were timed on one problem.")
    if not pair[0].problem.work:
        raise ProblemError("This problem counts no multiply-adds. The tab Differences compares the figures.")
    rates = _rates(pair, row)
    if rates is None:
        raise ProblemError(f"The rates or the limits of {row.device} are not known.")
    builds = [_timed_build(pair, row, side) for side in (0, 1)]
    whole = pair_times.problem_of(row, pair[0].problem.problem_type)
    figures = [_figures(build, whole, arch_of(row)) for build in builds]
    runs = [running.run(build.request) for build in builds]
    return Why(row, rates, figures, runs, *compare_reasons.reasons(figures, rates, (row.median_us, row.median_us_b)))


def arch_of(row: Row) -> str:
    """The architecture of the timed builds."""
    arch = arch_named(row.device)
    return f"{arch}a" if arch == "sm_90" else arch


def _rates(pair: Pair, row: Row) -> Rates | None:
    """The rates of the row's GPU, if they are recorded."""
    where = {provenance.device: provenance for _, provenance in bench.recorded().values()}.get(row.device)
    machine = MACHINES.get(arch_named(row.device))
    with suppress(WarpglassError):
        levels = memory_levels.plateaus(recorded_hierarchy(row.device).table).set_index("level")["GB/s"]
        if where and machine:
            products = [request.kernel.tensor_products for request in pair]
            titles = [bench_rows.arithmetic_title(product) for product in products]
            roofs = bench_rows.arithmetic_roofs(where.roofs, products)
            a, b = ((title, 1e12 * roofs[title]) for title in titles)
            shared, l2 = 1e9 * levels["Shared memory"], 1e9 * levels["L2 cache"]
            return Rates(shared, l2, (a, b), machine.multiprocessors, machine.warps)
    return None


@dataclass(frozen=True)
class _TimedBuild:
    """A side's timed build, on the problem that gives its figures.

    times: how many times more multiply-adds the timed problem has.
    """

    request: Request
    times: float


@lru_cache(maxsize=64)
def _figures(build: _TimedBuild, whole: Problem, arch: str) -> Figures:
    """The figures of a timed build.

    whole: the timed problem.
    """
    request = build.request
    traffic = None if tiling.accepts(request.kernel) else running.traffic(request)
    held = occupancy(request.kernel, whole, request.settings, arch)
    return build_needs.figures(running.run(request), traffic, held, build.times)


def _timed_build(pair: Pair, row: Row, side: int) -> _TimedBuild:
    """A side's timed build on its problem. If the problem is too large to run here, the build takes the smallest
    timed problem of both kernels that differs only in size. The scope is a tile in the middle, which stands for all."""
    backend = "gpu" if pair[0].backend == "gpu" else "cpu"
    whole = pair_times.problem_of(row, pair[0].problem.problem_type)
    problem = whole
    if whole.cpu_steps > STEPS[backend]:
        of_both = [p for p in timed.problems(pair[0]) if p in timed.problems(pair[1])]
        problem = min((p for p in of_both if _alike(p, whole)), key=lambda p: p.cpu_steps)
    settings = tuple(pair_times.settings_of(row, side).items())
    request = Request(pair[side].kernel, problem, settings, Scope(), backend)
    if tiling.accepts(request.kernel):
        middle = picture.tiles_of(request)[1] // 2
        request = Request(request.kernel, problem, settings, Scope(middle), backend)
    assert whole.work and problem.work
    return _TimedBuild(request, whole.work.flops / problem.work.flops)


def _alike(a: Problem, b: Problem) -> bool:
    """Whether two problems differ only in their size."""
    kinds = ("head_dim", "causal", "dtype")
    return [a.bench_columns.get(name) for name in kinds] == [b.bench_columns.get(name) for name in kinds]
