"""Coalescing: the sectors of global memory that each request touches, for any kernel's accesses and for several layouts
side by side."""

from collections.abc import Mapping

from app.choices import lines, pages, possible, recordings
from app.choices.described import kernel_options
from app.choices.page import Correction, Descriptions, Page, State, put
from app.parts.explained import story_of
from explainers.stories.coalescing import story
from explainers.stories.coalescing.story import LAYOUT, STRIDE, WAYS, Look, has_layouts, has_ways, name_of
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

VIEWS = {"ways": "Neighbours and strides", "attention": "A kernel's accesses", "layouts": "Layouts side by side"}


def page(catalog: Catalog) -> Page:
    own = {"view": pages.one_of(*VIEWS), "line": lines.LINE}
    hooks = {"correct": correct, "adapt": lines.adapt, "describe": describe}
    first = tuple(_with_ways(catalog.kernels)[:1])
    return pages.accepted_by(story.STORY, catalog, own=own, first=first, **hooks)


def _with_ways(kernels: Mapping[str, KernelSpec]) -> list[str]:
    return [name for name, spec in kernels.items() if has_ways(spec)]


def subject(page: Page, state: State, backend: str) -> Look:
    if state["view"] == "ways":
        of_ways = {title: page.request_of(state, backend=backend, **fields) for title, fields in WAYS.items()}
        known_ways = {title: r for title, r in of_ways.items() if backend != "recorded" or recordings.has(r)}
        shown = known_ways or of_ways
        return Look(next(iter(shown.values())), tuple(shown.values()), "", tuple(shown))
    if state["view"] != "layouts":
        return Look(page.request_of(state, backend=backend), (), state["line"])
    known = page.fields(state)[LAYOUT].allowed or ()
    requests = {name: _in_layout(page, state, name, backend) for name in known}
    available = {
        name: request for name, request in requests.items() if backend != "recorded" or recordings.has(request)
    }
    chosen = state[LAYOUT] if state[LAYOUT] in available else next(iter(available), state[LAYOUT])
    return Look(requests[chosen], tuple(available.values()) or (requests[chosen],), "")


def _in_layout(page: Page, state: State, layout: str, backend: str) -> Request:
    """The chosen request in a layout, with the smallest width of this layout."""
    error = ProblemError(f"There is no width for the layout {layout}.")
    for width in page.fields(state)["width"].allowed or ():
        try:
            return page.request_of(state, backend=backend, layout=layout, width=width)
        except ProblemError as refused:
            error = refused
    raise error


def kernels_of_view(page: Page, state: State) -> list[str]:
    """The kernels of a view: for layouts, those whose problem has a layout."""
    return [name for name, spec in page.kernels.items() if state["view"] != "layouts" or has_layouts(spec)]


def correct(page: Page, state: State) -> list[Correction]:
    """Corrects the kernel and the source line. Each layout has the smallest width that it takes."""
    if state["view"] == "ways":  # the kernel must have the ways, and the link ask for no other layout or line
        fields, known = page.fields(state), state["kernel"] in _with_ways(page.kernels) and not state["line"]
        if not known or any(state[name] != fields[name].default for name in (LAYOUT, STRIDE, "width")):
            state["view"] = "attention"
    corrections = lines.correct(page, state, "global", kernels_of_view(page, state))
    width = page.choices(state).get("width")
    if state["view"] == "layouts" and width and state["width"] != width.default:
        corrections.append(put(state, "width", width.default, "Side by side, every layout has its least width."))
    return corrections


def describe(page: Page, state: State) -> Descriptions:
    """The kernels of the view, the layout, and the reasons of impossible options. Next to each other, all layouts
    have their smallest width."""
    shown = kernels_of_view(page, state)
    found: Descriptions = {
        "view": {"label": "Look at", "options": VIEWS},
        "kernel": {"options": kernel_options({n: s for n, s in page.kernels.items() if n in shown})},
    }
    found |= possible.describe(page, state)
    if state["view"] == "ways":
        found |= {name: {"hidden": True} for name in (*page.fields(state), "preset")}
    if state["view"] == "layouts":
        known = page.fields(state)[LAYOUT].allowed or ()
        found[LAYOUT] = {"label": "Layout", "group": "own", "options": {layout: name_of(layout) for layout in known}}
        found |= {"width": {"hidden": True}, "preset": {"hidden": True}}
    return found


STORY = story_of(
    story.STORY,
    path="coalescing",
    title="Coalescing",
    look="Global memory moves in sectors of 32 bytes. A sector moves once for a warp's request, however many lanes ask "
    "for it. Look for bytes that move although no lane asks for them.",
    page=page,
    subject=subject,
    order=100,
)
