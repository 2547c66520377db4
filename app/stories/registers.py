"""Registers and tensor cores: the lanes that hold the parts of a row, and the rest of the work for shared memory."""

from dataclasses import replace
from functools import lru_cache

import pandas as pd

from app.choices import estimates, pages, places
from app.choices.page import Page, State
from app.parts import running, tabs
from app.parts.story import Story
from explainers.stories.any_kernel import generic
from explainers.stories.occupancy import block_questions, grid
from explainers.stories.online_softmax import online_softmax
from explainers.stories.online_softmax.story import Row
from explainers.stories.registers import holder_questions, holders, threads
from explainers.stories.tiling import tiling
from explainers.story import picture, stage
from explainers.story.stage import Block, Stage
from kernels.build import Mode, build
from kernels.catalog import Catalog, current
from kernels.core.request import Request
from kernels.errors import WarpglassError


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    tiled = pages.of_tiles(tiling, catalog)
    return replace(tiled, first=(threads.first(tiled.kernels.values()).name,)) if tiled.kernels else tiled


def subject(page: Page, state: State, backend: str) -> Row:
    request = places.request(page, state, backend)
    return Row(request, picture.query_rows(request)[1] + state["row"])


def make(row: Row) -> Stage:
    run = running.run(row.request)
    tiles, lanes = tiling.explain(run), threads.explain(run)
    odd = generic.beside(run, picture.places(row.request), {*tiling.WANTS, *online_softmax.WANTS})
    made = tiling.stage_of(run, running.provenance(run), odd)
    whole = grid.view(row.request, running.live_gpu(), offers=True)
    return replace(
        made,
        views=[threads.view(run, story=lanes), *made.views, whole],
        state=[*holders.states(tiles, lanes, row.row), *made.state],
        tabs=[stage.Tab("kernels", "Registers of each kernel"), tabs.BUILDS, tabs.DATA],
        step=holders.first_held(lanes, row.row),
        questions=[*holder_questions.questions(run, tiles, lanes, row.row), *block_questions.multiprocessors(whole)],
    )


def kernels_tab(row: Row) -> list[Block]:
    """Registers and shared memory of each kernel on this problem."""
    rows, absent = [], []
    for request in page(current()).others_on(row.request):
        try:
            rows += _rows(request, tabs.arch_of(row.request), request == row.request)
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
    page=page,
    subject=subject,
    order=30,
    make=make,
    launches={"kernels": lambda row: estimates.run(page(current()).others_on(row.request))},
    parts={
        "kernels": kernels_tab,
        **tabs.PARTS,
    },
)
