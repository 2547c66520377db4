"""The verdict of Compare and its reasons: figures of the timed builds from their runs, in sentences with links."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from app.choices.links import read_link
from app.parts import running
from app.stories import pipeline
from app.stories.compare import choices, steps, timed
from app.stories.compare.timed import Row
from explainers.models import tiling
from explainers.stories.compare import compare_marks, compare_reasons, differences, pair_times, time_verdict
from explainers.stories.compare.compare_marks import Marked
from explainers.stories.compare.compare_reasons import Figures, Rates, Reason
from explainers.stories.compare.time_verdict import AsTimed, Verdict
from explainers.stories.memory_hierarchy import memory_levels
from explainers.story import picture, stage
from explainers.story.stage import Block
from kernels.build.occupancy import MACHINES, arch_named, occupancy
from kernels.catalog import current
from kernels.core.fields import write_value
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


def explained(pair: Pair, row: Row | None) -> Why:
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
    return compare_reasons.figures(running.run(request), traffic, held, build.times)


def _timed_build(pair: Pair, row: Row, side: int) -> _TimedBuild:
    """A side's timed build on its problem. If the problem is too large to run here, the build takes the smallest
    timed problem of both kernels that differs only in size. The scope is a tile in the middle, which stands for all."""
    backend = "gpu" if pair[0].backend == "gpu" else "cpu"
    whole = pair_times.problem_of(row, pair[0].problem.problem_type)
    problem = whole
    if whole.cpu_steps > STEPS[backend]:
        of_both = [p for p in timed.problems(pair[0]) if p in timed.problems(pair[1])]
        kinds = ("head_dim", "causal", "dtype")  # two problems that differ only in their size have the same
        alike = [p for p in of_both if all(p.bench_columns.get(k) == whole.bench_columns.get(k) for k in kinds)]
        problem = min(alike, key=lambda p: p.cpu_steps)
    settings = tuple(pair_times.settings_of(row, side).items())
    request = Request(pair[side].kernel, problem, settings, Scope(), backend)
    if tiling.accepts(request.kernel):
        middle = picture.tiles_of(request)[1] // 2
        request = Request(request.kernel, problem, settings, Scope(middle), backend)
    assert whole.work and problem.work
    return _TimedBuild(request, whole.work.flops / problem.work.flops)


def marked_of(pair: tuple[Request, Request], problem: Problem) -> Marked | None:
    """The recorded pipelines of two kernels on one problem, the nearest to this one. None without a common problem,
    or for two builds of one kernel."""
    a, b = (request.kernel.name for request in pair)
    if a == b:
        return None
    found = compare_marks.nearest(pipeline.of(a), pipeline.of(b), problem)
    if found is None:
        return None
    above, below = found
    return Marked(above.load(), below.load(), above.request.problem != problem)


def lead_of_marks(marked: Marked) -> list[Block]:
    """The weightiest sentences, with the way to both pipeline."""
    said = [compare_marks.tensor_cores_sentence(marked), compare_marks.phases_sentence(marked)]
    shown = [compare_marks.where_sentence(marked), *(one for one in said if one)]
    return [stage.text(one, links=[_link(marked)] if one is shown[-1] else ()) for one in shown]


def blocks_of_marks(marked: Marked) -> list[Block]:
    """The facts from the marks of both, and the limits of these facts."""
    said = [
        compare_marks.where_sentence(marked),
        compare_marks.tensor_cores_sentence(marked),
        compare_marks.phases_sentence(marked),
    ]
    return [
        stage.heading("Why, by the recorded pipelines of both"),
        *(stage.text(one) for one in said if one),
        stage.text(compare_marks.caveat(marked), marked.a.provenance, [_link(marked)]),
    ]


def _link(marked: Marked) -> Block:
    request = marked.a.request
    given = {"kernel": request.kernel.name, "beneath": marked.b.request.kernel.name, "backend": "recorded"}
    page = pipeline.STORY.page(current())
    state, _ = read_link(page, {"kernel": request.kernel.name})
    known = page.choices(state)
    named = {name: write_value(value) for name, value in pipeline.identity(request).items() if name in known}
    return stage.link("Both in Pipeline", "pipeline", {**given, **named})


MOST_LEADING = 2  # reasons under the verdict


def verdict(pair: Pair) -> Verdict:
    """Which side is faster. A run is needed only for a what-if build."""
    right = [not r.broken or differences.is_right(running.errors(running.run(r))) for r in pair]
    said, tone = differences.broken_sentence(pair, right), differences.broken_tone(pair, right)
    return time_verdict.verdict(timed.times(*pair), pair, said, timed.absent(*pair), tone, _effect_of_as_timed(pair))


def _effect_of_as_timed(pair: Pair) -> AsTimed | None:
    a, b = pair
    alone = list(choices.page(current()).solving(a.kernel)) == [a.kernel.name]
    if alone or a.backend == "recorded" or a.problem != b.problem:
        return None
    row, reason = timed.settable(a, b, a.backend)
    return time_verdict.as_timed(timed.of_page(a, b), row, reason, a.problem.problem_type)


def verdict_tab(pair: Pair) -> list[Block]:
    """Which side is faster, why, and the unexplained rest, all of the timed builds."""
    answer, both = verdict(pair), timed.times(*pair)
    blocks = [stage.note(answer.said, answer.tone)]
    if answer.details:
        blocks.append(stage.text(answer.details))
    if answer.row is None:
        return [*blocks, stage.text("Without a time this tab has no reasons. The next tab lists the differences.")]
    if said := time_verdict.range_sentence(both):
        blocks.append(stage.text(f"{said} The tab Times has every time."))
    try:
        return [*blocks, *_blocks(explained(pair, answer.row))]
    except WarpglassError as error:
        found = _marked(pair, answer.row)
        if not found:
            return [*blocks, stage.note(f"The reasons are not known here. {error}")]
        counted = f"Bytes and wavefronts are not counted here. {error}"
        return [*blocks, *blocks_of_marks(found), stage.note(counted)]


def lead(pair: Pair) -> list[Block]:
    """The problem of the reasons, as the bars show another one, and the weightiest reasons, each in a line."""
    row = verdict(pair).row
    try:
        why = explained(pair, row)
    except WarpglassError as error:
        found = _marked(pair, row)
        return lead_of_marks(found) if found else [stage.text(f"The reasons are not known here. {error}")]
    if not why.found:
        return [stage.text(f"No figure explains a faster {why.faster}.")]
    leading = enumerate(why.found[:MOST_LEADING], 1)
    problem = stage.text(f"The reasons at {pair_times.problem_said(why.row)}:")
    return [problem, *(_reason(reason.brief, number, reason, why) for number, reason in leading)]


def _marked(pair: Pair, row: Row | None) -> Marked | None:
    if row is None:
        return None
    try:
        return marked_of(pair, pair_times.problem_of(row, pair[0].problem.problem_type))
    except WarpglassError:  # a file that cannot be read
        return None


def _blocks(why: Why) -> list[Block]:
    run, row, faster = why.runs[0], why.row, why.faster
    scaled = ""
    if why.problem != run.request.problem:
        scaled = f" The figures are counted at {run.request.problem.size} and scaled by the multiply-adds."
    said = f"The time and all figures below are of the two builds above, on the timed problem.{scaled}"
    blocks = [stage.text(said)]
    if pair_times.is_even(row):
        title = f"The reasons for a faster {faster}: the weightiest first"
        title_against = f"The figures against {faster}"
    else:
        title = f"The reasons why {faster} is faster: the weightiest first"
        title_against = f"The figures against {faster}: no reasons"
    blocks.append(stage.heading(title if why.found else f"No figure explains a faster {faster}"))
    blocks += [_reason(reason.said, number, reason, why) for number, reason in enumerate(why.found, 1)]
    if why.against:
        blocks.append(stage.heading(title_against))
        blocks += [_reason(reason.said, number, reason, why) for number, reason in enumerate(why.against, 1)]
    percents = [(row.roof_percent, row.roof), (row.roof_percent_b, row.roof_b)]
    return [
        *blocks,
        stage.heading("The unexplained rest"),
        stage.text(compare_reasons.unexplained(why.figures, why.rates, why.times_us, percents)),
        stage.text(
            f"Bytes and wavefronts are {run.provenance} and derived. A least time is an amount over the measured rate "
            f"of {row.device} (Memory, Multiply-adds), so it is modelled. The weight of a reason is the slower build's "
            "least time minus the faster build's. Reasons without a time come last.",
            "modelled",
        ),
    ]


def _reason(said: str, number: int, reason: Reason, why: Why) -> Block:
    arch = arch_of(why.row)
    links = [steps.link(side, reason.what, run, why.problem, arch) for side, run in zip("AB", why.runs)]
    return stage.text(f"{number}. {said}", links=[link for link in links if link])
