"""The story of precision: the source of a kernel's error, next to equal numbers in every other type."""

from dataclasses import dataclass

from explainers.stories.precision import error_tables, gradients, precision, precision_charts, replay, replays, rounding
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.run.results import Run


@dataclass(frozen=True)
class Look:
    """The requests of the page.

    request: of the chosen kernel.
    others: of the other types.
    absent: (type, reason) of each type without a request.
    """

    request: Request
    others: tuple[Request, ...]
    absent: tuple[tuple[str, str], ...]


class Rounding(Story[Look]):
    """The error of O by the steps that round."""

    WANTS = precision.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return gradients.refusal(spec) if gradients.is_backward(spec) else precision.refusal(spec)

    def stage(self, subject: Look, runner: Runner) -> Stage:
        if gradients.is_backward(subject.request.kernel):
            return gradients.stage_of(subject.request, runner)
        run = runner.run(subject.request)
        story, absent = replays_of(subject, runner)
        return precision.stage_of(story, run, runner.provenance(run), runner.broken(run), absent)

    def parts(self) -> dict[str, Part[Look]]:
        return {"types": types_tab, "spread": spread_tab, "gradients": gradients_tab}


def gradients_tab(look: Look, runner: Runner) -> list[Block]:
    return gradients.gradients_tab(look.request, runner)


def replays_of(look: Look, runner: Runner) -> tuple[replays.Replays, list[tuple[str, str]]]:
    """The replays of every type, and (type, reason) of each missing type."""
    found, absent = list[Run](), [*look.absent]
    for request in look.others:
        label = replay.label_of(request)
        try:
            if rounding.same_numbers(look.request, request):
                found.append(runner.run(request))
            else:
                absent.append((label, f"{request.kernel.name} cannot take the same Q, K, V and mask."))
        except WarpglassError as error:
            absent.append((label, error.brief))
    return precision.explain(runner.run(look.request), found), absent


def types_tab(look: Look, runner: Runner) -> list[Block]:
    """The error of every type, its causes, and its meaning for a model."""
    story, absent = replays_of(look, runner)
    said = "The reference is float64 with Q, K and V before rounding. " + " ".join(map(_rows, story.all))
    said += "".join(f" {label} is missing: {why}" for label, why in absent)
    return [
        stage.heading("The same numbers in every type"),
        stage.table(error_tables.types_table(story), said, lit="chosen"),
        stage.text(
            "float32 as 3 bfloat16: every float is the sum of three bfloat16, and tensor cores multiply the parts."
        ),
        stage.heading("The change of O by each step"),
        stage.table(error_tables.parts_table(story), "Root mean square over the elements of O."),
        stage.heading("The meaning for a model"),
        *(stage.text(error_tables.meaning(replayed), "derived") for replayed in story.all),
    ]


def _rows(replayed: replay.Replay) -> str:
    return f"{replayed.label}: rows {replayed.rows[0]} to {replayed.rows[1] - 1}."


def spread_tab(look: Look, runner: Runner) -> list[Block]:
    """The distribution of the errors of O's elements, type by type."""
    story, _ = replays_of(look, runner)
    said = "The errors at the shown step. A curve further left is better. The chart leaves out elements without error."
    chart = precision_charts.spread(story)
    return [stage.chart(chart, "The share of elements of O up to each error, for each type", said, "O's error")]


STORY = Rounding()
