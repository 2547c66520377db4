"""Tensor cores: one instruction that multiplies at a time, with the lane and register of every number."""

from dataclasses import dataclass
from functools import lru_cache

from app.choices import pages, places
from app.choices.page import Page, State
from app.parts import running, tabs
from app.parts.story import Story
from app.stories.tensor_cores import choices
from explainers.stories.tensor_cores import product_frames, tensor_cores, tensor_products
from explainers.story import stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog
from kernels.core.request import Request


@dataclass(frozen=True)
class Look:
    """The shown products.

    unit: the number of the warp or warpgroup.
    key_tile: the first key tile.
    """

    request: Request
    unit: int
    key_tile: int


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    own = {"own": choices.OWN, "correct": choices.correct, "describe": choices.describe}
    return pages.of_tiles(tensor_cores, catalog, **own)


def subject(page: Page, state: State, backend: str) -> Look:
    return Look(places.request(page, state, backend), state["unit"], state["key_tile"])


def make(look: Look) -> Stage:
    run = running.run(look.request)
    return tensor_cores.stage_of(run, _story(look), running.provenance(run), running.broken(run))


def _story(look: Look) -> product_frames.ProductStory:
    return tensor_cores.explain(running.run(look.request), look.unit, look.key_tile)


def layout_tab(look: Look) -> list[Block]:
    """The elements of the first products, lane by lane."""
    by_warp = tensor_products.units(look.request)[0] == "warp"
    said = "Row and column within the product, for lanes 0, 1, 4 and 31, " + (
        "from the addresses that lanes gave to ldmatrix and from who logged what."
        if by_warp
        else "from who logged what: rows 0 to 15 belong to the first of four warps, each next 16 to the next one. A "
        "wgmma has more registers than the four that stand here."
    )
    return [stage.heading("Who holds which element"), stage.table(tensor_cores.layout_table(_story(look)), said)]


def fetches_tab(look: Look) -> list[Block]:
    """The cost of the ldmatrix on each source line."""
    made = tensor_cores.fetches_table(_story(look))
    if made.empty:
        return [
            stage.note(
                "No ldmatrix: the tensor cores fetch A and B from shared memory, in which TMA has swizzled them."
            )
        ]
    said = f"Of warp {look.unit}: addresses logged, wavefronts derived. At best each of four matrices takes one."
    return [stage.heading("What ldmatrix costs, line by line"), stage.table(made, said)]


STORY = Story(
    path="tensor_cores",
    title="Tensor cores",
    look="Each lane brings a few numbers of A and B and gets a few of C: look for which lane has which. A click on an "
    "element of C shows the sixteen products that one instruction adds to it, a click on one of A or B its way there.",
    page=page,
    subject=subject,
    order=60,
    make=make,
    parts={"layout": layout_tab, "fetches": fetches_tab, **tabs.PARTS},
)
