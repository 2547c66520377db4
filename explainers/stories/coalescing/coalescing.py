"""Coalescing: the 32-byte sectors that each request of a warp touches, and the used part of each."""

from collections.abc import Mapping, Sequence

from explainers.charts.palette import WAVEFRONTS
from explainers.stories.coalescing import sector_questions
from explainers.stories.coalescing.frames import SectorSide, SectorsMeta
from explainers.stories.coalescing.sector_walk import Story, fewest
from explainers.story import probed, stage
from explainers.story.frames import SectorRequest
from explainers.story.glossary import count
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.memory import model

WANTS = ("score",)
LAYOUT = "layout"  # the field of a problem for the order of its elements


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has a probe of a global-memory access."""
    return probed.accesses(spec, "global")


def has_layouts(spec: KernelSpec) -> bool:
    """Whether the kernel's problem is one access of a chosen width, in several layouts."""
    return {LAYOUT, "width"} <= set(fields_of(spec.problem_type))


def stage_of(
    story: Story,
    run: Run,
    provenance: stage.Provenance,
    chosen: str = "",
    late: Sequence[Mapping[str, object]] = (),
    told: Sequence[str] = (),
) -> stage.Stage:
    """Returns the whole stage of one run, or of the chosen one of several layouts."""
    own = next(side for side in story.sides if side["name"] == chosen)
    alone: list[SectorSide] = [{"name": "", "requests": own["requests"]}]
    only: SectorsMeta = {"sides": alone}
    views = [stage.View("sectors", "sectors", "The chosen layout" if chosen else "Sectors", only)]
    tabs = [stage.Tab("lines", "Every access"), stage.Tab("builds", "Builds"), stage.Tab("data", "Data and labels")]
    if chosen:
        every: SectorsMeta = {"sides": story.sides, "chosen": chosen}
        views.insert(0, stage.View("sectors", "layouts", "Layouts side by side", every))
        tabs.insert(0, stage.Tab("layouts", "Layouts"))
    return stage.of_request(
        run.request,
        story.frames,
        views,
        state=states(own["requests"]),
        tabs=tabs,
        provenance=provenance,
        late=late,
        told=told,
        questions=sector_questions.sectors(own["requests"]),
    )


def states(requests: Sequence[SectorRequest]) -> list[stage.State]:
    """Returns the strip: the sectors and lines of a request, and the used share."""
    moved = [r["sectors"] * model.SECTOR for r in requests]
    use = [round(100 * r["used"] / m, 1) if m else 0.0 for r, m in zip(requests, moved)]
    found = [
        stage.State("sectors", [r["sectors"] for r in requests], colour=WAVEFRONTS["moved"]),
        stage.State("at best", [str(fewest(r["used"])) for r in requests]),
        stage.State("lines of 128 bytes", [str(r["lines"]) for r in requests]),
        stage.State("bytes used", [f"{r['used']:,} of {m:,} moved" for r, m in zip(requests, moved)]),
        stage.State("use", use, "%", colour=WAVEFRONTS["before"]),
    ]
    if any(r["alike"] > 1 for r in requests):
        found.append(stage.State("alike", [count(r["alike"], "request") for r in requests]))
    return found
