"""The story of bank conflicts: the accesses of a warp to shared memory, with and without a remedy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explainers.models import threads
from explainers.stories.bank_conflicts import (
    bank_conflicts,
    bank_costs,
    bank_questions,
    bank_walk,
    buckets,
    padding,
)
from explainers.story import source_line, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.kinds import READS
from kernels.trace.memory.traced import Place
from kernels.trace.probes import Site


@dataclass(frozen=True)
class Look:
    """The shown requests.

    request: the chosen one.
    sides: without remedies and with them, or only the request.
    first_read: whether the first line is the first one that reads, not the most expensive one.
    line: the choice.
    swizzled: the build with the other remedy, for a question, or None.
    """

    request: Request
    sides: tuple[Request, ...]
    first_read: bool
    line: str
    swizzled: Request | None = None


class BankConflicts(Story[Look]):
    """Wavefront by wavefront: the banks, and the lanes that wait."""

    WANTS = bank_conflicts.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return "" if bank_conflicts.accepts(spec) else f"{spec.name} has no probe of an access of shared memory."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        runs = [runner.run(request) for request in subject.sides]
        chosen = runs[subject.sides.index(subject.request) if subject.request in subject.sides else 0]
        sites = source_line.logged(chosen, "shared")
        if not sites:
            said = "This run touched no shared memory. Choose another kernel or problem."
            headline = stage.headline(subject.request.kernel)
            return Stage(headline, [], [], [], provenance=runner.provenance(chosen), summary=said)
        at = source_line.choose(subject.line, chosen, sites, _first(subject, runs, sites))
        walk = bank_walk.explain(runs, at.at)
        cycles, source = bank_costs.cycles_said(runs), runner.provenance(chosen)
        result = bank_conflicts.stage_of(walk, runs, source, cycles, [at.choice], at.told, chosen=chosen.request)
        result = replace(result, views=[*result.views, *([] if subject.first_read else threads.own_view(chosen))])
        other = []
        if subject.swizzled:
            swizzled = runner.run(subject.swizzled)
            turned = bank_conflicts.swizzled_view(bank_walk.explain([runs[0], swizzled], at.at), walk)
            other = bank_questions.swizzle(runs[1], swizzled, at.at, view=turned[0].id if turned else "memory")
            result = replace(result, views=[result.views[0], *turned, *result.views[1:]])
        hand = buckets.view(runs[0])
        asked = [*result.questions, *(buckets.questions() if hand else []), *other]
        return replace(result, views=[*result.views, *hand], questions=asked)

    def parts(self) -> dict[str, Part[Look]]:
        return {"lines": lines_tab, "rule": rule_tab, "cycles": cycles_tab, "ncu": ncu_tab}


def _first(look: Look, runs: list[Run], sites: Sequence[Site]) -> Place:
    """The default line."""
    if look.first_read:
        site = next((site for site in sites if site.event in READS), sites[0])
        return Place(site.file, site.line, site.tensor or "")
    table = bank_costs.by_line(runs)
    costly = table.loc[table["wavefronts without" if len(runs) > 1 else "wavefronts"].idxmax()]
    return Place(costly.file, int(costly.line), costly.tensor)


def lines_tab(look: Look, runner: Runner) -> list[Block]:
    """Every source line that touches shared memory, without remedies and with."""
    runs = [runner.run(request) for request in look.sides]
    table, names = bank_costs.by_line(runs), padding.side_names(look.sides)
    said = [stage.note(padding.padding_sentence(table, names[1]))] if len(runs) > 1 else []
    columns = {"not padded": f"wavefronts, {names[0]}", "padded": f"wavefronts, {names[-1]}"}
    shown = table.drop(columns=["wavefronts without", "wavefronts with", "file", "line"], errors="ignore")
    caption = (
        f"Wavefronts per request of {look.request.plan.item} {look.request.scope.first}: addresses "
        f"{runs[0].provenance} on {runs[0].device}, wavefronts derived."
    )
    return [
        stage.heading("Wavefronts per request, by source line"),
        *said,
        stage.table(shown.round(3).rename(columns=columns), caption),
    ]


def rule_tab(look: Look, runner: Runner) -> list[Block]:
    """How wavefronts follow from addresses."""
    return [
        stage.heading("The rule"),
        *map(stage.text, bank_costs.WORDS.table("rule").values()),
        stage.note(bank_costs.calibrated()),
    ]


def cycles_tab(look: Look, runner: Runner) -> list[Block]:
    """The recorded cycles, with rings around the shown ones."""
    return bank_costs.cycles_blocks([runner.run(request) for request in look.sides], padding.side_names(look.sides))


def ncu_tab(look: Look, runner: Runner) -> list[Block]:
    """The conflicts of the addresses beside those that Nsight Compute counts, for one block and for many."""
    return [stage.heading("The counter of Nsight Compute"), *bank_costs.counted_blocks(look.request.kernel.name)]


STORY = BankConflicts()
