"""Ring: attention over several GPUs, step by step."""

from functools import lru_cache

from app.choices import pages
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.ring import story as ring
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.core.scope import Scope


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return pages.accepted_by(ring.STORY, catalog, sizes=pages.SMALL_TILES, one_what_if=True, refusal=ring.STORY.refusal)


def subject(page: Page, state: State, backend: str) -> Request:
    """The request of all items."""
    made = page.request_of(state, backend=backend)
    return page.request_of(state, backend=backend, scope=Scope.everything(made.plan))


STORY = story_of(
    ring.STORY,
    path="ring",
    title="Ring",
    look="Watch the keys move from GPU to GPU while each multiplies. In plain causal order some GPUs wait. "
    "In zigzag order none does.",
    order=75,
    needs_kernels=True,
    page=page,
    subject=subject,
)
