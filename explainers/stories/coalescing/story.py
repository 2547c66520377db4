"""The story of coalescing: a kernel's requests of global memory, or one request under several layouts."""

from dataclasses import dataclass, replace

from explainers.models import threads
from explainers.stories.coalescing import coalescing, sector_costs, sector_walk, ways
from explainers.stories.coalescing.coalescing import LAYOUT
from explainers.story import source_line, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.memory.traced import Place

NAMES = {"row_major": "Row-major", "paged_split": "Paged K, split by x", "paged_whole": "Paged K, not split"}


@dataclass(frozen=True)
class Look:
    """The shown requests.

    request: the chosen one.
    layouts: the request under each layout; empty for a kernel's own accesses.
    ways: the titles of the ways (ways.WAYS) of `layouts`; empty for all layouts side by side.
    line: the choice.
    """

    request: Request
    layouts: tuple[Request, ...]
    line: str
    ways: tuple[str, ...] = ()


class Coalescing(Story[Look]):
    """The sectors of each request, and their used part."""

    WANTS = coalescing.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return "" if coalescing.accepts(spec) else f"{spec.name} has no probe of an access of global memory."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        run = runner.run(subject.request)
        if subject.ways:
            return _of_ways(subject, run, runner)
        return _of_layouts(subject, run, runner) if subject.layouts else _of_kernel(subject, run, runner)

    def parts(self) -> dict[str, Part[Look]]:
        return {"lines": lines_tab, "layouts": layouts_tab}


def _of_ways(look: Look, run: Run, runner: Runner) -> Stage:
    known = {way.title: way for way in ways.WAYS}
    shown = [known[title] for title in look.ways]
    walk = ways.explain(shown, [runner.run(request) for request in look.layouts])
    result = coalescing.stage_of(walk, run, runner.provenance(run))
    return replace(result, questions=ways.questions(shown, walk.sides[0]["requests"]))


def _of_layouts(look: Look, run: Run, runner: Runner) -> Stage:
    chosen = title_of(look.request)
    reads = next(site for site in source_line.logged(run, "global") if site.event == "load")
    walk = sector_walk.explain_layouts(_layouts(look, runner), chosen, Place(reads.file, reads.line))
    return coalescing.stage_of(walk, run, runner.provenance(run), chosen)


def _of_kernel(look: Look, run: Run, runner: Runner) -> Stage:
    table = sector_costs.worst_first(sector_costs.by_line(run))
    places = [Place(file, int(line), tensor) for file, line, tensor in zip(table.file, table.line, table.tensor)]
    sites = source_line.logged(run, "global")
    at = source_line.choose(look.line, run, sites, every="Every line, the worst use first")
    walk = sector_walk.explain(run, [at.at] if at.at else list(dict.fromkeys(places)))
    result = coalescing.stage_of(walk, run, runner.provenance(run), late=[at.choice], told=at.told)
    return replace(result, views=[*result.views, *threads.own_view(run)])


def _layouts(look: Look, runner: Runner) -> dict[str, Run]:
    return {title_of(request): runner.run(request) for request in look.layouts}


def title_of(request: Request) -> str:
    return name_of(request.problem.values()[LAYOUT])


def name_of(layout: str) -> str:
    return NAMES.get(layout, layout.replace("_", " ").capitalize())


def lines_tab(look: Look, runner: Runner) -> list[Block]:
    """Every source line that touches global memory, the worst use of sectors first."""
    run = runner.run(look.request)
    table = sector_costs.worst_first(sector_costs.by_line(run))
    gain = table["sectors"] > table["sectors at best"]
    shown = table.assign(lit=gain).drop(columns=["file", "line"]).round(3)
    caption = (
        f"The traced {look.request.plan.item}: addresses {run.provenance} on {run.device}, sectors and lines derived. "
        "Caches can save a part of this traffic. Marked lines could do with fewer sectors."
    )
    return [stage.heading("Every access of global memory"), stage.table(shown, caption, lit="lit")]


def layouts_tab(look: Look, runner: Runner) -> list[Block]:
    """Sectors per request of each layout, as a chart and as a table."""
    if not look.layouts or look.ways:
        raise ProblemError("This picture has no such tab. Choose another tab, or a kernel that has it.")
    table = sector_costs.layouts(_layouts(look, runner))
    said = (
        "One warp reads the same elements each time. The paged layouts read pieces of 16 bytes, like the K cache of "
        "PagedAttention. Split by x, neighbouring tokens have the same piece side by side. Not split, each token's "
        "key is one run of bytes."
    )
    shown = table.assign(lit=table.layout == title_of(look.request)).round(2)
    chart = stage.chart(
        sector_costs.layouts_chart(table), "Sectors per request of each layout", "", "Sectors per request"
    )
    return [stage.row([chart], [stage.table(shown, said, lit="lit")])]


STORY = Coalescing()
