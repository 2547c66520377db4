"""Compare: two kernels, or two builds of one, on the same inputs under one clock: who is faster, why, and what differs
in steps, code, bytes, conflicts and outputs."""

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pandas as pd

from app.choices import State, compared, estimates
from app.choices.pages import COMPARE
from app.parts import marked, running, tabs
from app.parts.story import Story
from explainers.stories.any_kernel import generic
from explainers.stories.bank_conflicts import bank_walk, padding
from explainers.stories.compare import (
    build_needs,
    compare_reasons,
    compare_times,
    differences,
    output_gap,
    pair_questions,
    pair_times,
    source_diff,
    time_verdict,
    two_kernels,
)
from explainers.stories.compare.build_needs import Figures, Rates
from explainers.stories.compare.compare_marks import Marked
from explainers.stories.compare.compare_reasons import Reason
from explainers.stories.compare.time_verdict import Verdict
from explainers.stories.memory_hierarchy import memory_levels
from explainers.stories.tiling import tiling
from explainers.stories.timing import sweep_search
from explainers.story import picture, stage
from explainers.story.stage import Block, Stage, Tab
from kernels.build import inspection
from kernels.build.occupancy import MACHINES, arch_named, occupancy
from kernels.core.fields import write_value
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import bench, protocol, rows
from kernels.measure.hierarchy import recorded as recorded_hierarchy
from kernels.recordings.tables import Provenance
from kernels.run.results import Run
from kernels.trace.memory import model

Pair = tuple[Request, Request]
STEPS = {"cpu": 2e7, "gpu": 3e8}  # multiply-adds of a run that is made only for its figures
TABS = [Tab("verdict", "Verdict"), Tab("differs", "What differs"), Tab("times", "Times")]
MORE = [Tab("outputs", "Outputs"), Tab("diff", "Source, A to B"), Tab("data", "Data and labels")]
MOST_LEADING = 2  # reasons that stand under the verdict


def _most(amounts: Sequence[float]) -> int:
    """The first place of the largest; 0 where there is none."""
    return max(range(len(amounts)), key=lambda n: amounts[n], default=0)


def _step_of_bytes(run: Run) -> int:
    """At which most bytes are moved."""
    moved = [sum(frame["bytes"].values()) for frame in tiling.explain(run).frames]
    return _most([now - before for before, now in zip([0, *moved], moved)])


def _step_of_wavefronts(run: Run) -> int:
    """The first of the access that takes most of the line that costs most: each wavefront is a step, and what has
    remedies is shown beside the same without."""
    sides = padding.before_and_after(run.request)
    shown = sides[:1] if sides[0] == run.request else sides  # a remedy takes no more
    line = _costly_line(run.request)
    taken = [f["access"] for f in bank_walk.explain([running.run(r) for r in shown], line).frames]
    return _most([taken.count(access) for access in taken])


def _step_of_products(run: Run) -> int:
    return _most([frame["phase"] == "scores" for frame in tiling.explain(run).frames])


def _step_of_launch(run: Run) -> int:
    """The first of the last launch."""
    return _most([frame["launch"] for frame in generic.explain(run).frames])


@lru_cache(maxsize=64)
def _costly_line(request: Request) -> tuple[str, int]:
    """Of shared memory: file and line of the probe with the most wavefronts."""
    costs = model.requests(running.run(request).trace, space="shared").costs
    file, line = costs.groupby(["file", "line"], observed=True).wavefronts.sum().idxmax()
    return str(file), int(line)


def _last_step_of_limits(run: Run) -> int:
    """Where all resources have been counted, of a kernel's first launch: four, and what they allow together."""
    return 4


# A reason -> the story that shows it, what of it to open, and at which step.
SHOWN_BY: dict[str, tuple[str, dict[str, str], Callable[[Run], int]]] = {
    "wavefronts": ("bank_conflicts", {"view": "attention"}, _step_of_wavefronts),
    "bytes": ("tiling", {"tab": "bytes"}, _step_of_bytes),
    "arithmetic": ("registers", {}, _step_of_products),
    "multiprocessors": ("occupancy", {}, _last_step_of_limits),
    "warps": ("occupancy", {}, _last_step_of_limits),
    "launches": ("any_kernel", {}, _step_of_launch),
}


