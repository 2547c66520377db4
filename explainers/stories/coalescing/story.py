"""The story of coalescing: a kernel's requests of global memory, or one request in several ways or layouts."""

from dataclasses import dataclass
from typing import Any

from explainers.charts.palette import WAVEFRONTS
from explainers.models import threads
from explainers.stories.coalescing import sector_walk
from explainers.stories.coalescing.frames import SectorsMeta
from explainers.stories.coalescing.sector_walk import WORDS, fewest
from explainers.story import probed, source_line, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count
from explainers.story.stage import Block, Stage, State, Tab, View
from explainers.story.words import Row
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.memory import model
from kernels.trace.memory.traced import Place

NAMES = {"row_major": "Row-major", "paged_split": "Paged K, split by x", "paged_whole": "Paged K, not split"}
LAYOUT, STRIDE = "layout", "stride"  # fields of a problem: the order of its elements
WAYS: dict[str, Row] = {  # title -> fields of the problem
    "Neighbours": {LAYOUT: "row_major"},
    "Every second": {LAYOUT: "strided", STRIDE: 2},
    "One late": {LAYOUT: "misaligned"},
    "Every eighth": {LAYOUT: "strided", STRIDE: 8},
}


@dataclass(frozen=True)
class Look:
    """The shown requests.

    request: the chosen one.
    layouts: the request under each layout; empty for a kernel's own accesses.
    ways: the titles of the WAYS of `layouts`; empty for all layouts side by side.
    line: the choice.
    """

    request: Request
    layouts: tuple[Request, ...]
    line: str
    ways: tuple[str, ...] = ()


class Coalescing(Story[Look]):
    """The sectors of each request, and their used part."""

    WANTS = ("score",)

    def refusal(self, spec: KernelSpec) -> str:
        return "" if probed.accesses(spec, "global") else f"{spec.name} has no probe of an access of global memory."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        run = runner.run(subject.request)
        if subject.ways:
            runs = {way: runner.run(request) for way, request in zip(subject.ways, subject.layouts)}
            walk = sector_walk.explain_ways(runs)
        elif subject.layouts:
            runs, chosen = _layouts(subject, runner), title_of(subject.request)
            walk = sector_walk.explain_layouts(runs, chosen, sector_walk.first_read(run))
            return stage_of(walk, run, chosen, provenance=runner.provenance(run))
        else:
            table = sector_walk.by_line(run)
            places = [
                Place(file, int(line), tensor) for file, line, tensor in zip(table.file, table.line, table.tensor)
            ]
            sites = source_line.logged(run, "global")
            at = source_line.choose(subject.line, run, sites, every="Every line, the worst use first")
            walk = sector_walk.explain(run, [at.at] if at.at else places)
            own: Row = {"late": [at.choice], "told": at.told, "more": threads.own_view(run)}
            return stage_of(walk, run, provenance=runner.provenance(run), **own)
        return stage_of(walk, run, ways=subject.ways, provenance=runner.provenance(run))

    def parts(self) -> dict[str, Part[Look]]:
        return {"lines": lines_tab, "layouts": layouts_tab}


def has_layouts(spec: KernelSpec) -> bool:
    """Whether the kernel's problem is one access of a chosen width, in several layouts."""
    return {LAYOUT, "width"} <= set(fields_of(spec.problem_type))


def has_ways(spec: KernelSpec) -> bool:
    fields = fields_of(spec.problem_type)
    layouts = {way[LAYOUT] for way in WAYS.values()}
    return has_layouts(spec) and STRIDE in fields and layouts <= set(fields[LAYOUT].metadata["allowed"])


def stage_of(
    walk: sector_walk.Story,
    run: Run,
    chosen: str = "",
    ways: tuple[str, ...] = (),
    more: list[View] | None = None,
    **parts: Any,
) -> Stage:
    """The stage of one run, of the chosen one of several layouts, or of several ways. more: pictures."""
    requests = next(side["requests"] for side in walk.sides if side["name"] == chosen)
    only: SectorsMeta = {"sides": [{"name": "", "requests": requests}]}
    views = [View("sectors", "sectors", "The chosen layout" if chosen else "Sectors", only), *(more or [])]
    tabs = [Tab("lines", "Every access"), stage.BUILDS, stage.DATA]
    if chosen:
        every: SectorsMeta = {"sides": walk.sides, "chosen": chosen}
        views, tabs = (
            [View("sectors", "layouts", "Layouts side by side", every), *views],
            [Tab("layouts", "Layouts"), *tabs],
        )
    moved = [r["sectors"] * model.SECTOR for r in requests]
    use = [round(100 * r["used"] / m, 1) if m else 0.0 for r, m in zip(requests, moved)]
    alike = [State("alike", [count(r["alike"], "request") for r in requests])]
    strip = [
        State("sectors", [r["sectors"] for r in requests], colour=WAVEFRONTS["moved"]),
        State("at best", [str(fewest(r["used"])) for r in requests]),
        State("lines of 128 bytes", [str(r["lines"]) for r in requests]),
        State("bytes used", [f"{r['used']:,} of {m:,} moved" for r, m in zip(requests, moved)]),
        State("use", use, "%", colour=WAVEFRONTS["before"]),
        *(alike if any(r["alike"] > 1 for r in requests) else []),
    ]
    questions = WORDS.questions(sector_walk.asked(requests, ways), 0) if requests else []
    return stage.of_request(run.request, walk.frames, views, state=strip, tabs=tabs, questions=questions, **parts)


def _layouts(look: Look, runner: Runner) -> dict[str, Run]:
    return {title_of(request): runner.run(request) for request in look.layouts}


def title_of(request: Request) -> str:
    return name_of(request.problem.values()[LAYOUT])


def name_of(layout: str) -> str:
    return NAMES.get(layout, layout.replace("_", " ").capitalize())


def lines_tab(look: Look, runner: Runner) -> list[Block]:
    """Every source line that touches global memory, the worst use of sectors first."""
    run = runner.run(look.request)
    table = sector_walk.by_line(run)
    shown = table.assign(lit=table["sectors"] > table["sectors at best"]).drop(columns=["file", "line"]).round(3)
    names = {"item": look.request.plan.item, "provenance": run.provenance, "device": run.device}
    return [stage.heading("Every access of global memory"), stage.table(shown, WORDS.say("lines", names), lit="lit")]


def layouts_tab(look: Look, runner: Runner) -> list[Block]:
    """Sectors per request of each layout."""
    if not look.layouts or look.ways:
        raise ProblemError("This picture has no such tab. Choose another tab, or a kernel that has it.")
    table = sector_walk.layouts(_layouts(look, runner))
    shown = table.assign(lit=table.layout == title_of(look.request)).round(2)
    return [stage.table(shown, WORDS.say("layouts", {}), lit="lit")]


STORY = Coalescing()
