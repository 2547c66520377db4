"""Bank conflicts: the tile in memory and 32 lanes by 32 banks, wavefront by wavefront, with and without padding or a
swizzle. For the lab's walks and for the accesses of any kernel."""

from app.choices import lines, pages, possible, recordings
from app.choices.described import kernel_options
from app.choices.page import Correction, Descriptions, Page, State
from app.parts.explained import story_of
from explainers.stories.bank_conflicts import padding, story
from explainers.stories.bank_conflicts.story import Look
from kernels.catalog import Catalog

VIEWS = {"lab": "Access by access", "attention": "Padded or not"}


def page(catalog: Catalog) -> Page:
    own = {"view": pages.one_of(*VIEWS), "line": lines.LINE}
    hooks = {"correct": correct, "adapt": lines.adapt, "describe": describe}
    return pages.accepted_by(story.STORY, catalog, own=own, **hooks)


def subject(page: Page, state: State, backend: str) -> Look:
    request = page.request_of(state, backend=backend)
    sides = padding.before_and_after(request)
    if backend == "recorded" and not all(map(recordings.has, sides)):
        sides = (request,)
    in_lab, other = state["view"] == "lab", padding.swizzled(sides)
    asks = in_lab and other and (backend != "recorded" or recordings.has(other))
    return Look(request, sides, in_lab, state["line"], other if asks else None)


def describe(page: Page, state: State) -> Descriptions:
    """The kernels of the view, the constants that move a tile to other banks, and the reasons of impossible options."""
    shown = kernels_of_view(page, state)
    found: Descriptions = {
        "view": {"label": "Look at", "options": VIEWS},
        "kernel": {"options": kernel_options({n: s for n, s in page.kernels.items() if n in shown})},
    }
    found |= possible.describe(page, state)
    kernel = page.kernel_of(state)
    for constant in kernel.constants if not kernel.problem_type().work else padding.remedies(kernel):
        found[constant.name] = {**found.get(constant.name, {}), "group": "own"}
    return found


def kernels_of_view(page: Page, state: State) -> list[str]:
    """The kernels of a view: in the lab all, else the kernels with padding."""
    return [name for name, spec in page.kernels.items() if state["view"] == "lab" or padding.pads(spec)]


def correct(page: Page, state: State) -> list[Correction]:
    return lines.correct(page, state, "shared", kernels_of_view(page, state))


STORY = story_of(
    story.STORY,
    path="bank_conflicts",
    title="Banks",
    look="Watch which of the 32 banks the lanes of a warp want at once: words of one bank are served one after the "
    "other. Padding or a swizzle moves the same words to other banks, and the wait is gone.",
    page=page,
    subject=subject,
    order=50,
)