def what(state: State, backend: str) -> Pair:
    return compared.requests(COMPARE, state, backend)


def make(pair: Pair) -> Stage:
    runs = [running.run(request) for request in pair]
    told = _verdict(pair)
    if any(request.broken for request in pair):
        told = Verdict(f"{told.said} {output_gap.largest_sentence(output_gap.outputs(*runs))}", told.tone)
    now = [Tab("time_now", "Time both")] if pair[0].backend == "gpu" else []
    where = two_kernels.provenance([running.provenance(run) for run in runs])
    made = two_kernels.stage_of(runs, where, told.said, told.tone, [*TABS, *now, *MORE])
    lead = "lead" if told.row is not None else ""
    return replace(made, questions=pair_questions.two_kernels(runs, made, told.row), lead=lead)


# ---- the verdict ----


def verdict_tab(pair: Pair) -> list[Block]:
    """Who is faster, why, and what that leaves unexplained: all of the builds that were timed."""
    told, both = _verdict(pair), compared.times(*pair)
    blocks = [stage.note(told.said, told.tone)]
    if told.row is None:
        return [*blocks, stage.text("Without a time there is nothing to explain. What differs stands in the next tab.")]
    if said := compare_times.range_sentence(both):
        blocks.append(stage.text(f"{said} All of them are under Times."))
    try:
        return [*blocks, *_explained(_why(pair, told.row))]
    except WarpglassError as error:
        found = _marked(pair, told.row)
        if not found:
            return [*blocks, stage.note(f"Why cannot be said here. {error}")]
        counted = f"Bytes and wavefronts are not counted here. {error}"
        return [*blocks, *marked.blocks(found), stage.note(counted)]


def lead(pair: Pair) -> list[Block]:
    """The weightiest reasons, each in a line."""
    row = _verdict(pair).row
    try:
        why = _why(pair, row)
    except WarpglassError as error:
        found = _marked(pair, row)
        return marked.lead(found) if found else [stage.text(f"Why cannot be said here. {error}")]
    if not why.found:
        return [stage.text(f"No figure says why {why.faster} should be faster.")]
    return [_told(reason.brief, number, reason, why) for number, reason in enumerate(why.found[:MOST_LEADING], 1)]


def _verdict(pair: Pair) -> Verdict:
    # where no side is a what-if, no run is needed
    right = [not r.broken or output_gap.is_right(running.errors(running.run(r))) for r in pair]
    said, tone = output_gap.broken_sentence(pair, right), output_gap.broken_tone(pair, right)
    return time_verdict.verdict(compared.times(*pair), pair, said, compared.absent(*pair), tone, _sets(pair))


def _sets(pair: Pair) -> str:
    """What the choice As timed does, as compare_times.verdict takes it; "" where the page has no such choice."""
    a, b = pair
    alone = list(COMPARE.rivals(a.kernel).values()) == [a.kernel]
    if alone or a.backend == "recorded" or a.problem != b.problem:
        return ""
    row, why = compared.settable(a, b, a.backend)
    return time_verdict.as_timed_said(compared.nearest(a, b), row, why, a.kernel.problem_type)


def _marked(pair: Pair, row: Any) -> Marked | None:
    """The recorded pipelines of both, on the problem that is nearest to the timed one."""
    if row is None:
        return None
    try:
        return marked.of(pair, pair_times.problem_of(row, type(pair[0].problem)))
    except WarpglassError:  # a file that cannot be read
        return None


@dataclass(frozen=True)
class _Why:
    """Why a row's ratio is as it is. runs: of the timed builds, a side each. found: what speaks for the faster side,
    the weightiest first; against: what speaks for the slower."""

    row: Any
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
    def problem(self) -> Any:
        """That was timed."""
        return pair_times.problem_of(self.row, type(self.runs[0].request.problem))


