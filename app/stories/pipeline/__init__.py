"""Pipeline: the phases of each warp or warpgroup of a block, from the marks of a GPU. One kernel, or two on one
scale."""

from functools import lru_cache

from app.choices.page import Descriptions, Page, State
from app.parts.explained import story_of
from app.store import disk
from app.stories.pipeline import choices
from explainers.stories.pipeline import story
from explainers.stories.pipeline.story import Look
from explainers.story import stage
from explainers.story.stage import Block
from kernels.catalog import Catalog
from kernels.measure import perfetto


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return choices.page(catalog, adapt, describe)


def subject(page: Page, state: State, backend: str) -> Look:
    return Look(choices.requests(page, state), state["block"])


def perfetto_tab(look: Look) -> list[Block]:
    """The marks as files for Perfetto."""
    found: list[Block] = [stage.text("Open a file at https://ui.perfetto.dev. It has every recorded block.")]
    for request in look.requests:
        loaded, file = story.load(request), f"{request.kernel.name}.pftrace"
        found.append(stage.download(f"Download {file}", disk.offer_file(perfetto.encode(loaded), file), file))
    return found


def describe(page: Page, state: State) -> Descriptions:
    entries, high, live = choices.of(state["kernel"]), choices.last_block(page, state), choices.live(state)
    hidden = () if live else (*page.fields(state), *page.constants(state))
    recorded, index = dict(enumerate(choices.labels(entries))), entries.index(choices.chosen(state))
    problem = {"label": "Problem", "kind": "select", "options": recorded, "value": str(index)}
    return {
        "recorded": problem | {"hidden": live},
        "block": {"label": f"Block (of {high + 1})", "high": high, "disabled": "" if high else "there is only one"},
        "beneath": {"label": "Overlay", "options": {n: n for n in choices.possible_beneath(page, state)}},
        **{name: {"hidden": True} for name in (*hidden, "preset", "what_if")},
    }


def adapt(page: Page, state: State, name: str) -> None:
    """Goes to the recording of the problem for another kernel, and to the first block of another recording."""
    if name == "recorded":
        choices.take(page, state)
    if name == "kernel" and not choices.live(state) and choices.of(state["kernel"]):
        choices.take_kernel(page, state, page.problem_of(state))
    if name in ("kernel", "recorded"):
        state["block"] = 0


STORY = story_of(
    story.STORY,
    path="pipeline",
    title="Pipeline",
    look="Look for work at the same time: copies, products and exponentials. "
    "The tensor cores rest while no product is in flight.",
    page=page,
    subject=subject,
    order=80,
    needs_kernels=True,
    request_tabs=False,
    parts={"perfetto": perfetto_tab},
)
