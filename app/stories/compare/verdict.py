"""The verdict of Compare and its reasons: figures of the timed builds from their runs, in sentences. A link leads from
each reason to its story, at the right step."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from app.choices.links import read_link
from app.parts import running
from app.parts.story import Story
from app.stories import any_kernel, bank_conflicts, occupancy, pipeline, registers, tiling
from app.stories.compare import choices, timed
from explainers.models import generic, memory_levels
from explainers.models import tiling as tiles
from explainers.stories.bank_conflicts import bank_walk, padding
from explainers.stories.compare import differences, pair_times
from explainers.stories.compare import reasons as why_of
from explainers.stories.compare.pair_times import SIDES, WORDS, PairRow, Verdict
from explainers.stories.compare.reasons import Figures, Marked, Rates, Reason
from explainers.story import picture, stage
from explainers.story.stage import Block
from kernels.build.occupancy import MACHINES, arch_named, limits, machine
from kernels.build.occupancy import occupancy as occupancy_of
from kernels.build.product import DEFAULT_ARCH
from kernels.catalog import current
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import bench, bench_rows
from kernels.measure.hierarchy import recorded as recorded_hierarchy
from kernels.run.results import Run
from kernels.trace.memory import traced

Pair = tuple[Request, Request]
STEPS = {"cpu": 2e7, "gpu": 3e8}  # the most multiply-adds of a run that only gives figures
MOST_LEADING = 2  # reasons under the verdict


def verdict(pair: Pair) -> Verdict:
    """Which side is faster. A run is needed only for a what-if build."""
    a, b = pair
    right = [not r.broken or differences.is_right(running.errors(running.run(r))) for r in pair]
    broken, tone = differences.broken_sentence(pair, right), differences.broken_tone(pair, right)
    alone, sets = list(choices.page(current()).solving(a.kernel)) == [a.kernel.name], ""
    if not alone and a.backend != "recorded" and a.problem == b.problem:
        row, off = timed.settable(a, b, a.backend)
        sets = pair_times.as_timed(timed.of_page(a, b), row, off, a.problem.problem_type)
    return pair_times.verdict(timed.times(a, b), pair, broken, timed.absent(a, b), tone, sets)


def verdict_tab(pair: Pair) -> list[Block]:
    """Which side is faster, why, and the unexplained rest, all of the timed builds."""
    answer, both = verdict(pair), timed.times(*pair)
    blocks = [stage.note(answer.said, answer.tone)]
    if answer.row is None:
        return [*blocks, stage.text("Without a time this tab has no reasons. The next tab lists the differences.")]
    blocks.append(stage.text(answer.details))
    if len(both) > 1:
        ends = WORDS.say("range", pair_times.range_of(both))
        blocks.append(stage.text(f"{ends} The tab Times has every time."))
    try:
        return [*blocks, *_blocks(explained(pair, answer.row))]
    except WarpglassError as error:
        marked = _marked(pair, answer.row)
        if not marked:
            return [*blocks, stage.note(f"The reasons are not known here. {error}")]
        *said, limits = why_of.marked_sentences(marked)
        return [
            *blocks,
            stage.heading("Why, by the recorded pipelines of both"),
            *map(stage.text, said),
            stage.text(limits, marked.a.provenance, [_link_to_both(marked)]),
            stage.note(f"Bytes and wavefronts are not counted here. {error}"),
        ]


def lead(pair: Pair) -> list[Block]:
    """The problem of the reasons, as the bars show another one, and the weightiest reasons, each in a line."""
    row = verdict(pair).row
    try:
        why = explained(pair, row)
    except WarpglassError as error:
        marked = _marked(pair, row)
        if not marked:
            return [stage.text(f"The reasons are not known here. {error}")]
        *first, last = why_of.marked_sentences(marked)[:-1]
        return [*map(stage.text, first), stage.text(last, links=[_link_to_both(marked)])]
    if not why.found:
        return [stage.text(f"No figure explains a faster {why.faster}.")]
    leading = enumerate(why.found[:MOST_LEADING], 1)
    problem = stage.text(f"The reasons at {pair_times.problem_said(why.row)}:")
    return [problem, *(_reason(reason.brief, number, reason, why) for number, reason in leading)]


# ---- by counts ----


@dataclass(frozen=True)
class Why:
    """The reasons for the ratio of a row of times.

    rates: of the GPU on which the row was timed.
    figures, runs: of the timed builds, one for each side.
    found, against: the reasons for the faster and for the slower side, the weightiest first.
    """

    row: PairRow
    rates: Rates
    figures: list[Figures]
    runs: list[Run]
    found: list[Reason]
    against: list[Reason]

    @property
    def faster(self) -> str:
        return SIDES[self.row.ratio >= 1]

    @property
    def problem(self) -> Problem:
        """The timed problem."""
        return pair_times.problem_of(self.row, self.runs[0].request.problem.problem_type)


def explained(pair: Pair, row: PairRow | None) -> Why:
    """The reasons for a row's ratio. Raises WarpglassError if they are not known."""
    if row is None:
        raise ProblemError("No two of their builds were timed on one problem.")
    if not pair[0].problem.work:
        raise ProblemError("This problem counts no multiply-adds. The tab Differences compares the figures.")
    rates = _rates(pair, row)
    if rates is None:
        raise ProblemError(f"The rates or the limits of {row.device} are not known.")
    whole = pair_times.problem_of(row, pair[0].problem.problem_type)
    builds = [_timed_build(pair, row, side, whole) for side in (0, 1)]
    figures = [_figures(build, whole, arch_of(row)) for build in builds]
    found = why_of.reasons(figures, rates, (row.median_us, row.median_us_b))
    return Why(row, rates, figures, [running.run(build) for build in builds], *found)


