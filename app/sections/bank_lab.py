"""The lab: a column walk or a transpose through shared memory, under the stride, padding, swizzle and width that one chooses."""

import pandas as pd
import streamlit as st

from app import frame, runs
from app.clock import components
from explainers import bank_conflicts
from kernels import lab, measurements
from kernels.catalog import BANKS
from kernels.errors import WarpglassError
from kernels.execute import Scope

SHORT = 16
RULE = """
- A byte's **bank** is its address / 4, modulo 32. A **wavefront** serves at most one word (4 bytes) of each bank; lanes that want the same word share it.
- Up to 4 bytes a lane, all 32 lanes are one **pass**. 8 bytes a lane take two passes of 16 lanes, 16 bytes four of 8; an ldmatrix one for each matrix.
- A pass takes as many wavefronts as the most different words that it wants of one bank. A pass without an active lane takes none.
- A load's passes merge two by two where every active lane n of the warp wants what lane n XOR 1 wants, or every one what lane n XOR 2 wants.
- A cp.async (through L1) is served like a store, but its lanes do not share words.
"""


def show(page, survey):
    with st.sidebar:
        page.kernels = tuple(BANKS)
        kernel = page.choose_kernel("Walk")
        backend = page.choose_backend(survey)
        if backend == "recorded":
            page.choose_recorded()
        else:
            page.widgets(["stride"] if kernel.name == "lab_columns" else ["rows", "columns"])
            page.widgets(["WIDTH", "PAD", "MATRICES", "SWIZZLE"])
    request = page.request(backend, Scope())
    run = runs.run(request)
    lines = run.lines("shared")
    line = page.choose_line(request, lines, next(line for line in lines if request.sites[line].kind != "store"))
    story = bank_conflicts.explain(run, line)
    cost = bank_conflicts.reading(story)
    cycles, whose = _cycles(request, page.settings(), backend, survey)
    columns = st.columns(4)
    columns[0].metric("Wavefronts per access", f"{cost['wavefronts']:.4g}", border=True)
    columns[1].metric("At best", f"{cost['ideal']:.4g}", border=True)
    columns[2].metric("Conflicts per access", f"{cost['conflicts']:.4g}", border=True)
    label = "measured" if backend == "gpu" else "recorded"
    columns[3].metric(f"Cycles per access ({label})", "not known" if cycles is None else f"{cycles['cycles']:.4g}", border=True, help=whose)
    page.write_url()
    frame.steps(story.frames, (request, line), kernel, lambda: components.banks(story))
    if story.left_out:
        st.caption(f"The first {len(story.accesses)} accesses of the warp are shown; {story.left_out} more are alike in kind and counted below.")
    frame.badge(run)
    st.caption(f"Addresses {run.provenance}; banks, passes and wavefronts derived by the rule. Which wavefront serves which word is not known of the hardware: "
               "here a bank's words are served in the order of their addresses.")
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("The rule", anchor=False)
        st.markdown(RULE)
        calibration, where = measurements.recorded_table(measurements.CALIBRATION)
        same = int((calibration.measured == calibration.modelled).sum())
        st.caption(f"Held against Nsight Compute on an {where['device']}, {where['date']}: equal in {same:,} of {len(calibration):,} accesses, of every "
                   "width, kind and mask.")
    with right:
        st.subheader("Cycles beside wavefronts", anchor=False)
        table, where = measurements.recorded_table(measurements.CYCLES)
        now = pd.DataFrame([{**cycles, "wavefronts": cost["wavefronts"]}]) if cycles is not None else None
        st.altair_chart(bank_conflicts.cycles_chart(table[table.stride >= SHORT], now), key="cycles", width="stretch",
                        alt="Measured cycles per access against derived wavefronts")
        st.caption(f"Recorded on {where['device']}, {where['date']}: cycles per access of a warp while 8 warps do nothing else. {whose} Below two to four "
                   f"cycles the instructions around an access, not the banks, set the pace. Rows of fewer than {SHORT} floats, all loop, are left out.")


def _cycles(request, settings, backend, survey):
    """Cycles per access of this walk (a dict), measured here or recorded, and a sentence that says which; None where neither is."""
    if request.kernel.name != "lab_columns":
        return None, "Cycles are measured for the column walk."
    problem = lab.ColumnsProblem(request.problem.stride)
    if backend == "gpu":
        try:
            return runs.cycles(problem, settings), f"Ringed: this setting, measured on {survey.devices['gpu'].name} now."
        except WarpglassError as error:
            return None, str(error)
    table, where = measurements.recorded_table(measurements.CYCLES)
    wanted = {"stride": problem.stride, **dict(settings)}
    found = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    if not len(found):
        return None, "This setting is not among those recorded."
    return found.iloc[0].to_dict(), f"Ringed: this setting, recorded on {where['device']}, {where['date']}."
