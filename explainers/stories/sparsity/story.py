"""The story of sparsity: a mask as blocks, the list of a query block, and the gain and cost of skipped blocks."""

from dataclasses import dataclass, replace

from explainers.stories.sparsity import sparsity, sparsity_ledger
from explainers.story.base import Runner, Story
from explainers.story.stage import Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec


@dataclass(frozen=True)
class Walked:
    """A row of the traced query block.

    row: its number in the head.
    """

    request: Request
    row: int


class Sparsity(Story[Walked]):
    """One row's way through the list of its query block."""

    WANTS = sparsity.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return sparsity.refusal(spec)

    def stage(self, subject: Walked, runner: Runner) -> Stage:
        run = runner.run(subject.request)
        walk = sparsity.stage_of(run, subject.row, runner.provenance(run))
        effect, tone = runner.broken(run)
        ledger = sparsity_ledger.summary(sparsity_ledger.ledger(run))
        return replace(walk, summary=" ".join(filter(None, [effect, ledger])), tone=tone or walk.tone)


STORY = Sparsity()
