"""Compare: two kernels, or two builds of one, on equal inputs under one clock. Which one is faster, why, and the
differences in steps, code, bytes, conflicts and outputs."""

from dataclasses import replace

from app.choices import estimates
from app.choices.page import Page, State
from app.parts import running
from app.parts.story import Story
from app.stories.compare import choices, tabs_of_pair, verdict
from app.stories.compare.reasons import Pair
from explainers.stories.compare import output_gap, pair_bars, pair_questions, two_kernels
from explainers.stories.compare.time_verdict import Verdict
from explainers.story import stage
from explainers.story.stage import Stage, Tab

TABS = [Tab("verdict", "Verdict"), Tab("differs", "Differences"), Tab("times", "Times")]
MORE = [Tab("outputs", "Outputs"), Tab("diff", "Source, A to B"), Tab("data", "Data and labels")]


def subject(page: Page, state: State, backend: str) -> Pair:
    return choices.requests(page, state, backend)


def make(pair: Pair) -> Stage:
    runs = [running.run(request) for request in pair]
    answer = verdict.verdict(pair)
    if any(request.broken for request in pair):
        answer = Verdict(f"{answer.said} {output_gap.largest_sentence(output_gap.outputs(*runs))}", answer.tone)
    now = [Tab("time_now", "Time both")] if pair[0].backend == "gpu" else []
    where = two_kernels.provenance([running.provenance(run) for run in runs])
    result = two_kernels.stage_of(runs, where, answer.said, answer.tone, [*TABS, *now, *MORE])
    row, lead = answer.row, "lead" if answer.row is not None else ""
    if row is not None:
        result = replace(result, provenance=replace(where, place=stage.place(row.device, row.date)))
    asked = pair_questions.two_kernels(runs, result, row)
    return replace(result, views=[*result.views, *pair_bars.views(runs, row)], questions=asked, lead=lead)


STORY = Story(
    path="compare",
    title="Compare",
    look="Watch for a side that waits, and for a side that moves fewer bytes in the same step. "
    "The verdict compares the times of both sides. Look for a figure with the same ratio as the times.",
    order=140,
    page=choices.page,
    subject=subject,
    make=make,
    launches={"differs": estimates.traffic},
    parts={
        "lead": verdict.lead,
        "verdict": verdict.verdict_tab,
        "differs": tabs_of_pair.differs_tab,
        "times": tabs_of_pair.times_tab,
        "time_now": tabs_of_pair.time_now_tab,
        "outputs": tabs_of_pair.outputs_tab,
        "diff": tabs_of_pair.diff_tab,
        "data": tabs_of_pair.data_tab,
    },
)
