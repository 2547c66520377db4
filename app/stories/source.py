"""Source: a kernel's CUDA, PTX and SASS next to each other, for any build and architecture, without a GPU."""

from app.choices import files, pages
from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from app.parts import tabs
from app.parts.explained import story_of
from app.store import opened
from explainers.models import tiling
from explainers.stories.source import story
from explainers.stories.source.story import Build
from explainers.story import probed
from explainers.story.builds import fields_of_build
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.catalog import Catalog

REPORT = "stall reasons of each line: the Source page of Nsight Compute, exported by ncu as CSV with --print-source"
MODES = {
    "timed": "Timed: no probes",
    "probed": "Probed: writes the trace",
    "timeline": "Timeline: notes when blocks ran",
}


def page(catalog: Catalog) -> Page:
    first = (probed.first(tiling, catalog.kernels).name,)
    own = {
        "build": Choice("timed", tuple(MODES), stays=True),
        "arch": Choice(DEFAULT_ARCH, pages.ARCHES, stays=True),
        "stall_file": files.of_file(REPORT),
    }
    return Page(
        catalog, catalog.kernels, first, own=own, recorded=False, runs=False, describe=describe, correct=correct
    )


def subject(page: Page, state: State, backend: str) -> Build:
    request = page.request_of(state)
    request.plan  # noqa: B018  # ProblemError where problem and constants do not go together
    request.kernel.check_architecture(request.problem, state["arch"])
    stalls = opened.report(state["stall_file"]) if state["stall_file"] else None
    return Build(request.kernel, request.problem, request.settings, state["build"], state["arch"], stalls)


def correct(page: Page, state: State) -> list[Correction]:
    return files.corrected(state, "stall_file", lambda: opened.report(state["stall_file"]))


def describe(page: Page, state: State) -> Descriptions:
    """The descriptions, with only the fields that change a build."""
    matters = fields_of_build(page.kernel_of(state).problem_type)
    found: Descriptions = {name: {"hidden": name not in matters} for name in page.fields(state)}
    shown = opened.report(state["stall_file"]) if state["stall_file"] else None
    arches = {arch: f"{arch} ({machine(arch).gpu})" for arch in page.own["arch"].allowed or ()}
    return found | {
        "preset": {"hidden": True},
        "build": {"label": "Build", "options": MODES},
        "stall_file": files.described("stalls", "Stall reasons", shown),
        "arch": {"label": "Architecture", "options": arches},
    }


STORY = story_of(
    story.STORY,
    path="source",
    title="Source",
    look="Hover a line of CUDA: its PTX and its machine code light up. "
    "Look for lines with many instructions, for branches, and for the most live registers.",
    page=page,
    subject=subject,
    order=150,
    request_tabs=False,
    parts={"builds": lambda b: tabs.builds_of(b.kernel, b.problem, b.settings, b.arch)},
)
