"""Source: a kernel's CUDA, PTX and SASS side by side, for any build and architecture; needs no GPU."""

from dataclasses import dataclass
from typing import Any

from app.choices import State
from app.choices.asked import Asked
from app.choices.pages import SOURCE
from app.parts import tabs
from app.parts.story import Story
from explainers.stories.source import source
from explainers.story.builds import fields_of_build
from explainers.story.stage import Block, Stage
from kernels.build import Mode, disassembly
from kernels.build.occupancy import machine
from kernels.core.spec import KernelSpec

MODES = {
    "timed": "Timed: no probes",
    "probed": "Probed: writes the trace",
    "timeline": "Timeline: notes when blocks ran",
}


@dataclass(frozen=True)
class Build:
    """What is compiled and shown."""

    kernel: KernelSpec
    problem: Any
    settings: tuple[tuple[str, int], ...]
    mode: str
    arch: str


def what(state: State, backend: str) -> Build:
    request = SOURCE.request_of(state)
    request.plan  # noqa: B018  # ProblemError where problem and constants do not go together
    return Build(request.kernel, request.problem, request.settings, state["build"], state["arch"])


def make(build: Build) -> Stage:
    of = build.kernel, build.problem, build.settings, Mode(build.mode), build.arch
    return source.stage_of(
        build.kernel, disassembly.listing(*of), disassembly.check_widths(*of), build.mode, build.arch
    )


def builds(build: Build) -> list[Block]:
    return tabs.builds_of(build.kernel, build.problem, build.settings, build.arch)


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """Of the problem only what a build depends on."""
    matters = fields_of_build(asked.spec_of(state).problem_type)
    found: dict[str, dict[str, Any]] = {name: {"hidden": name not in matters} for name in asked.fields(state)}
    arches = {arch: f"{arch} ({machine(arch).gpu})" for arch in asked.own["arch"].allowed or ()}
    return found | {
        "preset": {"hidden": True},
        "build": {"label": "Build", "options": MODES},
        "arch": {"label": "Architecture", "options": arches},
    }


STORY = Story(
    path="source",
    title="Source",
    look="Hover a line of CUDA: its PTX and its machine code light up beside it. "
    "See which lines become many instructions, where the branches lead, and where the most registers are live.",
    asked=SOURCE,
    what=what,
    make=make,
    parts={"builds": builds},
    narrowed=narrowed,
)
