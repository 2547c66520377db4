"""Registers: the lanes with the parts of a row, and the rest of the work for shared memory."""

from dataclasses import replace

import pandas as pd

from explainers.models import generic, grid, softmax_rows, threads, tiling
from explainers.models.softmax_rows import Row
from explainers.stories.registers import holders, lanes, shuffles
from explainers.story import axes, picture, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Stage
from explainers.story.words import Words
from kernels.build import Mode, build
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.trace.kinds import READS

WORDS = Words.of(str(__package__))
STRIP = ("asked for so far", "written so far", "in shared memory", "it holds")  # of the entries of Tiles


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
        walk = shuffles.view(run, tiles, of_scores, subject.row)
        of_row = [walk] if walk else lanes.views(tiles, of_scores, subject.row)
        shown = [*of_row, threads.view(run, story=own)]
        return replace(
            matrices,
            views=[*shown, *matrices.views, whole_grid],
            state=[*holders.states(tiles, own, subject.row), *(s for s in matrices.state if s.name in STRIP)],
            tabs=[stage.Tab("kernels", "Registers of each kernel"), stage.BUILDS, stage.DATA],
            step=holders.first_held(own, subject.row),
            offer=softmax_rows.offer(run, runner),
            summary=WORDS.say("summary", reads_of_k(tiles)),
            questions=WORDS.questions({}, len(matrices.frames) - 1) if walk else [],
        )


def reads_of_k(tiles: tiling.Tiling) -> dict[str, int]:
    """The bytes of K read from shared memory (shared) and from global memory (loaded), and their ratio (again). The
    ratio is 0 below 1.5, and if it is no whole number, for example with another type in shared memory."""
    table = tiles.traffic[tiles.traffic.tensor == next(name for name, at in tiles.places.items() if at == "K")]
    shared = int(table[(table.space == "shared") & table.kind.isin(READS)].bytes.sum())
    loaded = int(table[(table.space == "global") & (table.kind == "load")].bytes.sum())
    times = shared / loaded if loaded else 0.0
    whole = times >= 1.5 and abs(times - round(times)) <= 0.01
    return {"shared": shared, "loaded": loaded, "again": round(times) if whole else 0}


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
    table = stage.table(pd.DataFrame(rows), " ".join([WORDS.say("kernels", {}), *absent]), lit="chosen")
    return [stage.heading("Registers and shared memory, kernel by kernel"), table]


def _rows(request: Request, arch: str, chosen: bool, runner: Runner) -> list[dict[str, object]]:
    """A row for each launch of the kernel."""
    facts = {fact.entry: fact for fact in build(request.kernel, request.defines, Mode.TIMED, arch).facts}
    tiles = tiling.explain(runner.run(request))
    stored = axes.tensors(request).get(next((name for name, at in tiles.places.items() if at == "P"), ""))
    held = max(holders.weight_bytes(tiles, frame) for frame in tiles.frames)
    weights = WORDS.say("memory_of_p", {"held": held, "stored": stored.nbytes if stored else 0})
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