def _why(pair: Pair, row: Any) -> _Why:
    """WarpglassError where it cannot be said."""
    if row is None:
        raise ProblemError("No two of their builds were timed on one problem.")
    if not pair[0].problem.work:
        raise ProblemError("This problem counts no multiply-adds. What differs stands in a tab of its own.")
    rates = _rates(pair, row)
    if rates is None:
        raise ProblemError(f"The rates or the limits of {row.device} are not known.")
    made = [_counted(pair, row, side) for side in (0, 1)]
    figures, runs = [f for f, _ in made], [run for _, run in made]
    return _Why(row, rates, figures, runs, *compare_reasons.reasons(figures, rates, (row.median_us, row.median_us_b)))


def _explained(why: _Why) -> list[Block]:
    run, row, faster = why.runs[0], why.row, why.faster
    counted = run.request.problem.size
    scaled = (
        "" if why.problem == run.request.problem else f" They are counted at {counted} and scaled by the multiply-adds."
    )
    blocks = [
        stage.text(
            "The time and all figures below are of the same two builds, those named above, "
            f"on the timed problem.{scaled}"
        )
    ]
    if pair_times.is_even(row):
        titles = (f"What would make {faster} faster: the weightiest first", f"What speaks against {faster}")
    else:
        titles = (f"Why {faster} is faster: the weightiest first", f"What speaks against {faster}, and is no reason")
    blocks.append(stage.heading(titles[0] if why.found else f"No figure says why {faster} should be faster"))
    blocks += [_told(reason.said, number, reason, why) for number, reason in enumerate(why.found, 1)]
    if why.against:
        blocks.append(stage.heading(titles[1]))
        blocks += [_told(reason.said, number, reason, why) for number, reason in enumerate(why.against, 1)]
    percents = [(row.roof_percent, row.roof), (row.roof_percent_b, row.roof_b)]
    return [
        *blocks,
        stage.heading("What they leave unexplained"),
        stage.text(compare_reasons.unexplained(why.figures, why.rates, why.times_us, percents)),
        stage.text(
            f"Bytes and wavefronts are {run.provenance} and derived; a least time is an amount over the rate that "
            f"was measured on {row.device} (Memory hierarchy, Multiply-adds), so it is modelled. A reason's weight is "
            "the slower build's least time less the faster one's; what has no time of its own comes last.",
            "modelled",
        ),
    ]


def _told(said: str, number: int, reason: Reason, why: _Why) -> Block:
    links = [_link(side, reason.what, run, why) for side, run in zip("AB", why.runs)]
    return stage.text(f"{number}. {said}", links=[link for link in links if link])


def _link(side: str, what: str, run: Run, why: _Why) -> Block | None:
    """To the story that shows a reason of a side's build, at the step that does; None if no such story shows that
    kernel."""
    from app.stories import STORIES

    path, more, _ = SHOWN_BY[what]
    request, story = run.request, STORIES[path]
    if request.kernel.name not in story.asked.kernels:
        return None
    # a figure of the timed problem itself; what is stepped through is the run whose amounts were scaled
    problem = why.problem if path == "occupancy" else request.problem
    given = {"kernel": request.kernel.name, **problem.values()}
    given |= {
        **request.constants,
        "at_item": request.scope.first,
        "at_tile": request.scope.first,
        "arch": _arch(why.row),
    }
    if what == "wavefronts":
        given["line"] = "{}:{}".format(*_costly_line(request))
    state, _ = story.asked.read_link({"kernel": request.kernel.name})
    query = {name: write_value(value) for name, value in given.items() if name in story.asked.known(state)}
    return stage.link(f"{side} in {story.title}", path, {**query, **more, "step": str(1 + _step_of(what, request))})


@lru_cache(maxsize=64)
def _step_of(what: str, request: Request) -> int:
    """The step at which a story shows a reason; the timed builds, which reasons are of, are the same whatever seed or
    tile is looked at."""
    return SHOWN_BY[what][2](running.run(request))


# ---- figures of the timed builds ----


@dataclass(frozen=True)
class _Timed:
    """A side's timed build on the problem that it is run on for its figures."""

    request: Request
    times: float  # how many times more multiply-adds the timed problem has


