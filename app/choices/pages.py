"""Builds the pages of explainers from the catalogue, and holds the parts that several pages share."""

from typing import Any, Protocol

from app.choices import places
from app.choices.choice import Choice
from app.choices.page import Page
from explainers.models import tiling
from explainers.story import probed
from kernels.build.occupancy import MACHINES
from kernels.catalog import Catalog
from kernels.core.launch import ConstantRole
from kernels.core.spec import KernelSpec


class Explains(probed.Wanting, Protocol):
    """An explainer, as far as a page lists its kernels: a module, or a Story of explainers.story.base."""

    def refusal(self, spec: KernelSpec, /) -> str: ...


SMALL_TILES: dict[ConstantRole, int] = {"query_rows": 16, "key_rows": 16}  # a small problem then has several tiles
LARGE = {"seq_len": 4096, "head_dim": 64, "num_heads": 8}  # enough blocks to fill a GPU
ARCHES = tuple(f"{arch}a" if arch in ("sm_90", "sm_100", "sm_120") else arch for arch in MACHINES)


def accepted_by(story: probed.Wanting, catalog: Catalog, **more: Any) -> Page:
    """The page of an explainer's kernels. The default kernel has most of the explainer's events."""
    kernels = probed.accepting(story, catalog.kernels)
    if "first" not in more and kernels:
        more["first"] = (probed.first(story, catalog.kernels).name,)
    return Page(catalog, kernels, **more)


def of_tiles(story: Explains, catalog: Catalog, **more: Any) -> Page:
    """The page of an explainer that follows one query tile of attention."""
    tiles = {
        "own": places.TILE,
        "sizes": SMALL_TILES,
        "one_what_if": True,
        "correct": places.correct,
        "describe": places.describe,
        "refusal": story.refusal,
    }
    return accepted_by(story, catalog, **tiles | more)


def two_rungs(catalog: Catalog) -> tuple[str, str]:
    """The default pair to compare and to time: the first kernel with tiles, and the kernel that changes it by one
    idea."""
    tiled = probed.first(tiling, catalog.kernels)
    next_rung = next((other for other in catalog.kernels.values() if other.changed_from == tiled.name), tiled)
    return tiled.name, next_rung.name


def one_of(*allowed: str) -> Choice:
    """A choice of texts. The first is the default."""
    return Choice(allowed[0], allowed, stays=True)
