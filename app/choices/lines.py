"""Which of a run's probes is looked at: a choice among the source lines that logged an access."""

from typing import Any

import numpy as np
import streamlit as st

from app.choices.choice import Choice
from app.choices.link import show_ignored
from app.choices.page import Page
from kernels.run.results import Run
from kernels.trace.probes import Site, sites_of

LINE = Choice("", late=True, meaning="the source line looked at, as FILE:LINE of its probe")
Place = tuple[str, int]  # file and line of a probe


def logged(run: Run, space: str) -> list[Site]:
    """The probes that logged an access of that space (shared or global), in the source's order."""
    sites = sites_of(run.request)
    there = [sites[number] for number in np.unique(sites.index(run.trace.table))]
    return [site for site in there if site.space == space]


def choose(page: Page, run: Run, sites: list[Site], first: Place) -> Place:
    """The choice of one of these probes; `first` until another is chosen. Its file and line."""
    by_name = {_name(site.file, site.line): site for site in sites}
    own = run.request.kernel.path.name
    if str(page["line"]).isdigit():  # as links of old said it
        page.state["line"] = _name(own, page["line"])
    page.among("line", by_name, _name(*first))
    show_ignored()
    texts = {file: text.splitlines() for file, text in run.request.kernel.files}

    def said(name: str) -> str:
        site = by_name[name]
        where = "" if site.file == own else f"{site.file} "
        return f"{where}line {site.code_line}: {texts[site.file][site.code_line - 1].strip()}"

    site = by_name[page.widget("line", st, "Source line", options=list(by_name), format_func=said)]
    return site.file, site.line


def _name(file: str, line: Any) -> str:
    return f"{file}:{line}"
