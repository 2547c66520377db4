"""The source line of a story about a warp's accesses: one of the lines with an access in the run."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kernels.core.fields import quoted
from kernels.run.results import Run
from kernels.trace.kinds import LANE_KINDS
from kernels.trace.memory.traced import Place
from kernels.trace.probes import Site


class Chosen(NamedTuple):
    """The probe of a source line."""

    at: Place | None  # its place; None for all probes
    choice: Mapping[str, object]  # the choice of the page, as app.choices.described describes it
    told: list[str]  # the parts of the link that were not taken


def logged(run: Run, space: str) -> list[Site]:
    """The probes with an access by lanes in a memory space (shared or global), in the order of the source. The copy
    engine and the tensor cores log no addresses of lanes."""
    sites = run.sites
    touched = [sites[number] for number in np.unique(sites.index(run.trace.table))]
    by_lanes = {(kind.event, kind.space) for kind in LANE_KINDS}
    return [site for site in touched if site.space == space and (site.event, site.space) in by_lanes]


def choose(line: str, run: Run, sites: list[Site], first: Place | None = None, every: str = "") -> Chosen:
    """The probe of a link: FILE:LINE, FILE:LINE:TENSOR for a later tensor of that line, or in old links a line of the
    kernel. By default `first`, or all probes, under the label `every`."""
    own = run.request.kernel.path.name
    by_name = _named(sites)
    asked, places = wanted(own, line), {_place(site): name for name, site in by_name.items()}
    told = [unknown(line)] if line and asked not in by_name else []
    now = asked if asked in by_name else places[first] if first else ""
    texts = {file: text.splitlines() for file, text in run.request.kernel.files}
    several = {name.rpartition(":")[0] for name in by_name if name.count(":") > 1}

    def said(name: str, site: Site) -> str:
        where = "" if site.file == own else f"{site.file} "
        of = f"{site.tensor}, " if name_of(site.file, site.line) in several else ""
        if site.file not in texts:
            return f"{of}a function of CUDA"
        return f"{of}{where}line {site.code_line}: {texts[site.file][site.code_line - 1].strip()}"

    options = {**({"": every} if every else {}), **{name: said(name, site) for name, site in by_name.items()}}
    at = _place(by_name[now]) if now else None
    listed = [{"value": name, "label": label} for name, label in options.items()]
    choice = {"name": "line", "label": "Source line", "kind": "select", "value": now, "options": listed}
    return Chosen(at, choice | {"group": "own", "help": ""}, told)


def _place(site: Site) -> Place:
    return Place(site.file, site.line, site.tensor or "")


def _named(sites: list[Site]) -> dict[str, Site]:
    """The name of each probe in links -> the probe. A line's later tensors add their name."""
    found: dict[str, Site] = {}
    for site in sites:
        name = name_of(site.file, site.line)
        if found.setdefault(name, site).tensor != site.tensor:
            found.setdefault(name_of(name, site.tensor), site)
    return found


def unknown(line: str) -> str:
    """The sentence about a line without an access."""
    return f"line is {quoted(line)}. There is no such choice here."


def wanted(own: str, line: str) -> str:
    """The name of a line in a link. own: the kernel's file, for a bare number."""
    return name_of(own, line) if line.isdigit() else line


def name_of(file: str, line: object) -> str:
    return f"{file}:{line}"
