"""The story of registers: the lanes with the parts of a row, and the rest of the work for shared memory."""

from dataclasses import replace

import pandas as pd

from explainers.models import generic, grid, softmax_rows, threads, tiling
from explainers.models.softmax_rows import Row
from explainers.stories.registers import holder_questions, holders, lanes
from explainers.story import picture, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Stage
from kernels.build import Mode, build
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError

STRIP = ("asked for so far", "written so far", "in shared memory", "it holds")  # of the entries of Why tiles


class Registers(Story[Row]):
    """The lanes of one row of a query tile."""

    WANTS = tiling.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return tiling.refusal(spec)

    def stage(self, subject: Row, runner: Runner) -> Stage:
        request = subject.request
        run = runner.run(request)
        tiles, own = tiling.explain(run), threads.explain(run)
        of_scores = lanes.explain(run, tiles, own)
        others = generic.other_views(run, picture.places(request), {*tiling.WANTS, *softmax_rows.WANTS})
        matrices = tiling.stage_of(run, runner.provenance(run), others)
        whole_grid = grid.view(request, runner.live_gpu(), offers=True)
        shown = [*lanes.views(tiles, of_scores, subject.row), threads.view(run, story=own)]
        return replace(
            matrices,
            views=[*shown, *matrices.views, whole_grid],
            state=[*holders.states(tiles, own, subject.row), *(s for s in matrices.state if s.name in STRIP)],
            tabs=[stage.Tab("kernels", "Registers of each kernel"), stage.BUILDS, stage.DATA],
            step=holders.first_held(own, subject.row),
            offer=softmax_rows.offer(run, runner),
            summary=holders.summary(*holder_questions.shared_times(tiles)),
            questions=holder_questions.questions(run, tiles, of_scores, subject.row),
        )


def kernels_tab(subject: Row, others: list[Request], arch: str, runner: Runner) -> list[Block]:
    """Registers and shared memory of each kernel on this problem.

    others: the request for every kernel of the page with this problem.
    arch: the architecture of the builds.
    """
    rows, absent = [], []
    for request in others:
        try:
            rows += _rows(request, arch, request == subject.request, runner)
        except WarpglassError as error:
            absent.append(runner.not_compared(request, error))
    if not rows:
        return [stage.note(" ".join(absent))]
    said = "Timed builds, by launch. The last column names the memory of the weights P, with the most bytes of a block."
    table = stage.table(pd.DataFrame(rows), " ".join([said, *absent]), lit="chosen")
    return [stage.heading("Registers and shared memory, kernel by kernel"), table]


def _rows(request: Request, arch: str, chosen: bool, runner: Runner) -> list[dict[str, object]]:
    """A row for each launch of the kernel."""
    facts = {fact.entry: fact for fact in build(request.kernel, request.defines, Mode.TIMED, arch).facts}
    weights = holders.weights_said(runner.run(request))
    return [
        {
            "kernel": f"{request.kernel.name} {request.kernel.title}",
            "launch": launch.entry,
            "threads of a block": launch.threads,
            "registers of a thread": facts[launch.entry].registers,
            "registers of a block": facts[launch.entry].registers * launch.threads,
            "shared bytes of a block": facts[launch.entry].shared_bytes + launch.shared_bytes,
            "memory of P": weights,
            "chosen": chosen,
        }
        for launch in request.plan.launches
    ]


STORY = Registers()
