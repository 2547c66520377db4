"""Online softmax: one row's running max and sum, step by step, beside the same row by ordinary softmax."""

from dataclasses import dataclass, replace
from functools import lru_cache

from app.choices import pages, places
from app.choices.page import Page, State
from app.parts import running, tabs
from app.parts.story import Story
from explainers.stories.any_kernel import generic
from explainers.stories.online_softmax import online_softmax, row_charts, row_questions, row_story
from explainers.stories.online_softmax.row_story import RowStory
from explainers.stories.registers import thread_questions, threads
from explainers.stories.tiling import tiling
from explainers.story import picture, stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.run.results import Run


@dataclass(frozen=True)
class Row:
    """A row of the traced query tile.

    row: its number in the head.
    """

    request: Request
    row: int


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return pages.of_tiles(online_softmax, catalog)


def subject(page: Page, state: State, backend: str) -> Row:
    request = places.request(page, state, backend)
    return Row(request, picture.query_rows(request)[1] + state["row"])


def make(row: Row) -> Stage:
    run, story = _of(row)
    known = {*tiling.WANTS, *online_softmax.WANTS}
    odd = generic.beside(run, picture.places(row.request), known, story.steps)
    beside = [threads.view(run, story.steps), *odd]
    made = online_softmax.stage_of(run, story, row.row, running.provenance(run), beside)
    ordinary = row_story.is_ordinary(run.request.kernel)
    more = row_questions.ordinary_row(story.frames, story.first_wrong, ordinary, story.o_values.shape[1])
    return replace(made, questions=[*made.questions, *more, *thread_questions.shared_pictures(made)])


def charts_tab(row: Row) -> list[Block]:
    """m and l after each tile."""
    run, story = _of(row)
    charts = [
        [stage.chart(row_charts.state_chart(story, name), f"The {said} after each tile", title=said.capitalize())]
        for name, said in (("m", "running max m"), ("l", "running sum l"))
    ]
    told = f"Logged: {run.provenance}. float64: modelled, for the same keys and the same m."
    return [stage.row(*charts), stage.text(told)]


def ordinary_tab(row: Row) -> list[Block]:
    """The same row by ordinary softmax."""
    run, story = _of(row)
    told = f"Bars: ordinary softmax in float64 (modelled). Points: each key in this kernel ({run.provenance})."
    alt_text = "The row's weights by ordinary softmax and in this kernel"
    weights = stage.chart(row_charts.ordinary_chart(story), alt_text, told, "What each key counts for in the end")
    table = stage.table(online_softmax.ordinary_table(story), "At the end of the row.")
    return [stage.row([weights], [table])]


def _of(row: Row) -> tuple[Run, RowStory]:
    run = running.run(row.request)
    return run, online_softmax.explain(run, row.row)


STORY = Story(
    path="online_softmax",
    title="Online softmax",
    look="Watch the running max m, and what becomes of l and O when a tile brings a larger score: all that they hold "
    "so far counts against the old max. That is why a row needs one pass over its keys and is never stored.",
    page=page,
    subject=subject,
    order=20,
    make=make,
    parts={
        "charts": charts_tab,
        "ordinary": ordinary_tab,
        **tabs.PARTS,
    },
)
