"""The story of tiles: a block's part of Q, K^T, S, V and O, and the bytes saved by tiles."""

from dataclasses import replace

from explainers.stories.any_kernel import generic
from explainers.stories.occupancy import grid
from explainers.stories.online_softmax import online_softmax
from explainers.stories.registers import thread_questions, threads
from explainers.stories.tiling import reuse, tile_questions, tiling
from explainers.story import picture
from explainers.story.base import Runner, Story
from explainers.story.stage import Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec


class Tiles(Story[Request]):
    """One query tile, step by step, on the matrices of attention."""

    WANTS = tiling.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return tiling.refusal(spec)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        known = {*tiling.WANTS, *online_softmax.WANTS}
        whole_grid = grid.view(subject, runner.live_gpu(), offers=True)
        others = generic.beside(run, picture.places(subject), known)
        made = tiling.stage_of(run, runner.provenance(run), [threads.view(run), whole_grid, *others])
        matrices, *more = made.views
        made = replace(made, views=[matrices, *reuse.views(run, matrices.meta), *more])
        summary, tone = runner.broken(run)
        asked = [*tile_questions.query_tile(run, made), *thread_questions.shared_pictures(made)]
        return replace(made, questions=asked, summary=summary, tone=tone or made.tone)


STORY = Tiles()
