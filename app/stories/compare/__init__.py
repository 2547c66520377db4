"""Compare: two kernels, or two builds of one, on equal inputs under one clock. Which one is faster, why, and the
differences in steps, code, bytes, conflicts and outputs."""

import datetime
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pandas as pd

from app.choices import estimates
from app.parts import running, tabs
from app.parts.story import Story
from app.stories.compare import choices, timed, verdict
from app.stories.compare.verdict import Pair
from explainers.stories.compare import differences, pair_bars, pair_times, time_verdict, two_kernels
from explainers.stories.compare.compare_reasons import uncounted
from explainers.stories.compare.time_verdict import Verdict
from explainers.stories.timing import sweeps
from explainers.story import stage
from explainers.story.glossary import listed, short
from explainers.story.stage import Block, Stage, Tab
from kernels.build import inspection
from kernels.build.occupancy import Occupancy, occupancy
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import bench_rows, protocol
from kernels.recordings.tables import Provenance


def differs_tab(pair: Pair) -> list[Block]:
    """The builds on the stage, figure by figure."""
    runs, arch = [running.run(request) for request in pair], tabs.arch_of(pair[0])
    facts: Sequence[dict[str, Any] | None] = [None, None]
    held: Sequence[Sequence[Occupancy] | None] = [None, None]
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
        else "of the traced part, because the records of the whole run would not fit"
    )
    missing = [f"{side}'s {' and '.join(found)}" for side, r in zip("AB", pair) if (found := uncounted(r))]
    if missing:
        absent += f" The wavefronts leave out the accesses of {listed(missing)}: they have no addresses in a trace."
    said = (
        f"The figures are of the builds on the stage. The addresses are {runs[0].provenance}. Wavefronts and sectors "
        f"are derived from the traced addresses. The bytes are counted, {over}. Registers and occupancy are for "
        f"{arch}.{absent}"
    )
    return [{**stage.table(table, said), "differs": [words != "the same" for words in table["in words"]]}]


def outputs_tab(pair: Pair) -> list[Block]:
    runs = [running.run(request) for request in pair]
    table = differences.outputs(*runs)
    errors = [running.errors(run) for run in runs]
    said = differences.output_sentence(table, runs, errors)
    texts = table.assign(**{"largest difference": [short(value, 3) for value in table["largest difference"]]})
    effects = [
        stage.text(f"{side}: {constant.what_if}. {constant.effect}")
        for side, request in zip("AB", pair)
        for constant in request.broken
    ]
    return [
        stage.note(said, differences.broken_tone(pair, [*map(differences.is_right, errors)])),
        *effects,
        stage.table(texts),
    ]


def diff_tab(pair: Pair) -> list[Block]:
    a, b = (request.kernel for request in pair)
    if a == b:
        return [stage.note(f"Both are builds of {a.name}. They have one source, and only their constants differ.")]
    return [differences.diff(a, b)]


def data_tab(pair: Pair) -> list[Block]:
    blocks: list[Block] = []
    for side, request in zip("AB", pair):
        blocks += [stage.heading(f"{side}: {request.kernel.name}"), *tabs.data(request)[:2]]
    return [*blocks, *tabs.labels()]


# ---- times ----


def times_tab(pair: Pair) -> list[Block]:
    """Every recorded time of both."""
    both = timed.times(*pair)
    if both.empty:
        return [stage.note(f"No problem has a recorded time of both. {timed.absent(*pair)}")]
    return _times_blocks(pair, both, time_verdict.range_sentence(both))


def time_now_tab(pair: Pair) -> list[Block]:
    """Times both builds of the stage on this GPU: on the stage's problem, and on one that fills the GPU."""
    roofs, today = protocol.roofs(), datetime.datetime.now()
    problems = [pair[0].problem]
    with suppress(ProblemError):  # the problem that a bench begins with, with as much of this one as goes with it
        problems = list(dict.fromkeys([*problems, pair[0].problem.problem_type.bench_default()]))
    points = [protocol.Point(r.kernel.name, p, tuple(r.constants.items())) for p in problems for r in pair]
    measured = [bench_rows.row(protocol.measure(point), roofs) for point in points]
    device = running.run(pair[0]).device
    table = sweeps.prepared(bench_rows.table(measured), Provenance(device, "", today.date().isoformat()), "measured")
    both = pair_times.times(table, pair)
    blocks = [
        stage.note(f"{'AB'[n % 2]}, {entry['name']}, has no time. {entry['reason']}")
        for n, entry in enumerate(measured)
        if entry["status"] != "ok"
    ]
    said = (
        f"Measured on {device}, {today:%Y-%m-%d %H:%M}, with the builds on the stage. The page keeps the times until "
        "the code or the choices change."
    )
    row = pair_times.nearest(both, problems[-1])
    if row is None:
        return [*blocks, stage.text(said)]
    return [stage.note(time_verdict.ratio_sentence(row)), *blocks, *_times_blocks(pair, both, said)]


def _times_blocks(pair: Pair, both: pd.DataFrame, said: str) -> list[Block]:
    own = "Medians, p10 to p90. If a build on the stage was not timed, its row shows the kernel's default build."
    about = "A's time over B's, with its spread, against seq_len"
    caption = "Medians. Above 1, B is faster. The bar goes from A's p10 over B's p90 to A's p90 over B's p10."
    return [
        stage.text(said),
        stage.chart(time_verdict.ratio_chart(both), about, caption, "A's time over B's"),
        stage.table(time_verdict.times_table(both, pair), own),
    ]


TABS = [Tab("verdict", "Verdict"), Tab("differs", "Differences"), Tab("times", "Times")]
MORE = [Tab("outputs", "Outputs"), Tab("diff", "Source, A to B"), Tab("data", "Data and labels")]


def make(pair: Pair) -> Stage:
    runs = [running.run(request) for request in pair]
    answer = verdict.verdict(pair)
    if any(request.broken for request in pair):
        answer = Verdict(f"{answer.said} {differences.largest_sentence(differences.outputs(*runs))}", answer.tone)
    now = [Tab("time_now", "Time both")] if pair[0].backend == "gpu" else []
    where = two_kernels.provenance([running.provenance(run) for run in runs])
    result = two_kernels.stage_of(runs, where, answer.said, answer.tone, [*TABS, *now, *MORE])
    row, lead = answer.row, "lead" if answer.row is not None else ""
    if row is not None:
        result = replace(result, provenance=replace(where, place=stage.place(row.device, row.date)))
    asked = pair_bars.questions(runs, result, row)
    return replace(result, views=[*result.views, *pair_bars.views(runs, row)], questions=asked, lead=lead)


STORY = Story(
    path="compare",
    title="Compare",
    look="Watch for a side that waits, and for a side that moves fewer bytes in the same step. "
    "The verdict compares the times of both sides. Look for a figure with the same ratio as the times.",
    order=140,
    page=choices.page,
    subject=choices.requests,
    make=make,
    launches={"differs": estimates.traffic},
    parts={
        "lead": verdict.lead,
        "verdict": verdict.verdict_tab,
        "differs": differs_tab,
        "times": times_tab,
        "time_now": time_now_tab,
        "outputs": outputs_tab,
        "diff": diff_tab,
        "data": data_tab,
    },
)
