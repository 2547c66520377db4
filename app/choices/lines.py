"""The choice of a source line among the probes of a page (explainers/story/source_line.py), known after its run."""

from app.choices.choice import Choice
from app.choices.page import Correction, Page, State
from explainers.story.source_line import name_of, unknown, wanted
from kernels.errors import ProblemError
from kernels.trace.probes import sites_of

LINE = Choice("", late=True, stays=True, meaning="the source line looked at, as FILE:LINE of its probe")


def correct(page: Page, state: State, space: str, kernels: list[str]) -> list[Correction]:
    """Corrects the kernel and the line of a page that looks at a source line, in place.

    space: of the memory, shared or global. A line without an access of it is dropped.
    kernels: the kernels of the view. The first one replaces others."""
    corrections, kernel = [], state["kernel"]
    if kernel not in kernels:
        page.take_kernel(state, "", kernels[0])
        said = f"kernel is {kernel!r}. In this view it must be one of {', '.join(kernels)}."
        corrections.append(Correction("kernel", said))
    line = state["line"]
    try:
        plain = page.kernel_of(state).plain  # only the run knows its lines
        if line and not plain:
            probes = (site for site in sites_of(page.request_of(state)) if site.space == space)
            if wanted(page.kernel_of(state).path.name, line) not in {name_of(site.file, site.line) for site in probes}:
                state["line"] = ""
                corrections.append(Correction("line", unknown(line)))
    except ProblemError:
        pass  # the page reports the error of the problem
    return corrections


def adapt(page: Page, state: State, name: str) -> None:
    """Drops the line after another kernel or view: a line belongs to both."""
    if name in ("kernel", "view"):
        state["line"] = ""
