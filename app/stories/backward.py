"""Backward: the gradients of attention, tile by tile."""

from collections.abc import Mapping

from app.choices import block_places, pages
from app.choices.page import Page
from app.parts.explained import story_of
from explainers.stories.backward import story as backward
from kernels.catalog import Catalog
from kernels.core.spec import KernelSpec

LEAST, TILE = 16, 32  # keys of the smallest tile, and of a tile without a constant
MOST = 128  # tokens of three tiles. Of larger tiles, two fill a stage


def small(kernel: KernelSpec) -> Mapping[str, object]:
    """One head of a few tiles."""
    constant = kernel.constant_of("key_rows")
    keys = max(TILE, min((v for v in constant.values if v >= LEAST), default=TILE) if constant else TILE)
    return {"seq_len": (3 if 3 * keys <= MOST else 2) * keys, "num_heads": 1}


def page(catalog: Catalog) -> Page:
    return pages.accepted_by(
        backward.STORY,
        catalog,
        first=(backward.STORY.first(catalog.kernels),),
        defaults_of=small,
        sizes=pages.SMALL_TILES,
        refusal=backward.STORY.refusal,
        **block_places.HOOKS,
    )


STORY = story_of(
    backward.STORY,
    path="backward",
    title="Backward",
    look="Watch P come back from Q, K and one number per query. dK and dV stay in registers, and dQ does not. "
    "Details answers five questions about the backward.",
    order=85,
    needs_kernels=True,
    page=page,
    subject=block_places.request,
)