def arch_of(row: PairRow) -> str:
    """The architecture of the timed builds."""
    arch = arch_named(row.device)
    return f"{arch}a" if arch == "sm_90" else arch


def _rates(pair: Pair, row: PairRow) -> Rates | None:
    where = {provenance.device: provenance for _, provenance in bench.recorded().values()}.get(row.device)
    gpu = MACHINES.get(arch_named(row.device))
    with suppress(WarpglassError):
        levels = memory_levels.plateaus(recorded_hierarchy(row.device).table).set_index("level")["GB/s"]
        if where and gpu:
            products = [request.kernel.tensor_products for request in pair]
            roofs = bench_rows.arithmetic_roofs(where.roofs, products)
            a, b = ((title, 1e12 * roofs[title]) for title in map(bench_rows.arithmetic_title, products))
            shared, l2 = 1e9 * levels["Shared memory"], 1e9 * levels["L2 cache"]
            return Rates(shared, l2, (a, b), gpu.multiprocessors, gpu.warps)
    return None


@lru_cache(maxsize=64)
def _figures(build: Request, whole: Problem, arch: str) -> Figures:
    """The figures of a timed build. whole: the timed problem."""
    traffic = None if tiles.accepts(build.kernel) else running.traffic(build)
    held = occupancy_of(build.kernel, whole, build.settings, arch)
    assert whole.work and build.problem.work  # `explained` refuses a problem without
    return why_of.figures(running.run(build), traffic, held, whole.work.flops / build.problem.work.flops)


