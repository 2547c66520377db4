"""The story of tensor cores: one product at a time, with the lane and register of every number."""

from dataclasses import dataclass

from explainers.stories.tensor_cores import tensor_cores, tensor_products
from explainers.stories.tensor_cores.product_frames import WORDS, ProductStory
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec


@dataclass(frozen=True)
class Unit:
    """A warp or warpgroup of the traced block.

    unit: its number.
    key_tile: the first key tile of the picture.
    """

    request: Request
    unit: int
    key_tile: int


class TensorCores(Story[Unit]):
    """The products of one warp or warpgroup."""

    WANTS = tensor_cores.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return tensor_cores.refusal(spec)

    def stage(self, subject: Unit, runner: Runner) -> Stage:
        run = runner.run(subject.request)
        return tensor_cores.stage_of(run, _products(subject, runner), runner.provenance(run), runner.broken(run))

    def parts(self) -> dict[str, Part[Unit]]:
        return {"layout": layout_tab, "fetches": fetches_tab}


def _products(subject: Unit, runner: Runner) -> ProductStory:
    return tensor_cores.explain(runner.run(subject.request), subject.unit, subject.key_tile)


def layout_tab(subject: Unit, runner: Runner) -> list[Block]:
    """The elements of the first products, lane by lane."""
    by_warp = tensor_products.units(subject.request)[0] == "warp"
    table = tensor_cores.layout_table(_products(subject, runner))
    return [stage.heading("Who holds which element"), stage.table(table, WORDS.say("layout", {"by_warp": by_warp}))]


def fetches_tab(subject: Unit, runner: Runner) -> list[Block]:
    """The cost of the ldmatrix of each source line."""
    table = tensor_cores.fetches_table(_products(subject, runner))
    if table.empty:
        said = "No ldmatrix. The tensor cores read A and B from shared memory. TMA has swizzled both."
        return [stage.note(said)]
    said = f"Warp {subject.unit}: addresses logged, wavefronts derived. Each of four matrices needs at least one."
    return [stage.heading("The cost of ldmatrix, line by line"), stage.table(table, said)]


STORY = TensorCores()
