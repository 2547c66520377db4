"""The recorded pipelines of both kernels, in words and with a link. They give reasons without a run."""

from app.choices.links import read_link
from app.stories import pipeline
from explainers.stories.compare import compare_marks
from explainers.stories.compare.compare_marks import Marked
from explainers.story import stage
from explainers.story.stage import Block
from kernels.catalog import current
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.request import Request


def of(pair: tuple[Request, Request], problem: Problem) -> Marked | None:
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


def lead(marked: Marked) -> list[Block]:
    """The weightiest sentences, with the way to both pipeline."""
    said = [compare_marks.tensor_cores_sentence(marked), compare_marks.phases_sentence(marked)]
    shown = [compare_marks.where_sentence(marked), *(one for one in said if one)]
    return [stage.text(one, links=[_link(marked)] if one is shown[-1] else ()) for one in shown]


def blocks(marked: Marked) -> list[Block]:
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
    """To Pipeline, with both on one scale."""
    request = marked.a.request
    given = {"kernel": request.kernel.name, "beneath": marked.b.request.kernel.name, "backend": "recorded"}
    page = pipeline.STORY.page(current())
    state, _ = read_link(page, {"kernel": request.kernel.name})
    known = page.choices(state)
    named = {name: write_value(value) for name, value in pipeline.identity(request).items() if name in known}
    return stage.link("Both in Pipeline", "pipeline", {**given, **named})
