"""Registers: the lanes of a row, and the rest of the work for shared memory."""

from dataclasses import replace

from app.choices import estimates, pages, places
from app.choices.page import Page, State
from app.parts import running, tabs
from app.parts.explained import story_of
from explainers.models import threads
from explainers.models.softmax_rows import Row
from explainers.stories.registers import story
from explainers.story import picture
from explainers.story.stage import Block
from kernels.catalog import Catalog, current
from kernels.core.request import Request


def page(catalog: Catalog) -> Page:
    tiled = pages.of_tiles(story.STORY, catalog)
    return replace(tiled, first=(threads.first(tiled.kernels.values()).name,)) if tiled.kernels else tiled


def subject(page: Page, state: State, backend: str) -> Row:
    request = places.request(page, state, backend)
    return Row(request, picture.query_rows(request)[1] + state["row"])


def others(row: Row) -> list[Request]:
    """The request for every kernel of the page that solves its problem."""
    return STORY.page(current()).others_on(row.request)


def kernels_tab(row: Row) -> list[Block]:
    return story.kernels_tab(row, others(row), tabs.arch_of(row.request), running)


STORY = story_of(
    story.STORY,
    path="registers",
    title="In registers",
    look="Each lane keeps its own scores and weights in registers. Neighbouring lanes share a row, and find its "
    "max and its sum by shuffles.",
    page=page,
    subject=subject,
    order=30,
    pictures=("threads",),
    launches={"kernels": lambda row: estimates.run(others(row))},
    parts={"kernels": kernels_tab},
)
