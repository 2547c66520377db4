"""Which of a run's probes is looked at: a choice among the source lines that logged an access, known once it ran."""

from typing import NamedTuple

import numpy as np

from app.choices.choice import Choice
from app.choices.described import select
from app.choices.page import Correction, Description, Page, State
from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.kinds import LANE_KINDS
from kernels.trace.probes import Site, sites_of

LINE = Choice("", late=True, stays=True, meaning="the source line looked at, as FILE:LINE of its probe")
Place = tuple[str, int]  # file and line of a probe


class Chosen(NamedTuple):
    """The probe of a source line.

    at: its place; None for all probes.
    choice: the description of the choice.
    told: the parts of the link that were not taken.
    """

    at: Place | None
    choice: Description
    told: list[str]


def correct(page: Page, state: State, space: str, kernels: list[str]) -> list[Correction]:
    """Corrects the kernel and the line of a page that looks at a source line, in place.

    space: of the memory, shared or global. A line without an access of it is dropped.
    kernels: the kernels of the view. The first one replaces others.
    """
    corrections, kernel = [], state["kernel"]
    if kernel not in kernels:
        page.take_kernel(state, "", kernels[0])
        said = f"kernel is {kernel!r}. In this view it must be one of {', '.join(kernels)}."
        corrections.append(Correction("kernel", said))
    line = state["line"]
    try:
        if line and _wanted(page.kernel_of(state).path.name, line) not in _probes(page, state, space):
            state["line"] = ""
            corrections.append(Correction("line", _unknown(line)))
    except ProblemError:
        pass  # the page reports the error of the problem
    return corrections


def adapt(page: Page, state: State, name: str) -> None:
    """Drops the line after another kernel or view: a line belongs to both."""
    if name in ("kernel", "view"):
        state["line"] = ""


def logged(run: Run, space: str) -> list[Site]:
    """The probes with an access by lanes in a memory space (shared or global), in the order of the source. The copy
    engine and the tensor cores log no addresses of lanes."""
    sites = sites_of(run.request)
    touched = [sites[number] for number in np.unique(sites.index(run.trace.table))]
    by_lanes = {(kind.event, kind.space) for kind in LANE_KINDS}
    return [site for site in touched if site.space == space and (site.event, site.space) in by_lanes]


def choose(line: str, run: Run, sites: list[Site], first: Place | None = None, every: str = "") -> Chosen:
    """The probe of a link: FILE:LINE, or in old links a line of the kernel. By default `first`, or all probes, under
    the label `every`."""
    own = run.request.kernel.path.name
    by_name = {_name(site.file, site.line): site for site in sites}
    wanted = _wanted(own, line)
    told = [_unknown(line)] if line and wanted not in by_name else []
    now = wanted if wanted in by_name else _name(*first) if first else ""
    texts = {file: text.splitlines() for file, text in run.request.kernel.files}

    def said(site: Site) -> str:
        where = "" if site.file == own else f"{site.file} "
        return f"{where}line {site.code_line}: {texts[site.file][site.code_line - 1].strip()}"

    options = {**({"": every} if every else {}), **{name: said(site) for name, site in by_name.items()}}
    at = (by_name[now].file, by_name[now].line) if now else None
    return Chosen(at, select("line", "Source line", now, options), told)


def _probes(page: Page, state: State, space: str) -> set[str]:
    request = page.request_of(state)
    return {_name(site.file, site.line) for site in sites_of(request) if site.space == space}


def _unknown(line: str) -> str:
    return f"line is {quoted(line)}; there is no such choice here."


def _wanted(own: str, line: str) -> str:
    return _name(own, line) if line.isdigit() else line


def _name(file: str, line: object) -> str:
    return f"{file}:{line}"
