"""Compare: two kernels, or two builds of one, on equal inputs under one clock. Which one is faster, why, and the
differences in steps, code, bytes, conflicts and outputs."""

import datetime
from contextlib import suppress
from dataclasses import replace

import pandas as pd

from app.choices import estimates
from app.parts import running, tabs
from app.parts.story import Story
from app.stories.compare import choices, timed, verdict
from app.stories.compare.verdict import Pair
from explainers.stories.compare import differences, pair_bars, pair_times, two_kernels
from explainers.stories.compare.pair_times import SIDES, WORDS, Verdict
from explainers.stories.compare.reasons import uncounted
from explainers.stories.timing import sweeps
from explainers.story import stage
from explainers.story.glossary import short
from explainers.story.stage import Block, Stage, Tab
from kernels.build import inspection
from kernels.build.occupancy import occupancy
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import bench_rows, protocol
from kernels.recordings.tables import Provenance


def differs_tab(pair: Pair) -> list[Block]:
    """The builds on the stage, figure by figure."""
    runs, arch, error = [running.run(request) for request in pair], tabs.arch_of(pair[0]), ""
    registers, held = list[dict[str, int]](), []
    try:  # no NVRTC here, or an architecture whose limits are not known
        builds = [inspection.inspect(r.kernel, r.problem, r.settings, arch)["builds"] for r in pair]
        held = [occupancy(r.kernel, r.problem, r.settings, arch) for r in pair]
        registers = [
            {mode: max(e["registers"] for e in of[mode]["entries"]) for mode in ("timed", "probed")} for of in builds
        ]
    except WarpglassError as caught:
        error = str(caught)
    traffics = [running.traffic(request) for request in pair]
    table = differences.differences(runs, registers, held, traffics)
    missing = [f"{side}'s {' and '.join(found)}" for side, r in zip(SIDES, pair) if (found := uncounted(r))]
    names = {"provenance": runs[0].provenance, "arch": arch, "error": error, "missing": missing}
    said = WORDS.say("differs", names | {"whole": all(traffic.whole for traffic in traffics)})
    return [{**stage.table(table, said), "differs": [words != "the same" for words in table["in words"]]}]


def outputs_tab(pair: Pair) -> list[Block]:
    runs = [running.run(request) for request in pair]
    table, errors = differences.outputs(*runs), [running.errors(run) for run in runs]
    tone = differences.broken_tone(pair, [*map(differences.is_right, errors)])
    effects = [
        stage.text(f"{side}: {constant.what_if}. {constant.effect}")
        for side, request in zip(SIDES, pair)
        for constant in request.broken
    ]
    texts = table.assign(**{"largest difference": [short(value, 3) for value in table["largest difference"]]})
    return [stage.note(differences.output_sentence(table, runs, errors), tone), *effects, stage.table(texts)]


def diff_tab(pair: Pair) -> list[Block]:
    a, b = (request.kernel for request in pair)
    if a == b:
        return [stage.note(f"Both are builds of {a.name}. They have one source, and only their constants differ.")]
    return [differences.diff(a, b)]


def data_tab(pair: Pair) -> list[Block]:
    blocks: list[Block] = []
    for side, request in zip(SIDES, pair):
        blocks += [stage.heading(f"{side}: {request.kernel.name}"), *tabs.data(request)[:2]]
    return [*blocks, *tabs.labels()]


def times_tab(pair: Pair) -> list[Block]:
    """Every recorded time of both."""
    both = timed.times(*pair)
    if both.empty:
        return [stage.note(f"No problem has a recorded time of both. {timed.absent(*pair)}")]
    return _times_blocks(pair, both, WORDS.say("range", pair_times.range_of(both)) if len(both) > 1 else "")


def time_now_tab(pair: Pair) -> list[Block]:
    """Times both builds of the stage on this GPU: on the stage's problem, and on one that fills the GPU."""
    roofs, today = protocol.roofs(), datetime.datetime.now()
    problems = [pair[0].problem]
    with suppress(ProblemError):  # the problem that a bench begins with, with as much of this one as goes with it
        problems = list(dict.fromkeys([*problems, pair[0].problem.problem_type.bench_default()]))
    points = [protocol.Point(r.kernel.name, p, tuple(r.constants.items())) for p in problems for r in pair]
    measured = [bench_rows.row(protocol.measure(point), roofs) for point in points]
    where = Provenance(running.run(pair[0]).device, "", today.date().isoformat())
    both = pair_times.times(sweeps.prepared(bench_rows.table(measured), where, "measured"), pair)
    blocks = [
        stage.note(f"{SIDES[n % 2]}, {entry['name']}, has no time. {entry['reason']}")
        for n, entry in enumerate(measured)
        if entry["status"] != "ok"
    ]
    said = WORDS.say("measured", {"device": where.device, "when": f"{today:%Y-%m-%d %H:%M}"})
    row = pair_times.nearest(both, problems[-1])
    if row is None:
        return [*blocks, stage.text(said)]
    return [stage.note(pair_times.ratio_sentence(row)), *blocks, *_times_blocks(pair, both, said)]


def _times_blocks(pair: Pair, both: pd.DataFrame, said: str) -> list[Block]:
    own = "Medians, p10 to p90. If a build on the stage was not timed, its row shows the kernel's default build."
    about = "A's time over B's, with its spread, against seq_len"
    caption = "Medians. Above 1, B is faster. The bar goes from A's p10 over B's p90 to A's p90 over B's p10."
    return [
        stage.text(said),
        stage.chart(pair_times.ratio_chart(both), about, caption, "A's time over B's"),
        stage.table(pair_times.times_table(both, pair), own),
    ]


TABS = [Tab("verdict", "Verdict"), Tab("differs", "Differences"), Tab("times", "Times")]
MORE = [Tab("outputs", "Outputs"), Tab("diff", "Source, A to B"), Tab("data", "Data and labels")]


def make(pair: Pair) -> Stage:
    runs = [running.run(request) for request in pair]
    answer = verdict.verdict(pair)
    if any(request.broken for request in pair):
        answer = Verdict(f"{answer.said} {differences.largest_sentence(differences.outputs(*runs))}", answer.tone)
    now = [Tab("time_now", "Time both")] if pair[0].backend == "gpu" else []
    where, row = two_kernels.provenance([running.provenance(run) for run in runs]), answer.row
    if row is not None:
        where = replace(where, place=stage.place(row.device, row.date))
    made = two_kernels.stage_of(runs, where, answer.said, answer.tone, [*TABS, *now, *MORE])
    lead = "" if row is None else "lead"
    return replace(made, views=[*made.views, *pair_bars.views(runs, row)], lead=lead)


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
