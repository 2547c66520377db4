"""Registers and tensor cores: which lanes hold which part of a row, and what shared memory is then left to do."""

from dataclasses import replace

import pandas as pd

from app.choices import State, estimates, places
from app.choices.pages import REGISTERS
from app.parts import running, tabs
from app.parts.story import Story
from app.stories.online_softmax import Row
from explainers.stories.any_kernel import generic
from explainers.stories.occupancy import block_questions, grid
from explainers.stories.online_softmax import online_softmax
from explainers.stories.registers import holder_questions, holders, threads
from explainers.stories.tiling import tiling
from explainers.story import picture, stage
from explainers.story.stage import Block, Stage
from kernels.build import Mode, build
from kernels.core.request import Request
from kernels.errors import WarpglassError


def what(state: State, backend: str) -> Row:
    request = places.request(REGISTERS, state, backend)
    return Row(request, picture.query_rows(request)[1] + state["row"])


def make(what: Row) -> Stage:
    run = running.run(what.request)
    tiles, lanes = tiling.explain(run), threads.explain(run)
    odd = generic.beside(run, picture.places(what.request), {*tiling.WANTS, *online_softmax.WANTS})
    made = tiling.stage_of(run, running.provenance(run), odd)
    whole = grid.view(what.request, running.live_gpu(), offers=True)
    return replace(
        made,
        views=[threads.view(run, story=lanes), *made.views, whole],
        state=[*holders.states(tiles, lanes, what.row), *made.state],
        tabs=[stage.Tab("kernels", "Registers of each kernel"), tabs.BUILDS, tabs.DATA],
        step=holders.first_held(lanes, what.row),
        questions=[*holder_questions.questions(run, tiles, lanes, what.row), *block_questions.multiprocessors(whole)],
    )


def kernels_tab(what: Row) -> list[Block]:
    """Registers and shared memory of each kernel on this problem."""
    rows, absent = [], []
    for request in REGISTERS.others_on(what.request):
        try:
            rows += _rows(request, tabs.arch_of(what.request), request == what.request)
        except WarpglassError as error:
            absent.append(running.not_compared(request, error))
    if not rows:
        return [stage.note(" ".join(absent))]
    said = "Of the timed builds, per launch. P lies in: where the weights are, and the most that a block holds of them."
    table = stage.table(pd.DataFrame(rows), " ".join([said, *absent]), lit="chosen")
    return [stage.heading("Registers and shared memory, kernel beside kernel"), table]


def _rows(request: Request, arch: str, chosen: bool) -> list[dict]:
    facts = {fact.entry: fact for fact in build(request.kernel, request.defines, Mode.TIMED, arch).facts}
    weights = holders.weights_said(running.run(request))
    return [
        {
            "kernel": f"{request.kernel.name} {request.kernel.title}",
            "launch": launch.entry,
            "threads of a block": launch.threads,
            "registers of a thread": facts[launch.entry].registers,
            "registers of a block": facts[launch.entry].registers * launch.threads,
            "shared bytes of a block": facts[launch.entry].shared_bytes + launch.shared_bytes,
            "P lies in": weights,
            "chosen": chosen,
        }
        for launch in request.plan.launches
    ]


STORY = Story(
    path="registers",
    title="Registers",
    look="Each lane has elements of S, P and O of its own: look for where they are kept. A row is shared by lanes of "
    "one warp, which find its max and its sum by shuffles.",
    asked=REGISTERS,
    what=what,
    make=make,
    launches={"kernels": lambda what: estimates.run(REGISTERS.others_on(what.request))},
    parts={
        "kernels": kernels_tab,
        **tabs.PARTS,
    },
    narrowed=places.narrowed,
)
