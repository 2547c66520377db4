"""The story of the source: a build's CUDA next to its PTX and its machine code."""

from dataclasses import dataclass

from explainers.stories.source import source
from explainers.stories.source.stalls import Matched, matched
from explainers.story.base import Runner, Story
from explainers.story.stage import Stage
from kernels.build import Mode, disassembly
from kernels.core.problem import Problem
from kernels.core.spec import KernelSpec
from kernels.measure.elsewhere.packed import Report


@dataclass(frozen=True)
class Build:
    """The shown build.

    stalls: an opened report of Nsight Compute, or None."""

    kernel: KernelSpec
    problem: Problem
    settings: tuple[tuple[str, int], ...]
    mode: str
    arch: str
    stalls: Report | None = None


class SourceCode(Story[Build]):
    """The three texts of one build. It runs no kernel."""

    def stage(self, subject: Build, runner: Runner) -> Stage:
        of = subject.kernel, subject.problem, subject.settings, Mode(subject.mode), subject.arch
        listing, widths = disassembly.listing(*of), disassembly.check_widths(*of)
        found = matched(subject.stalls, subject.kernel, listing) if subject.stalls else Matched()
        return source.stage_of(subject.kernel, listing, widths, subject.mode, subject.arch, found)


STORY = SourceCode()
