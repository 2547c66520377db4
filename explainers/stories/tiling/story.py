"""The story of tiles: a block's part of Q, K^T, S, V and O, and the bytes saved by tiles."""

from dataclasses import replace

from explainers.models import generic, grid, race, softmax_rows, threads, tiling
from explainers.models.frames import Heights, MatricesMeta
from explainers.stories.tiling import reuse, tile_questions, traffic, trips
from explainers.story import picture, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run


class Tiles(Story[Request]):
    """One query tile, step by step, on the matrices of attention."""

    WANTS = tiling.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return tiling.refusal(spec)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        known = {*tiling.WANTS, *softmax_rows.WANTS}
        whole_grid = grid.view(subject, runner.live_gpu(), offers=True)
        others = generic.other_views(run, picture.places(subject), known)
        made = tiling.stage_of(run, runner.provenance(run), [threads.view(run), whole_grid, *others])
        matrices, *more = made.views
        matrices = replace(matrices, meta=matrices.meta | hand(run, matrices.meta))
        made = replace(made, views=[matrices, *reuse.views(run, matrices.meta), *more, trips.view(), race.view()])
        summary, tone = runner.broken(run)
        found = tile_questions.query_tile(run, made)
        made = replace(made, offer=softmax_rows.offer(run, runner), step=len(made.frames) - 1 if tone == "bad" else 0)
        return replace(
            made,
            questions=[*found, *trips.questions(), *race.questions()],
            summary=summary or made.summary,
            tone=tone or made.tone,
        )


def hand(run: Run, meta: MatricesMeta) -> dict[str, Heights]:
    """The heights of a query tile that the reader can choose, as the field `heights`. Without tiles of keys in shared
    memory, or without a choice, {}."""
    constant, frames = run.request.kernel.constant_of("query_rows"), meta["frames"]
    symbol = next(symbol for symbol, place in meta["places"].items() if place == "K")
    scored = next((n for n, frame in enumerate(frames) if frame["scores"]), len(frames) - 1)
    if constant is None or len(constant.values) < 2 or not any(frame["reads"].get(symbol) for frame in frames):
        return {}
    width = meta["d"] * picture.tensor_at(run.request, "K").itemsize
    once = tiling.times_of_k(frames, symbol, width)[-1] == 1
    tiles = len({block[0] for block in meta["blocks"]})
    names = {"tiles": tiles, "queries": meta["n"], "whole": once and not meta["causal"]}
    now = run.request.constants[constant.name]
    said = reuse.WORDS.say("trips", names)
    return {"heights": {"name": constant.name, "values": [*constant.values], "now": now, "said": said, "since": scored}}


def bytes_tab(subject: Request, others: list[Request], runner: Runner) -> list[Block]:
    """The bytes of each tensor, step by step, and for each kernel.

    others: the request for every kernel of the page with this problem.
    """
    run = runner.run(subject)
    story = tiling.explain(run)
    counted, absent = runner.traffic_of_each(others)
    factors = traffic.reuse(counted)
    table = factors.pivot(index="kernel", columns="tensor", values="reuse")[list(dict.fromkeys(factors.tensor))]
    table = table.reindex([other.kernel.title for other, _ in counted]).round(3).convert_dtypes().reset_index()
    said = (
        "Bytes read and written so far, by tensor. A line marks the step",
        f"This query tile, step by step ({run.provenance}).",
        "Bytes from and to global memory",
    )
    each = " ".join([traffic.sentence(counted), *absent])
    factor = "Reuse factor (derived): multiply-adds that use an element, over elements fetched from global memory."
    return [
        stage.row(
            [stage.chart(traffic.cumulative_chart(run, story), *said)],
            [
                stage.chart(
                    traffic.chart(counted), "How many times each kernel moves each tensor", each, "Kernel by kernel"
                )
            ],
            [stage.table(table, factor)],
        )
    ]


STORY = Tiles()
