"""The verdict of Compare and its reasons, in sentences with links."""

from app.parts import running
from app.stories.compare import choices, marked, reasons, steps, timed
from app.stories.compare.reasons import Pair, Why
from app.stories.compare.timed import Row
from explainers.stories.compare import compare_reasons, compare_times, output_gap, pair_times, time_verdict
from explainers.stories.compare.compare_marks import Marked
from explainers.stories.compare.compare_reasons import Reason
from explainers.stories.compare.time_verdict import Verdict
from explainers.story import stage
from explainers.story.stage import Block
from kernels.catalog import current
from kernels.errors import WarpglassError

MOST_LEADING = 2  # reasons under the verdict


def verdict(pair: Pair) -> Verdict:
    """Which side is faster. A run is needed only for a what-if build."""
    right = [not r.broken or output_gap.is_right(running.errors(running.run(r))) for r in pair]
    said, tone = output_gap.broken_sentence(pair, right), output_gap.broken_tone(pair, right)
    return time_verdict.verdict(timed.times(*pair), pair, said, timed.absent(*pair), tone, _effect_of_as_timed(pair))


def _effect_of_as_timed(pair: Pair) -> str:
    """The effect of the choice As timed, for time_verdict.verdict. Empty for a page without this choice."""
    a, b = pair
    alone = list(choices.page(current()).solving(a.kernel)) == [a.kernel.name]
    if alone or a.backend == "recorded" or a.problem != b.problem:
        return ""
    row, reason = timed.settable(a, b, a.backend)
    return time_verdict.as_timed_said(timed.of_page(a, b), row, reason, a.problem.problem_type)


def verdict_tab(pair: Pair) -> list[Block]:
    """Which side is faster, why, and the unexplained rest, all of the timed builds."""
    answer, both = verdict(pair), timed.times(*pair)
    blocks = [stage.note(answer.said, answer.tone)]
    if answer.details:
        blocks.append(stage.text(answer.details))
    if answer.row is None:
        return [*blocks, stage.text("Without a time this tab has no reasons. The next tab lists the differences.")]
    if said := compare_times.range_sentence(both):
        blocks.append(stage.text(f"{said} The tab Times has every time."))
    try:
        return [*blocks, *_explained(reasons.why(pair, answer.row))]
    except WarpglassError as error:
        found = _marked(pair, answer.row)
        if not found:
            return [*blocks, stage.note(f"The reasons are not known here. {error}")]
        counted = f"Bytes and wavefronts are not counted here. {error}"
        return [*blocks, *marked.blocks(found), stage.note(counted)]


def lead(pair: Pair) -> list[Block]:
    """The problem of the reasons, as the bars show another one, and the weightiest reasons, each in a line."""
    row = verdict(pair).row
    try:
        why = reasons.why(pair, row)
    except WarpglassError as error:
        found = _marked(pair, row)
        return marked.lead(found) if found else [stage.text(f"The reasons are not known here. {error}")]
    if not why.found:
        return [stage.text(f"No figure explains a faster {why.faster}.")]
    leading = enumerate(why.found[:MOST_LEADING], 1)
    problem = stage.text(f"The reasons at {pair_times.problem_said(why.row)}:")
    return [problem, *(_reason(reason.brief, number, reason, why) for number, reason in leading)]


def _marked(pair: Pair, row: Row | None) -> Marked | None:
    """The recorded pipelines of both, on the problem nearest to the timed one."""
    if row is None:
        return None
    try:
        return marked.of(pair, pair_times.problem_of(row, pair[0].problem.problem_type))
    except WarpglassError:  # a file that cannot be read
        return None


def _explained(why: Why) -> list[Block]:
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
    arch = reasons.arch_of(why.row)
    links = [steps.link(side, reason.what, run, why.problem, arch) for side, run in zip("AB", why.runs)]
    return stage.text(f"{number}. {said}", links=[link for link in links if link])
