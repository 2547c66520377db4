"""The story of fusion: the bytes of each launch, separate and fused, and their times under one clock."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explainers.stories.fusion import clock, fusion_questions, ledger, one_launch, walk
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage, Tab, View
from kernels import catalog
from kernels.core.request import Request
from kernels.core.spec import KernelSpec

COUNTED = "A byte that a launch reads or writes counts once in this launch."


@dataclass(frozen=True)
class Pair:
    """A fused kernel's request, and its separate kernels on the same problem. Both trace all blocks."""

    request: Request
    separate: Request


class Fusion(Story[Pair]):
    """A fused kernel next to the launches that it replaces."""

    def refusal(self, spec: KernelSpec) -> str:
        separate = catalog.current().separate_of(spec)
        if separate is not None and len(spec.launch_texts) == 1 and not (spec.plain or separate.plain):
            return ""
        return (
            f"{spec.name} does not put several launches into one. Name the separate kernels in changed_from. "
            "They must solve the same problem."
        )

    def first(self, kernels: Mapping[str, KernelSpec]) -> str:
        """The name of the default kernel: a timed one whose separate launches have a tensor of their own."""
        found = {name: catalog.current().separate_of(spec) for name, spec in kernels.items() if self.accepts(spec)}
        timed = [n for n, s in found.items() if s and s.scratch and [*s.problem_type.chain_problems()]]
        return next(iter([*timed, *found]))

    def stage(self, subject: Pair, runner: Runner) -> Stage:
        runs = [runner.run(request) for request in (subject.separate, subject.request)]
        found, times = ledger.ledger(runs), clock.nearest(subject.request)
        problem, where = subject.request.problem, runner.provenance(runs[1])
        before, after = found.totals
        said = (
            [clock.gap_sentence(times, found.entries[0]), clock.largest_sentence(times, 1 - after / before)]
            if times
            else []
        )
        frames = walk.frames_of(found, clock.size_of(problem), *said)
        shown = clock.shown(times) if times else None
        views = [View("fusion", "ledger", "Bytes", walk.meta_of(found, frames, shown, problem.meanings()))]
        if times:
            meta = {"spec": clock.chart(times).to_dict(), "alt": clock.ALT, "at": []}
            views.append(View("chart", "clock", "Time", meta))
        gain = clock.sentence(times) if times else ""
        return Stage(
            headline=stage.headline(subject.request.kernel),
            frames=frames,
            views=views,
            codes=[
                stage.code(run.request, frames, f"{side}_lines", n)
                for n, (side, run) in enumerate(zip(ledger.SIDES, runs))
            ],
            tabs=[Tab("times", "Times"), Tab("one", "One launch for all", _one_launch()), stage.BUILDS, stage.DATA],
            provenance=replace(where, said=f"{where.said} {COUNTED}", place=times.place if times else where.place),
            summary=f"{walk.result(found)} {gain}".strip(),
            questions=fusion_questions.asked(found, frames, times),
        )

    def parts(self) -> dict[str, Part[Pair]]:
        return {"times": times_tab}


def _one_launch() -> list[Block]:
    return [stage.heading("Why not norm, attention and residual in one launch?")] + [
        stage.text(said, "modelled" if any(c.isdigit() for c in said) else "") for said in one_launch.sentences()
    ]


def times_tab(subject: Pair, runner: Runner) -> list[Block]:
    """The recorded times of all problems."""
    times = clock.all_times(subject.request.kernel)
    if not times:
        return [stage.note(clock.NONE)]
    said = f"{times[0].said} us of one chain: in graphs sustained, one after another rested. "
    said += "With a cold L2, each chain's arrays were last used more than twice the L2 ago."
    near = clock.nearest(subject.request)
    shown = [stage.chart(clock.chart(near), clock.ALT, "", "Time")] if near else []
    return [*shown, stage.table(clock.table(times), said)]


STORY = Fusion()
