"""Paging: a KV cache in pages, the kernels that read it, and the sharing between query heads."""

from functools import lru_cache

from app.choices.page import Page
from app.parts.explained import story_of
from app.parts.story import tab_of
from app.stories.block_table import choices, corrections, tabs_of_views
from app.stories.block_table.subjects import subject
from explainers.stories.block_table import story
from explainers.stories.block_table.subjects import Cache, Partitions, Run, Walk
from kernels.catalog import Catalog
from kernels.kv_cache.scenarios import SHOWN_PARTITION


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    kernels = choices.walkers(catalog)
    return Page(
        catalog,
        kernels,
        tuple(list(kernels)[:1]),
        own=choices.OWN,
        sizes={"partition": SHOWN_PARTITION},
        without=choices.GIVEN,
        every_constant=True,
        recorded=False,
        elsewhere=lambda kernel: choices.view_of(catalog, kernel),
        correct=corrections.correct,
        adapt=corrections.adapt,
        describe=choices.describe,
    )


STORY = story_of(
    story.STORY,
    path="block_table",
    title="Paging",
    look="Follow an entry of the block table to its page. The pages of one sequence are anywhere in the pool, in no "
    "order. See the cost, one more read for each page, and the gain: nobody reserves slots.",
    order=40,
    page=page,
    subject=subject,
    parts={
        "writes": tab_of(Cache, tabs_of_views.writes),
        "shuffle": tab_of(Walk, tabs_of_views.shuffle, lambda walk: walk.plain),
        "blocks": tab_of(Partitions, tabs_of_views.blocks),
        "builds": tab_of(Run, tabs_of_views.builds),
        "data": tab_of(Run, tabs_of_views.data),
    },
)
