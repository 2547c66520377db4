"""Patterns: the ways of a reduction, of loading a tile and of double buffering, one after another."""

from dataclasses import replace
from functools import lru_cache

from app.choices import pages, recordings
from app.choices.choice import Choice
from app.choices.described import kernel_options
from app.choices.page import Correction, Descriptions, Page, State
from app.parts.explained import story_of
from explainers.stories.patterns import story
from explainers.stories.patterns.story import Look
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.measure import pattern_cycles


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    made = pages.accepted_by(story.STORY, catalog)
    names = tuple(dict.fromkeys(title_of(made, name) for name in made.kernels))
    first = title_of(made, made.first[0])
    own = {"pattern": Choice(first, names, stays=True, meaning="the pattern whose ways are shown")}
    return pages.accepted_by(story.STORY, catalog, own=own, correct=correct, adapt=adapt, describe=describe)


def title_of(page: Page, kernel: str) -> str:
    """The pattern of a kernel: the title of its problem."""
    return page.kernels[kernel].problem_type.title


def kernels_of_pattern(page: Page, state: State) -> list[str]:
    return [name for name in page.kernels if title_of(page, name) == state["pattern"]]


def correct(page: Page, state: State) -> list[Correction]:
    """Puts the kernel's own pattern in place of another one."""
    pattern, own = state["pattern"], title_of(page, state["kernel"])
    if pattern == own:
        return []
    state["pattern"] = own
    return [Correction("pattern", f"pattern is {pattern!r}. {state['kernel']} belongs to {own!r}.")]


def adapt(page: Page, state: State, name: str) -> None:
    """Takes the first kernel of a newly chosen pattern."""
    if name == "pattern":
        page.take_kernel(state, "", kernels_of_pattern(page, state)[0])


def describe(page: Page, state: State) -> Descriptions:
    shown = kernels_of_pattern(page, state)
    constants: Descriptions = {c.name: {"group": "own"} for c in page.kernel_of(state).constants}
    options = {name: name for name in dict.fromkeys(title_of(page, name) for name in page.kernels)}
    return {
        "pattern": {"label": "Pattern", "options": options, "group": "kernel"},
        "kernel": {"label": "Code of", "group": "own", "options": kernel_options({n: page.kernels[n] for n in shown})},
        **constants,
    }


def subject(page: Page, state: State, backend: str) -> Look:
    chosen = page.request_of(state, backend=backend)
    ways = [
        (name, Request(kernel, chosen.problem, settings, chosen.scope, backend))
        for kernel in page.solving(chosen.kernel).values()
        for name, settings in pattern_cycles.ways(kernel)
    ]
    kept = {request: replace(request, backend="recorded") for _, request in ways}
    own = chosen.kernel, chosen.constants
    if backend == "recorded":
        ways = [(name, request) for name, request in ways if recordings.has(request)]
    elif backend == "cpu":  # one build for the page: the other ways come from their recorded traces
        ways = [
            (name, kept[r] if (r.kernel, r.constants) != own and recordings.has(kept[r]) else r) for name, r in ways
        ]
    same = [(name, chosen if (request.kernel, request.constants) == own else request) for name, request in ways]
    return Look(chosen, tuple(same) if any(r == chosen for _, r in same) else (*same, (chosen.kernel.title, chosen)))


STORY = story_of(
    story.STORY,
    path="patterns",
    title="Patterns",
    look="Watch several ways to do one thing, one after another: which threads work, which numbers they read, and "
    "which banks hold these numbers. The bars compare the cycles of all ways.",
    page=page,
    subject=subject,
    order=55,
)
