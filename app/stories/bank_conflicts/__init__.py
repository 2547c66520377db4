"""Bank conflicts: the tile in memory and 32 lanes by 32 banks, wavefront by wavefront, with and without padding or a
swizzle. For the lab's walks and for the accesses of any kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.choices import lines, pages, possible, recordings
from app.choices.described import kernel_options
from app.choices.page import Correction, Descriptions, Page, State
from app.parts import running, tabs
from app.parts.story import Story
from app.stories.bank_conflicts import rule
from explainers.stories.bank_conflicts import bank_conflicts, bank_costs, bank_questions, bank_walk, padding
from explainers.stories.registers import thread_questions, threads
from explainers.story import stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.kinds import READS
from kernels.trace.probes import Site

VIEWS = {"lab": "Access by access", "attention": "Padded or not"}


@dataclass(frozen=True)
class Look:
    """The shown requests.

    request: the chosen one.
    sides: without remedies and with them, or only the request.
    view, line: the choices.
    """

    request: Request
    sides: tuple[Request, ...]
    view: str
    line: str


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    own = {"view": pages.one_of(*VIEWS), "line": lines.LINE}
    hooks = {"correct": correct, "adapt": lines.adapt, "describe": describe}
    return pages.accepted_by(bank_conflicts, catalog, own=own, **hooks)


def subject(page: Page, state: State, backend: str) -> Look:
    request = page.request_of(state, backend=backend)
    sides = padding.before_and_after(request)
    if backend == "recorded" and not all(map(recordings.has, sides)):
        sides = (request,)
    return Look(request, sides, state["view"], state["line"])


def make(look: Look) -> Stage:
    runs = [running.run(request) for request in look.sides]
    chosen = runs[look.sides.index(look.request) if look.request in look.sides else 0]
    sites = lines.logged(chosen, "shared")
    if not sites:
        said = "This run touched no shared memory. Choose another kernel or problem."
        headline = stage.headline(look.request.kernel)
        return Stage(headline, [], [], [], provenance=running.provenance(chosen), summary=said)
    at = lines.choose(look.line, chosen, sites, _first(look, runs, sites))
    story = bank_walk.explain(runs, at.at)
    cycles = rule.cycles_said(runs)
    result = bank_conflicts.stage_of(
        story, runs, running.provenance(chosen), cycles, [at.choice], at.told, chosen=chosen.request
    )
    result = replace(result, views=[*result.views, *([] if look.view == "lab" else threads.own_view(chosen))])
    return replace(
        result,
        questions=[*result.questions, *bank_questions.banks(story.sides[0]), *thread_questions.shared_pictures(result)],
    )


def _first(look: Look, runs: list[Run], sites: Sequence[Site]) -> lines.Place:
    """The default line: in the lab the first one that reads, else the most expensive one."""
    if look.view == "lab":
        site = next((site for site in sites if site.event in READS), sites[0])
        return site.file, site.line
    table = bank_costs.by_line(runs)
    costly = table.loc[table["wavefronts without" if len(runs) > 1 else "wavefronts"].idxmax()]
    return costly.file, int(costly.line)


def describe(page: Page, state: State) -> Descriptions:
    """The kernels of the view, the constants that move a tile to other banks, and the reasons of impossible options."""
    shown = kernels_of_view(page, state)
    found: Descriptions = {
        "view": {"label": "Look at", "options": VIEWS},
        "kernel": {"options": kernel_options({n: s for n, s in page.kernels.items() if n in shown})},
    }
    found |= possible.describe(page, state)
    kernel = page.kernel_of(state)
    for constant in kernel.constants if not kernel.problem_type().work else padding.remedies(kernel):
        found[constant.name] = {**found.get(constant.name, {}), "group": "own"}
    return found


def kernels_of_view(page: Page, state: State) -> list[str]:
    """The kernels of a view: in the lab all, else the kernels with padding."""
    return [name for name, spec in page.kernels.items() if state["view"] == "lab" or padding.pads(spec)]


def correct(page: Page, state: State) -> list[Correction]:
    return lines.correct(page, state, "shared", kernels_of_view(page, state))


def lines_tab(look: Look) -> list[Block]:
    """Every source line that touches shared memory, without remedies and with."""
    runs = [running.run(request) for request in look.sides]
    table, names = bank_costs.by_line(runs), padding.side_names(look.sides)
    said = [stage.note(padding.padding_sentence(table, names[1]))] if len(runs) > 1 else []
    columns = {"not padded": f"wavefronts, {names[0]}", "padded": f"wavefronts, {names[-1]}"}
    shown = table.drop(columns=["wavefronts without", "wavefronts with", "file", "line"], errors="ignore")
    caption = (
        f"Wavefronts per request, of {look.request.plan.item} {look.request.scope.first}: addresses "
        f"{runs[0].provenance} on {runs[0].device}, wavefronts derived."
    )
    return [
        stage.heading("Wavefronts per request, by source line"),
        *said,
        stage.table(shown.round(3).rename(columns=columns), caption),
    ]


STORY = Story(
    path="bank_conflicts",
    title="Banks",
    look="Watch which of the 32 banks the lanes of a warp want at once: words of one bank are served one after the "
    "other. Padding or a swizzle moves the same words to other banks, and the wait is gone.",
    page=page,
    subject=subject,
    order=50,
    make=make,
    parts={
        "lines": lines_tab,
        "rule": rule.rule_tab,
        "cycles": rule.cycles_tab,
        **tabs.PARTS,
    },
)
