"""Coalescing: the sectors of global memory that each request touches, for any kernel's accesses and for several layouts
side by side."""

from dataclasses import dataclass, replace
from functools import lru_cache

from app.choices import lines, pages, possible, recordings
from app.choices.described import kernel_options
from app.choices.page import Correction, Descriptions, Page, State
from app.parts import running, tabs
from app.parts.story import Story, tab_of
from explainers.stories.coalescing import coalescing, sector_costs, sector_questions, sector_walk
from explainers.stories.coalescing.coalescing import LAYOUT
from explainers.stories.registers import thread_questions, threads
from explainers.story import stage
from explainers.story.stage import Block, Question, Stage
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.run.results import Run

VIEWS = {"attention": "A kernel's accesses", "layouts": "Layouts side by side"}
NAMES = {"row_major": "Row-major", "paged_split": "Paged K, split by x", "paged_whole": "Paged K, not split"}


@dataclass(frozen=True)
class Look:
    """The shown requests.

    request: the chosen one.
    layouts: the request under each layout; empty for a kernel's own accesses.
    line: the choice.
    """

    request: Request
    layouts: tuple[Request, ...]
    line: str


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    own = {"view": pages.one_of(*VIEWS), "line": lines.LINE}
    hooks = {"correct": correct, "adapt": lines.adapt, "describe": describe}
    return pages.accepted_by(coalescing, catalog, own=own, former={"page_tokens": "block_size"}, **hooks)


def subject(page: Page, state: State, backend: str) -> Look:
    if state["view"] != "layouts":
        return Look(page.request_of(state, backend=backend), (), state["line"])
    known = page.fields(state)[LAYOUT].allowed or ()
    requests = {name: _in_layout(page, state, name, backend) for name in known}
    available = {
        name: request for name, request in requests.items() if backend != "recorded" or recordings.has(request)
    }
    chosen = state[LAYOUT] if state[LAYOUT] in available else next(iter(available), state[LAYOUT])
    return Look(requests[chosen], tuple(available.values()) or (requests[chosen],), "")


def _in_layout(page: Page, state: State, layout: str, backend: str) -> Request:
    """The chosen request in a layout, with the smallest width of this layout."""
    error = ProblemError(f"There is no width for the layout {layout}.")
    for width in page.fields(state)["width"].allowed or ():
        try:
            return page.request_of(state, backend=backend, layout=layout, width=width)
        except ProblemError as refused:
            error = refused
    raise error


def make(look: Look) -> Stage:
    run = running.run(look.request)
    if look.layouts:
        runs = _layouts(look)
        chosen = title_of(look.request)
        reads = next(site for site in lines.logged(run, "global") if site.event == "load")
        story = sector_walk.explain_layouts(runs, chosen, (reads.file, reads.line))
        result = coalescing.stage_of(story, run, running.provenance(run), chosen)
        return replace(result, questions=[*result.questions, *_more(result, chosen)])
    table = sector_costs.worst_first(sector_costs.by_line(run))
    places = [(file, int(line)) for file, line in zip(table.file, table.line)]
    at = lines.choose(look.line, run, lines.logged(run, "global"), every="Every line, the worst use first")
    story = sector_walk.explain(run, [at.at] if at.at else list(dict.fromkeys(places)))
    result = coalescing.stage_of(story, run, running.provenance(run), late=[at.choice], told=at.told)
    result = replace(result, views=[*result.views, *threads.own_view(run)])
    return replace(result, questions=[*result.questions, *_more(result), *thread_questions.shared_pictures(result)])


def _more(result: Stage, chosen: str = "") -> list[Question]:
    """The questions about the requests of the picture.

    chosen: the layout, if several are shown.
    """
    alone = next(view for view in result.views if view.id == "sectors")
    return sector_questions.sectors(alone.meta["sides"][0]["requests"], coalescing.veils(chosen))


def _layouts(look: Look) -> dict[str, Run]:
    return {title_of(request): running.run(request) for request in look.layouts}


def title_of(request: Request) -> str:
    return name_of(request.problem.values()[LAYOUT])


def name_of(layout: str) -> str:
    return NAMES.get(layout, layout.replace("_", " ").capitalize())


def kernels_of_view(page: Page, state: State) -> list[str]:
    """The kernels of a view: for layouts, those whose problem has a layout."""
    return [name for name, spec in page.kernels.items() if state["view"] != "layouts" or coalescing.has_layouts(spec)]


def correct(page: Page, state: State) -> list[Correction]:
    """Corrects the kernel and the source line. Each layout has the smallest width that it takes."""
    corrections = lines.correct(page, state, "global", kernels_of_view(page, state))
    width = page.choices(state).get("width")
    if state["view"] == "layouts" and width and state["width"] != width.default:
        said = f"width is {state['width']}; side by side every layout has the least that it takes."
        corrections.append(Correction("width", said))
        state["width"] = width.default
    return corrections


def lines_tab(look: Look) -> list[Block]:
    """Every source line that touches global memory, the worst use of sectors first."""
    run = running.run(look.request)
    table = sector_costs.worst_first(sector_costs.by_line(run))
    gain = table["sectors"] > table["sectors at best"]
    shown = table.assign(lit=gain).drop(columns=["file", "line"]).round(3)
    caption = (
        f"Of the traced {look.request.plan.item}: addresses {run.provenance} on {run.device}; sectors and lines "
        "derived. What a cache then spares is not counted here. Marked: where fewer sectors would hold the bytes."
    )
    return [stage.heading("Every access of global memory"), stage.table(shown, caption, lit="lit")]


def layouts_tab(look: Look) -> list[Block]:
    """Sectors per request of each layout, as a chart and as a table."""
    table = sector_costs.layouts(_layouts(look))
    said = (
        "One warp reads the same elements each time. The paged layouts read pieces of 16 bytes, as the K cache of "
        "PagedAttention does: split by x, the same piece of neighbouring tokens lies side by side; not split, each "
        "token's key lies in one run."
    )
    shown = table.assign(lit=table.layout == title_of(look.request)).round(2)
    chart = stage.chart(
        sector_costs.layouts_chart(table), "Sectors per request of each layout", "", "Sectors per request"
    )
    return [stage.row([chart], [stage.table(shown, said, lit="lit")])]


def describe(page: Page, state: State) -> Descriptions:
    """The kernels of the view, the layout, and the reasons of impossible options. Next to each other, all layouts
    have their smallest width."""
    shown = kernels_of_view(page, state)
    found: Descriptions = {
        "view": {"label": "Look at", "options": VIEWS},
        "kernel": {"options": kernel_options({n: s for n, s in page.kernels.items() if n in shown})},
    }
    found |= possible.describe(page, state)
    if state["view"] == "layouts":
        known = page.fields(state)[LAYOUT].allowed or ()
        found[LAYOUT] = {"label": "Layout", "group": "own", "options": {layout: name_of(layout) for layout in known}}
        found |= {"width": {"hidden": True}, "preset": {"hidden": True}}
    return found


STORY = Story(
    path="coalescing",
    title="Coalescing",
    look="Global memory moves in sectors of 32 bytes: what a warp asks for at once is moved once, however many lanes "
    "ask. Look for the bytes that nobody asked for, and that are moved along.",
    page=page,
    subject=subject,
    order=100,
    make=make,
    parts={
        "lines": lines_tab,
        "layouts": tab_of(Look, layouts_tab, lambda look: look.layouts),
        **tabs.PARTS,
    },
)
