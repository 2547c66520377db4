"""The story of the online softmax: one row's running max and sum, step by step, next to ordinary softmax."""

from dataclasses import replace

from explainers.models import generic, softmax_rows, threads, tiling
from explainers.models.softmax_rows import Row
from explainers.stories.online_softmax import drag, online_softmax, row_charts, row_questions
from explainers.stories.online_softmax.row_story import RowStory
from explainers.story import picture, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

WALK = "a part of the row's keys with its own m and l, merged later"


class OnlineSoftmax(Story[Row]):
    """One row of a query tile."""

    WANTS = softmax_rows.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return softmax_rows.refusal(spec)

    def stage(self, subject: Row, runner: Runner) -> Stage:
        run, story = _row_of(subject, runner)
        if not picture.by_tiles(subject.request):
            return _without_tiles(subject, runner, run, story)
        known = {*tiling.WANTS, *softmax_rows.WANTS}
        others = generic.other_views(run, picture.places(subject.request), known, story.steps)
        views = [threads.view(run, story.steps), *others]
        hand = drag.view(run, story, subject.row, picture.query_rows(run.request)[0])
        made = online_softmax.stage_of(
            run, story, subject.row, runner.provenance(run), [*views, *([hand] if hand else [])]
        )
        ordinary = softmax_rows.is_ordinary(run.request.kernel)
        shown = ("drag", 0) if hand else ("row", len(story.frames) - 1)
        checks = tiling.never_stored(run, step=shown[1], view=shown[0], veils=("headline",))
        more = row_questions.ordinary_row(story.frames, story.first_wrong, ordinary)
        if hand:
            more += drag.questions_of(run.request, story, subject.row)
        offer = softmax_rows.offer(run, runner, subject.row)
        return replace(made, offer=offer, questions=[*made.questions, *more, *checks])

    def parts(self) -> dict[str, Part[Row]]:
        return {"charts": charts_tab, "ordinary": ordinary_tab}


def _without_tiles(subject: Row, runner: Runner, run: Run, story: RowStory) -> Stage:
    """The stage of a kernel whose items are no query tiles: the row, and the choice of its walk."""
    made = online_softmax.stage_of(run, story, subject.row, runner.provenance(run))
    walks = [str(walk) for walk in online_softmax.walks_of(run, subject.row, subject.head)]
    if not walks:
        return made
    late: dict[str, object] = {"name": "walk", "label": "walk", "kind": "select", "group": "own", "help": WALK}
    late["options"] = [{"value": walk, "label": walk} for walk in walks]
    if subject.walk in walks:
        return replace(made, late=[{**late, "value": subject.walk}])
    told = [f"walk is {subject.walk}. This row has the walks {', '.join(walks)}."] if subject.walk else []
    return replace(made, late=[{**late, "value": walks[0]}], told=told)


def charts_tab(subject: Row, runner: Runner) -> list[Block]:
    """m and l after each tile."""
    run, story = _row_of(subject, runner)
    charts = [
        [stage.chart(row_charts.state_chart(story, name), f"The {said} after each tile", title=said.capitalize())]
        for name, said in (("m", "running max m"), ("l", "running sum l"))
    ]
    caption = f"Logged: {run.provenance}. float64: modelled, for the same keys and the same m."
    return [stage.row(*charts), stage.text(caption)]


def ordinary_tab(subject: Row, runner: Runner) -> list[Block]:
    """The same row by ordinary softmax."""
    run, story = _row_of(subject, runner)
    caption = f"Bars: ordinary softmax in float64 (modelled). Points: each key in this kernel ({run.provenance})."
    alt_text = "The row's weights by ordinary softmax and in this kernel"
    weights = stage.chart(row_charts.ordinary_chart(story), alt_text, caption, "The weight of each key in the end")
    table = stage.table(online_softmax.ordinary_table(story), "At the end of the row.")
    return [stage.row([weights], [table])]


def _row_of(subject: Row, runner: Runner) -> tuple[Run, RowStory]:
    run = runner.run(subject.request)
    if picture.by_tiles(subject.request):
        return run, online_softmax.explain(run, subject.row)
    walks = online_softmax.walks_of(run, subject.row, subject.head)
    chosen = next((walk for walk in walks if str(walk) == subject.walk), walks[0] if walks else None)
    return run, online_softmax.explain(run, subject.row, subject.head, chosen)


STORY = OnlineSoftmax()
