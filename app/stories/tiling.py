"""Tiling: which part of Q, K^T, S, V and O a block works on, what it holds, and what that saves."""

from app.choices import State, estimates, places
from app.choices.pages import TILING
from app.parts import running, tabs
from app.parts.story import Story
from explainers.stories.tiling import story as tiles
from explainers.stories.tiling import tiling, traffic
from explainers.story import stage
from explainers.story.stage import Block, Stage
from kernels.core.request import Request


def what(state: State, backend: str) -> Request:
    return places.request(TILING, state, backend)


def make(request: Request) -> Stage:
    return tiles.STORY.stage(request, running)


def bytes_tab(request: Request) -> list[Block]:
    """What each tensor costs, step by step and kernel beside kernel."""
    run = running.run(request)
    story = tiling.explain(run)
    counted, absent = running.traffic_of_each(TILING.others_on(request))
    factors = traffic.reuse(counted)
    table = factors.pivot(index="kernel", columns="tensor", values="reuse")[list(dict.fromkeys(factors.tensor))]
    table = table.reindex([other.kernel.title for other, _ in counted]).round(3).convert_dtypes().reset_index()
    return [
        stage.row(
            [
                stage.chart(
                    traffic.cumulative_chart(run, story),
                    "Bytes read and written so far, by tensor; a rule marks the step",
                    f"This query tile, step by step ({run.provenance}).",
                    "Bytes from and to global memory",
                )
            ],
            [
                stage.chart(
                    traffic.chart(counted),
                    "How many times each kernel moves each tensor",
                    " ".join([traffic.sentence(counted), *absent]),
                    "Kernel beside kernel",
                )
            ],
            [
                stage.table(
                    table,
                    "Reuse factor (derived): multiply-adds that use an element, over elements fetched from global "
                    "memory.",
                )
            ],
        )
    ]


STORY = Story(
    path="tiling",
    title="Why tiles",
    look="Watch which rows of K and V a block copies into shared memory, and how often it goes back for them. "
    "Every byte that is read twice from global memory could have been read once and kept.",
    asked=TILING,
    what=what,
    make=make,
    launches={"bytes": lambda what: estimates.traffic(TILING.others_on(what))},
    parts={"bytes": bytes_tab, "builds": tabs.builds, "data": tabs.data},
    narrowed=places.narrowed,
)