def _rates(pair: Pair, row: Any) -> Rates | None:
    """The machine's own, on which the row was timed; None where they are not recorded."""
    where = {w.device: w for _, w in bench.recorded().values()}.get(row.device)
    machine = MACHINES.get(arch_named(row.device))
    with suppress(WarpglassError):
        levels = memory_levels.plateaus(recorded_hierarchy(row.device).table).set_index("level")["GB/s"]
        if where and machine:
            titles = [rows.arithmetic_title(r.kernel.tensor_products) for r in pair]
            roofs = bench.arithmetic_roofs(where.roofs, [r.kernel.tensor_products for r in pair])
            a, b = ((title, 1e12 * roofs[title]) for title in titles)
            shared, l2 = 1e9 * levels["Shared memory"], 1e9 * levels["L2 cache"]
            return Rates(shared, l2, (a, b), machine.multiprocessors, machine.warps)
    return None


def _counted(pair: Pair, row: Any, side: int) -> tuple[Figures, Run]:
    timed = _timed_build(pair, row, side)
    whole = pair_times.problem_of(row, timed.request.kernel.problem_type)
    return _figures(timed, whole, _arch(row)), running.run(timed.request)


@lru_cache(maxsize=64)
def _figures(timed: _Timed, whole: Any, arch: str) -> Figures:
    """Of a timed build; whole: the problem that was timed."""
    request = timed.request
    every = None if tiling.accepts(request.kernel) else running.traffic(request)
    held = occupancy(request.kernel, whole, request.settings, arch)
    return build_needs.figures(running.run(request), every, held, timed.times)


def _arch(row: Any) -> str:
    """What the timed builds were made for."""
    arch = arch_named(row.device)
    return f"{arch}a" if arch == "sm_90" else arch


