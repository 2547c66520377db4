"""A warp's accesses of shared memory, wavefront by wavefront, under the stride, padding, swizzle and width that one
chooses."""

from typing import Any

import pandas as pd
import streamlit as st

from app import frame, runs
from app.choices import Page, lines
from app.clock import components
from explainers import bank_conflicts
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.memory import calibration
from kernels.run.backends import Survey
from kernels.timing import hierarchy
from kernels.trace.kinds import READS

SHORT = 16
RULE = """
- A byte's **bank** is its address / 4, modulo 32. A **wavefront** serves at most one word (4 bytes) of each bank;
  lanes that want the same word share it.
- Up to 4 bytes a lane, all 32 lanes are one **pass**. 8 bytes a lane take two passes of 16 lanes, 16 bytes four of 8;
  an ldmatrix one for each matrix.
- A pass takes as many wavefronts as the most different words that it wants of one bank. A pass without an active lane
  takes none.
- A load's passes merge two by two where every active lane n of the warp wants what lane n XOR 1 wants, or every one
  what lane n XOR 2 wants.
- A cp.async (through L1) is served like a store, but its lanes do not share words.
"""


def show(page: Page, survey: Survey) -> None:
    backend = page.sidebar(survey)
    request = page.request(backend)
    run = runs.run(request)
    sites = lines.logged(run, "shared")
    if not sites:
        page.write_link()
        st.info("This run touched no shared memory.", icon=":material/info:")
        return
    reads = [site for site in sites if site.event in READS] or sites
    at = lines.choose(page, run, sites, (reads[0].file, reads[0].line))
    story = bank_conflicts.explain(run, at)
    cost = bank_conflicts.reading(story)
    cycles, whose = _cycles(request, survey)
    columns = st.columns(4)
    for column, title, name in zip(
        columns, ("Wavefronts per access", "At best", "Conflicts per access"), ("wavefronts", "ideal", "conflicts")
    ):
        column.metric(title, f"{cost[name]:.4g}", border=True)
    label = "measured" if backend == "gpu" else "recorded"
    columns[3].metric(
        f"Cycles per access ({label})", f"{cycles['cycles']:.4g}" if cycles else "not known", border=True, help=whose
    )
    page.write_link()
    frame.steps(
        story.frames, (request, at), request.kernel, lambda: components.view("banks", bank_conflicts.view(story))
    )
    if story.left_out:
        st.caption(
            f"The first {len(story.accesses)} accesses of the warp are shown; {story.left_out} more are alike in kind "
            f"and counted below."
        )
    frame.badge(run)
    st.caption(
        f"Addresses {run.provenance}; banks, passes and wavefronts derived by the rule. Which wavefront serves which "
        f"word is not known of the "
        "hardware: here a bank's words are served in the order of their addresses."
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("The rule", anchor=False)
        st.markdown(RULE)
        st.caption(_calibrated())
    with right:
        st.subheader("Cycles beside wavefronts", anchor=False)
        _chart({**cycles, "wavefronts": cost["wavefronts"]} if cycles else None, whose)


def _calibrated() -> str:
    """What is known of how right the rule is."""
    for device, (table, where) in calibration.recorded().items():
        same = int((table.measured == table.modelled).sum())
        equal = f"equal in {same:,} of {len(table):,} accesses, of every width, kind and mask"
        return f"Held against Nsight Compute on {device}, {where.date}: {equal}."
    return "No comparison of the present rule with Nsight Compute's counters is recorded."


def _chart(now: dict[str, Any] | None, whose: str) -> None:
    """The recorded cycles, and those of this setting in a ring."""
    try:
        recorded = hierarchy.recorded(kind=hierarchy.CYCLES)
    except WarpglassError as error:
        st.caption(str(error))
        return
    chart = bank_conflicts.cycles_chart(
        recorded.table[recorded.table.stride >= SHORT], pd.DataFrame([now]) if now else None
    )
    st.altair_chart(chart, key="cycles", width="stretch", alt="Measured cycles per access against derived wavefronts")
    st.caption(
        f"Recorded on {recorded.device}, {recorded.date}: cycles per access of a warp while 8 warps do nothing else. "
        f"{whose} Below two to four "
        f"cycles the instructions around an access, not the banks, set the pace. Rows of fewer than {SHORT} floats, "
        f"all loop, are left out."
    )


def _cycles(request: Request, survey: Survey) -> tuple[dict[str, Any] | None, str]:
    """Cycles per access of this walk, measured here or recorded, and a sentence that says which; None where neither
    is."""
    if not hierarchy.has_cycles(request.kernel):
        return None, "Cycles are measured for the column walk."
    try:
        if request.backend == "gpu":
            return runs.cycles(request), f"Ringed: this setting, measured on {survey.devices['gpu'].name} now."
        recorded = hierarchy.recorded(kind=hierarchy.CYCLES)
    except WarpglassError as error:
        return None, str(error)
    table, wanted = recorded.table, {"stride": request.problem.stride, **request.constants}
    found = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    if not len(found):
        return None, "This setting is not among those recorded."
    return found.iloc[0].to_dict(), f"Ringed: this setting, recorded on {recorded.device}, {recorded.date}."
