"""Which of a run's probes is looked at: a choice among the source lines that logged an access, known once it ran."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from app.choices.described import Described, select
from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.kinds import LANE_KINDS
from kernels.trace.probes import Site, sites_of

LINE = Choice("", late=True, meaning="the source line looked at, as FILE:LINE of its probe")
Place = tuple[str, int]  # file and line of a probe


class Chosen(NamedTuple):
    """at: the probe that is looked at; None: all of them. choice: the description of the choice. told: what of the link
    was not taken."""

    at: Place | None
    choice: Described
    told: list[str]


def settling(
    space: str, listed: Callable[[Asked, State], list[str]]
) -> Callable[[Asked, State], list[tuple[str, str]]]:
    """Asked.settle of a page that looks at a line. listed: the kernels that its view shows; where another is chosen,
    the first of them is taken. A line without a probe of an access of that space (shared or global) is let go of."""

    def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
        moved, names, kernel = [], listed(asked, state), state["kernel"]
        if kernel not in names:
            asked.take_kernel(state, "", names[0])
            moved.append(("kernel", f"kernel is {kernel!r}; in this view it must be one of {', '.join(names)}."))
        wanted = state["line"]
        try:
            if wanted and _wanted(asked.spec_of(state).path.name, wanted) not in _probes(asked, state, space):
                state["line"] = ""
                moved.append(("line", _unknown(wanted)))
        except ProblemError:
            pass  # the page says what is wrong with the problem
        return moved

    return settle


def changed(asked: Asked, state: State, name: str) -> None:
    """Story.changed: a line belongs to its kernel, and to the view that chose it."""
    if name in ("kernel", "view"):
        state["line"] = ""


def logged(run: Run, space: str) -> list[Site]:
    """The probes that logged an access of that space (shared or global) by lanes, in the source's order; of what the
    copy engine and the tensor cores touch themselves no lane has an address."""
    sites = sites_of(run.request)
    there = [sites[number] for number in np.unique(sites.index(run.trace.table))]
    by_lanes = {(kind.event, kind.space) for kind in LANE_KINDS}
    return [site for site in there if site.space == space and (site.event, site.space) in by_lanes]


def choose(asked: str, run: Run, sites: list[Site], first: Place | None = None, every: str = "") -> Chosen:
    """The probe that a link asks for, as FILE:LINE or (as links of old said it) a line of the kernel itself; where it
    asks for none of these `first`, or all, which the choice calls `every`."""
    own = run.request.kernel.path.name
    by_name = {_name(site.file, site.line): site for site in sites}
    wanted = _wanted(own, asked)
    told = [_unknown(asked)] if asked and wanted not in by_name else []
    now = wanted if wanted in by_name else _name(*first) if first else ""
    texts = {file: text.splitlines() for file, text in run.request.kernel.files}

    def said(site: Site) -> str:
        where = "" if site.file == own else f"{site.file} "
        return f"{where}line {site.code_line}: {texts[site.file][site.code_line - 1].strip()}"

    options = {**({"": every} if every else {}), **{name: said(site) for name, site in by_name.items()}}
    at = (by_name[now].file, by_name[now].line) if now else None
    return Chosen(at, select("line", "Source line", now, options), told)


def _probes(asked: Asked, state: State, space: str) -> set[str]:
    request = asked.request_of(state)
    return {_name(site.file, site.line) for site in sites_of(request) if site.space == space}


def _unknown(line: str) -> str:
    return f"line is {quoted(line)}; there is no such choice here."


def _wanted(own: str, asked: str) -> str:
    return _name(own, asked) if asked.isdigit() else asked


def _name(file: str, line: Any) -> str:
    return f"{file}:{line}"