def _timed_build(pair: Pair, row: Any, side: int) -> _Timed:
    """The build that a row was timed with, on its problem, or where that is too large to be run here on the smallest
    like it that both kernels have a time on, of whatever builds; its scope a tile in the middle, which stands for
    all."""
    kind, backend = type(pair[0].problem), "gpu" if pair[0].backend == "gpu" else "cpu"
    problem = timed = pair_times.problem_of(row, kind)
    if timed.cpu_steps > STEPS[backend]:
        found = [
            p for p in compared.timed_problems(pair[0]) if p in compared.timed_problems(pair[1]) and _alike(p, timed)
        ]
        problem = min(found, key=lambda p: p.cpu_steps)
    settings = tuple(pair_times.settings_of(row, side).items())
    request = Request(pair[side].kernel, problem, settings, Scope(), backend)
    if tiling.accepts(request.kernel):
        tiles = picture.tiles_of(request)[1]
        request = Request(request.kernel, problem, settings, Scope(tiles // 2), backend)
    return _Timed(request, timed.work.flops / problem.work.flops)


def _alike(a: Any, b: Any) -> bool:
    """Whether two problems differ in nothing but how large they are."""
    kinds = ("head_dim", "causal", "dtype")
    return [a.bench_columns.get(name) for name in kinds] == [b.bench_columns.get(name) for name in kinds]


# ---- what differs ----


def differs_tab(pair: Pair) -> list[Block]:
    """The builds on the stage, figure by figure."""
    runs, arch = [running.run(request) for request in pair], tabs.arch_of(pair[0])
    facts: list[Any] = [None, None]
    held: list[Any] = [None, None]
    absent = ""
    try:  # no NVRTC here, or an architecture whose limits are not known
        facts = [inspection.inspect(r.kernel, r.problem, r.settings, arch) for r in pair]
        held = [occupancy(r.kernel, r.problem, r.settings, arch) for r in pair]
    except WarpglassError as error:
        absent = f" Registers and occupancy are not known here: {error}"
    traffics = [running.traffic(request) for request in pair]
    table = differences.differences(pair, facts, held, [differences.costs(run) for run in runs], traffics)
    over = (
        "of the whole run"
        if all(t.whole for t in traffics)
        else "of what is traced, as the whole run's records would not fit"
    )
    said = (
        f"Of the builds on the stage. Addresses {runs[0].provenance}; wavefronts and sectors derived from them, of "
        f"what is traced; bytes counted {over}; registers and occupancy for {arch}.{absent}"
    )
    return [{**stage.table(table, said), "differs": [words != "the same" for words in table["in words"]]}]


def outputs_tab(pair: Pair) -> list[Block]:
    runs = [running.run(request) for request in pair]
    table = output_gap.outputs(*runs)
    errors = [running.errors(run) for run in runs]
    said = output_gap.output_sentence(table, runs, errors)
    texts = table.assign(**{"largest difference": [f"{value:.3g}" for value in table["largest difference"]]})
    effects = [
        stage.text(f"{side}: {constant.what_if}. {constant.effect}")
        for side, request in zip("AB", pair)
        for constant in request.broken
    ]
    return [
        stage.note(said, output_gap.broken_tone(pair, [*map(output_gap.is_right, errors)])),
        *effects,
        stage.table(texts),
    ]


def diff_tab(pair: Pair) -> list[Block]:
    a, b = (request.kernel for request in pair)
    if a == b:
        return [stage.note(f"Both are builds of {a.name}: the source is the same, only the constants differ.")]
    return [source_diff.diff(a, b)]


def data_tab(pair: Pair) -> list[Block]:
    blocks: list[Block] = []
    for side, request in zip("AB", pair):
        blocks += [stage.heading(f"{side}: {request.kernel.name}"), *tabs.data(request)[:2]]
    return [*blocks, *tabs.labels()]


# ---- times ----


def times_tab(pair: Pair) -> list[Block]:
    """Every recorded time of both."""
    both = compared.times(*pair)
    if both.empty:
        return [stage.note(f"No problem has a recorded time of both. {compared.absent(*pair)}")]
    return _times_blocks(pair, both, compare_times.range_sentence(both))


def time_now_tab(pair: Pair) -> list[Block]:
    """Times both builds of the stage on this GPU: on the stage's problem, and on one that fills the GPU."""
    roofs, today = protocol.roofs(), datetime.datetime.now()
    problems = list(dict.fromkeys([pair[0].problem, *_filling(pair[0].problem)]))
    made = [rows.row(protocol.measure(_point(r, p)), roofs) for p in problems for r in pair]
    device = running.run(pair[0]).device
    table = sweep_search.prepared(rows.table(made), Provenance(device, "", today.date().isoformat()), "measured")
    both = pair_times.times(table, pair)
    blocks = [
        stage.note(f"{'AB'[n % 2]}, {entry['name']}, has no time. {entry['reason']}")
        for n, entry in enumerate(made)
        if entry["status"] != "ok"
    ]
    said = (
        f"Measured on {device}, {today:%Y-%m-%d %H:%M}, of the builds on the stage; kept until the code or the choices "
        "change."
    )
    if both.empty:
        return [*blocks, stage.text(said)]
    told = time_verdict.ratio_sentence(pair_times.nearest(both, problems[-1]))
    return [stage.note(told), *blocks, *_times_blocks(pair, both, said)]


def _filling(problem: Any) -> list[Any]:
    """The problem that a bench begins with, with as much of this one as goes with it."""
    with suppress(ProblemError):
        return [problem.bench_default()]
    return []


def _point(request: Request, problem: Any) -> protocol.Point:
    return protocol.Point(request.kernel.name, problem, tuple(request.constants.items()))


def _times_blocks(pair: Pair, both: pd.DataFrame, said: str) -> list[Block]:
    own = "Medians, p10 to p90. Where the stage's builds were not timed, those that a kernel chooses itself stand here."
    about = "A's time over B's, with its spread, against seq_len"
    caption = "Medians; above 1 B is faster. The bar goes from A's p10 over B's p90 to A's p90 over B's p10."
    return [
        stage.text(said),
        stage.chart(compare_times.ratio_chart(both), about, caption, "A's time over B's"),
        stage.table(compare_times.times_table(both, pair), own),
    ]


STORY = Story(
    path="compare",
    title="Compare",
    look="Watch which side waits, and which moves fewer bytes for the same step. "
    "The verdict says who is faster by how much; look for the figure that is as far apart as the times are.",
    asked=COMPARE,
    what=what,
    make=make,
    launches={"differs": estimates.traffic},
    parts={
        "lead": lead,
        "verdict": verdict_tab,
        "differs": differs_tab,
        "times": times_tab,
        "time_now": time_now_tab,
        "outputs": outputs_tab,
        "diff": diff_tab,
        "data": data_tab,
    },
    narrowed=compared.narrowed,
    changed=compared.changed,
)
