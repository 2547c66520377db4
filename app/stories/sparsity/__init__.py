"""Sparsity: a mask as blocks, the list of a query block, and the gain and the cost of skipped blocks."""

from functools import lru_cache

import pandas as pd

from app.choices import estimates, pages
from app.choices.page import Page, State
from app.measured import measuring
from app.parts import running
from app.parts.explained import story_of
from app.stories.sparsity import choices
from explainers.stories.sparsity import block_mask, executions, sparsity_ledger, story
from explainers.stories.sparsity.story import Walked
from explainers.stories.timing import times
from explainers.story.stage import Block
from kernels.catalog import Catalog


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    hooks = {"correct": choices.correct, "adapt": choices.adapt, "describe": choices.describe}
    kernels = {"defaults_of": choices.defaults_of, "one_what_if": True, "refusal": story.STORY.refusal}
    return pages.accepted_by(story.STORY, catalog, own=choices.OWN, **kernels, **hooks)


def subject(page: Page, state: State, backend: str) -> Walked:
    request = choices.request(page, state, backend)
    return Walked(request, block_mask.place_of(request).first + state["row"])


def ledger_tab(walked: Walked) -> list[Block]:
    """The executed, masked and skipped blocks of the whole run, by count and by the lists, with times."""
    run = running.run(walked.request)
    return sparsity_ledger.ledger_blocks(run, running.traffic(walked.request), _times())


def elements_tab(walked: Walked) -> list[Block]:
    """The same mask as lists of keys and as blocks of several sizes."""
    return executions.element_blocks(running.run(walked.request), _times())


def _times() -> pd.DataFrame:
    """The recorded times. A worker does not know this server's results."""
    return times.known((), measuring.Now()).table


STORY = story_of(
    story.STORY,
    path="sparsity",
    title="Sparsity",
    look="Follow a block of queries through its list of key blocks. Then draw a mask of your own, and see the cost of "
    "each hidden pair.",
    page=page,
    subject=subject,
    order=70,
    launches={"ledger": lambda walked: estimates.traffic([walked.request])},
    parts={"ledger": ledger_tab, "elements": elements_tab},
)
