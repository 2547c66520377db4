"""Backward: the gradients of attention, tile by tile."""

from functools import lru_cache

from app.choices import block_places, pages
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.backward import story as backward
from kernels.catalog import Catalog
from kernels.core.request import Request

SMALL = {"seq_len": 96, "num_heads": 1}  # three tiles


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return pages.accepted_by(
        backward.STORY,
        catalog,
        own=block_places.OWN,
        defaults=SMALL,
        sizes=pages.SMALL_TILES,
        one_what_if=True,
        correct=block_places.correct,
        describe=block_places.describe,
        refusal=backward.STORY.refusal,
    )


def subject(page: Page, state: State, backend: str) -> Request:
    return block_places.request(page, state, backend)


STORY = story_of(
    backward.STORY,
    path="backward",
    title="Backward",
    look="Watch P come back from Q, K and one number per query. dK and dV stay in registers, and dQ does not.",
    order=85,
    needs_kernels=True,
    page=page,
    subject=subject,
)
