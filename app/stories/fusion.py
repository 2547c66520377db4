"""Fusion: a fused kernel next to the separate launches that it replaces."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from app.choices import pages
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.fusion import story
from explainers.stories.fusion.story import Pair
from kernels import catalog as kernels
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

MOST_STEPS = 10**6  # of the problem at first: its trace takes about a second


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return pages.accepted_by(
        story.STORY,
        catalog,
        first=(story.STORY.first(catalog.kernels),),
        defaults_of=of_a_model,
        sizes=pages.SMALL_TILES,
        refusal=story.STORY.refusal,
    )


def of_a_model(kernel: KernelSpec) -> Mapping[str, object]:
    """The largest timed problem that still has a small trace. Other kernels keep their defaults."""
    timed = [p for p in kernel.problem_type.chain_problems() if p.cpu_steps <= MOST_STEPS]
    return max(timed, key=lambda p: p.cpu_steps).values() if timed else {}


def subject(page: Page, state: State, backend: str) -> Pair:
    """Both requests trace all blocks. ProblemError."""
    fused = page.request_of(state, backend=backend)
    separate = kernels.current().separate_of(fused.kernel)
    if separate is None:
        raise ProblemError(story.STORY.refusal(fused.kernel))
    own = {c.name for c in separate.constants}
    settings = separate.settings_for(fused.problem, {n: v for n, v in fused.settings if n in own})
    before = Request(separate, fused.problem, tuple(settings.items()), backend=backend)
    return Pair(*(replace(one, scope=Scope.everything(one.plan)) for one in (fused, before)))


STORY = story_of(
    story.STORY,
    path="fusion",
    title="Fusion",
    look="Step through the launches. Each step moves one tensor between memory and the chip. "
    "Look for a tensor that one launch writes and the next one reads: the fused kernel moves it less, or never.",
    order=118,
    page=page,
    subject=subject,
)
