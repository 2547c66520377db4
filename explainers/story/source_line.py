"""The source line of a story about a warp's accesses: one of the lines with an access in the run."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kernels.core.fields import quoted
from kernels.run.results import Run
from kernels.trace.kinds import LANE_KINDS
from kernels.trace.probes import Site, sites_of

Place = tuple[str, int]  # file and line of a probe


class Chosen(NamedTuple):
    """The probe of a source line.

    at: its place; None for all probes.
    choice: the choice of the page, as app.choices.described describes it.
    told: the parts of the link that were not taken.
    """

    at: Place | None
    choice: Mapping[str, object]
    told: list[str]


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
    by_name = {name_of(site.file, site.line): site for site in sites}
    asked = wanted(own, line)
    told = [unknown(line)] if line and asked not in by_name else []
    now = asked if asked in by_name else name_of(*first) if first else ""
    texts = {file: text.splitlines() for file, text in run.request.kernel.files}

    def said(site: Site) -> str:
        where = "" if site.file == own else f"{site.file} "
        return f"{where}line {site.code_line}: {texts[site.file][site.code_line - 1].strip()}"

    options = {**({"": every} if every else {}), **{name: said(site) for name, site in by_name.items()}}
    at = (by_name[now].file, by_name[now].line) if now else None
    listed = [{"value": name, "label": label} for name, label in options.items()]
    choice = {"name": "line", "label": "Source line", "kind": "select", "value": now, "options": listed}
    return Chosen(at, choice | {"group": "own", "help": ""}, told)


def unknown(line: str) -> str:
    """The sentence about a line without an access."""
    return f"line is {quoted(line)}. There is no such choice here."


def wanted(own: str, line: str) -> str:
    """The name of a line in a link. own: the kernel's file, for a bare number."""
    return name_of(own, line) if line.isdigit() else line


def name_of(file: str, line: object) -> str:
    return f"{file}:{line}"