def _timed_build(pair: Pair, row: PairRow, side: int, whole: Problem) -> Request:
    """A side's timed build on its problem. If the problem is too large to run here, the build takes the smallest
    timed problem of both kernels that differs only in size. The scope is a tile in the middle, which stands for all."""
    backend = "gpu" if pair[0].backend == "gpu" else "cpu"
    problem = whole
    if whole.cpu_steps > STEPS[backend]:
        of_both = [p for p in timed.problems(pair[0]) if p in timed.problems(pair[1])]
        kinds = ("head_dim", "causal", "dtype")  # two problems that differ only in their size have the same
        alike = [p for p in of_both if all(p.bench_columns.get(k) == whole.bench_columns.get(k) for k in kinds)]
        problem = min(alike, key=lambda p: p.cpu_steps)
    settings = tuple(pair_times.settings_of(row, side).items())
    request = Request(pair[side].kernel, problem, settings, Scope(), backend)
    if not tiles.accepts(request.kernel):
        return request
    return Request(request.kernel, problem, settings, Scope(picture.tiles_of(request)[1] // 2), backend)


def _blocks(why: Why) -> list[Block]:
    run, row, faster, even = why.runs[0], why.row, why.faster, pair_times.is_even(why.row)
    scaled = "" if why.problem == run.request.problem else run.request.problem.size
    title = f"The reasons {f'for a faster {faster}' if even else f'why {faster} is faster'}: the weightiest first"
    blocks = [stage.text(WORDS.say("reasons_of", {"size": scaled}))]
    blocks.append(stage.heading(title if why.found else f"No figure explains a faster {faster}"))
    blocks += [_reason(reason.said, number, reason, why) for number, reason in enumerate(why.found, 1)]
    if why.against:
        blocks.append(stage.heading(f"The figures against {faster}{'' if even else ': no reasons'}"))
        blocks += [_reason(reason.said, number, reason, why) for number, reason in enumerate(why.against, 1)]
    percents = [(row.roof_percent, row.roof), (row.roof_percent_b, row.roof_b)]
    rest = why_of.unexplained(why.figures, why.rates, (row.median_us, row.median_us_b), percents)
    method = WORDS.say("method", {"provenance": run.provenance, "device": row.device})
    return [*blocks, stage.heading("The unexplained rest"), stage.text(rest), stage.text(method, "modelled")]


def _reason(said: str, number: int, reason: Reason, why: Why) -> Block:
    links = [_link(side, reason.what, run, why) for side, run in zip(SIDES, why.runs)]
    return stage.text(f"{number}. {said}", links=[link for link in links if link])


# ---- links from a reason to its story ----


class Shown(NamedTuple):
    """The picture of a reason.

    story: with the picture.
    opened: the choices and the tab to open.
    step: run -> the step of the picture.
    of_timed: whether the story shows the timed problem, in place of the run's problem.
    """

    story: Story
    opened: dict[str, str]
    step: Callable[[Run], int]
    of_timed: bool = False


def _link(side: str, what: str, run: Run, why: Why) -> Block | None:
    """The link from a side's build to the story of a reason. None for a kernel without this story."""
    shown, request = SHOWN_BY[what], run.request
    page = shown.story.page(current())
    if request.kernel.name not in page.kernels:
        return None
    problem, first = why.problem if shown.of_timed else request.problem, request.scope.first
    chosen = {"kernel": request.kernel.name, **problem.values(), **request.constants}
    chosen |= {"at_item": first, "at_tile": first, "arch": arch_of(why.row)}
    if what == "wavefronts":
        chosen["line"] = "{}:{}".format(*_costly_line(request))
    state, _ = read_link(page, {"kernel": request.kernel.name})
    query = {name: write_value(value) for name, value in chosen.items() if name in page.choices(state)}
    step = str(1 + _step_of(what, request))
    return stage.link(f"{side} in {shown.story.title}", shown.story.path, {**query, **shown.opened, "step": step})


@lru_cache(maxsize=64)
def _step_of(what: str, request: Request) -> int:
    return SHOWN_BY[what].step(running.run(request))


def _largest(amounts: Sequence[float]) -> int:
    """The first place of the largest amount, or 0."""
    return max(range(len(amounts)), key=lambda n: amounts[n], default=0)


def _step_of_bytes(run: Run) -> int:
    """The step that moves most bytes."""
    moved = [sum(frame["bytes"].values()) for frame in tiles.explain(run).frames]
    return _largest([now - before for before, now in zip([0, *moved], moved)])


def _step_of_wavefronts(run: Run) -> int:
    """The first step of the access with most wavefronts, on the most expensive line. Each wavefront is a step. A
    build with remedies has the build without them next to it."""
    sides = padding.before_and_after(run.request)
    shown = sides[:1] if sides[0] == run.request else sides  # a remedy takes no more wavefronts
    runs = [running.run(request) for request in shown]
    accesses = [frame["access"] for frame in bank_walk.explain(runs, _costly_line(run.request)).frames]
    return _largest([accesses.count(access) for access in accesses])


@lru_cache(maxsize=64)
def _costly_line(request: Request) -> traced.Place:
    """File and line of the probe with most wavefronts in shared memory."""
    costs = traced.requests(running.run(request).trace, space="shared").costs
    file, line = costs.groupby(["file", "line"], observed=True).wavefronts.sum().idxmax()
    return traced.Place(str(file), int(line))


def _step_of_scores(run: Run) -> int:
    return _largest([frame["phase"] == "scores" for frame in tiles.explain(run).frames])


def _step_of_limits(run: Run) -> int:
    """The step of the first launch after the steps of its single resources: the blocks that they allow together."""
    return len(limits(32, 32, 0, machine(DEFAULT_ARCH)))


def _step_of_launches(run: Run) -> int:
    return _largest([frame["launch"] for frame in generic.explain(run).frames])


SHOWN_BY = {
    "wavefronts": Shown(bank_conflicts.STORY, {"view": "attention"}, _step_of_wavefronts),
    "bytes": Shown(tiling.STORY, {"tab": "bytes"}, _step_of_bytes),
    "arithmetic": Shown(registers.STORY, {}, _step_of_scores),
    "multiprocessors": Shown(occupancy.STORY, {}, _step_of_limits, of_timed=True),
    "warps": Shown(occupancy.STORY, {}, _step_of_limits, of_timed=True),
    "launches": Shown(any_kernel.STORY, {}, _step_of_launches),
}


# ---- by the recorded pipelines ----


def _marked(pair: Pair, row: PairRow | None) -> Marked | None:
    if row is None:
        return None
    with suppress(WarpglassError):  # a file that cannot be read
        return marked_of(pair, pair_times.problem_of(row, pair[0].problem.problem_type))
    return None


def marked_of(pair: Pair, problem: Problem) -> Marked | None:
    """The recorded pipelines of two kernels on one problem, the nearest to this one. None without a common problem,
    or for two builds of one kernel."""
    a, b = (request.kernel.name for request in pair)
    found = why_of.nearest(pipeline.of(a), pipeline.of(b), problem) if a != b else None
    return found and Marked(found[0].load(), found[1].load(), found[0].request.problem != problem)


def _link_to_both(marked: Marked) -> Block:
    request = marked.a.request
    given = {"kernel": request.kernel.name, "beneath": marked.b.request.kernel.name, "backend": "recorded"}
    page = pipeline.STORY.page(current())
    known = page.choices(read_link(page, {"kernel": request.kernel.name})[0])
    named = {name: write_value(value) for name, value in pipeline.identity(request).items() if name in known}
    return stage.link("Both in Tensor cores", "pipeline", {**given, **named})
