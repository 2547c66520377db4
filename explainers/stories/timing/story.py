"""The story of timing: the times of a sweep, recorded on named GPUs or measured on this one."""

from dataclasses import dataclass, replace

from explainers.stories.timing import declared_duels, duels, sweep_form, times, timing_stage, timing_tables
from explainers.stories.timing.timing_stage import Shown
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.errors import ProblemError
from kernels.measure import bench, gradient_duels
from kernels.measure import duels as timed_duels
from kernels.recordings import tables


@dataclass(frozen=True)
class Sources:
    """The shown times.

    sources: the names of their GPUs; empty for all.
    at: the state of the recordings.
    now: the results of this GPU.
    sweep: the key of the chosen sweep.
    baseline: the line for comparisons.
    hidden: the lines out of the chart.
    gpu: the name of this machine's GPU, or "".
    gpus: (id, name) of each GPU, if the machine has several.
    chosen: the kernels that the form for a sweep selects at first.
    """

    sources: tuple[str, ...]
    at: times.Stamp
    now: times.Now
    sweep: str
    baseline: str
    hidden: tuple[str, ...]
    gpu: str
    gpus: tuple[tuple[str, str], ...]
    chosen: tuple[str, ...]


class Times(Story[Sources]):
    """The lines of one sweep. It runs no kernel."""

    def stage(self, subject: Sources, runner: Runner) -> Stage:
        known, here = times.known(subject.sources, subject.now), _form(subject)
        others = len(timing_tables.sizeless(known.table)) > 0
        if not known.found:
            reason = "No sweep has two sizes yet."
            if not len(known.table):
                reason = "The page has no recorded and no measured times yet."
            return timing_stage.nothing_yet(" ".join([reason, *bench.not_recorded()]), others, here)
        made = timing_stage.stage_of(shown_of(subject), others, here)
        if found := gradient_duels.recorded():
            tab = stage.Tab("turns", declared_duels.titles(found[0]))
            made = replace(made, tabs=[*made.tabs[:-1], tab, made.tabs[-1]])
        return stage.warned(made, tables.left_out(bench.KIND))

    def parts(self) -> dict[str, Part[Sources]]:
        return {
            "figures": figures_tab,
            "missing": missing_tab,
            "others": others_tab,
            "duels": duels_tab,
            "turns": turns_tab,
        }


def shown_of(sources: Sources) -> Shown:
    """The shown part of the chosen sweep. Raises ProblemError without a sweep."""
    known = times.known(sources.sources, sources.now)
    # the sweep may be forgotten, or recorded anew
    sweep = sources.sweep if sources.sweep in known.found else next(iter(known.found), None)
    if sweep is None:
        raise ProblemError("No sweep has two sizes yet. Measure one, or record one with python -m kernels bench.")
    field, _ = known.found[sweep]
    part = times.lines(sources.sources, sources.now, sweep).part
    measured = tuple(name for name in known.where if name == times.NOW)
    return Shown(part, field, known.titles[sweep], sources.baseline, sources.hidden, known.where, measured)


def _form(sources: Sources) -> list[Block]:
    """The form for a sweep. Empty without a GPU."""
    if not sources.gpu:
        return []
    return [sweep_form.form(sources.gpu, sources.gpus, sources.chosen, len(sources.now.rows))]


def figures_tab(sources: Sources, runner: Runner) -> list[Block]:
    return timing_stage.figures(shown_of(sources))


def missing_tab(sources: Sources, runner: Runner) -> list[Block]:
    return timing_stage.missing(shown_of(sources), bench.not_recorded())


def others_tab(sources: Sources, runner: Runner) -> list[Block]:
    return timing_stage.others(times.known(sources.sources, sources.now).table)


def duels_tab(sources: Sources, runner: Runner) -> list[Block]:
    found = timed_duels.recorded()
    return duels.blocks(*found) if found else [stage.note("No duel of the present code is recorded.")]


def turns_tab(sources: Sources, runner: Runner) -> list[Block]:
    found = gradient_duels.recorded()
    return declared_duels.blocks(*found) if found else [stage.note("No duel of the present code is recorded.")]


STORY = Times()
