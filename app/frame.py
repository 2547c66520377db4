"""What every story page shares: title, provenance badge, clock and sentence on top; registers and download below."""

import io

import pandas as pd
import streamlit as st

from app import choices, runs
from app.clock import components
from explainers.glossary import PROVENANCE
from kernels.backends import PROVENANCE as LABEL_OF
from kernels.build import DEFAULT_ARCH
from kernels.execute import is_correct

BADGE_COLOURS = {"measured": "green", "executed": "blue", "recorded": "violet", "derived": "gray", "modelled": "orange"}


def title(text, request):
    """The page's title with the kernel's idea, and what the link could not say."""
    st.header(text, anchor=False)
    kernel = request.kernel
    st.markdown(f"**{kernel.name}** {kernel.title}. {kernel.idea[0].upper()}{kernel.idea[1:]}")
    choices.show_ignored()


def badge(run):
    """The provenance of the run's values, in a line."""
    where = f"on {run.device}, {run.date}" + (f", {run.compiler}" if run.compiler else "")
    st.badge(run.provenance, color=BADGE_COLOURS[run.provenance], help=PROVENANCE[run.provenance])
    baseline = runs.baseline(run.request)
    error = f"largest error against float64 {run.max_abs_error:.2g}, torch's own {baseline:.2g}"
    st.caption(f"Values and addresses {run.provenance} {where}. {run.trace.table.num_rows:,} records; {error}.")
    if run.trace.lost:
        st.warning(f"The trace was cut: {run.trace.lost:,} records did not fit, so later steps are incomplete. Choose a smaller seq_len.")
    if not is_correct(run.max_abs_error, baseline) and not run.request.broken:
        st.error("The output misses float64 by more than twice torch's own error. Do not trust this run.")


def clock(frames, run, step=0):
    """The clock, at the step of the link the first time, at `step` for every other `run` (anything hashable)."""
    components.clock(frames, run_id=str(hash(run)), step=st.session_state.pop("first_step", step))
    components.narration(frames)


def steps(frames, run, kernel, view, step=0):
    """The clock, and below it the dense view (`view`, a function that mounts it) beside the kernel's source."""
    clock(frames, run, step)
    left, right = st.columns([11, 9], gap="medium")
    with left:
        view()
    with right:
        components.code(kernel, frames)


def builds(request, device):
    """Registers, shared memory and spills of both builds: the observer effect, visible."""
    builds_of(request.kernel, request.problem, request.settings, device.target if device.backend == "gpu" else DEFAULT_ARCH)


def builds_of(kernel, problem, settings, arch):
    """The same for any architecture."""
    facts, reason = runs.facts(kernel, problem, settings, arch)
    st.markdown("**The two builds**")
    if facts is None:
        st.caption(f"Not known here: {reason}")
        return
    rows = [{"build": mode, "kernel": e["entry"], "registers": e["registers"], "shared bytes": e["shared_bytes"], "spilled bytes": e["spill_bytes"]}
            for mode, made in facts["builds"].items() for e in made["entries"]]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    compiler = facts["builds"]["timed"]["compiler"]
    st.caption(f"From {compiler} for {arch}. The trace comes from the probed build; probes cost registers, so times are only ever taken from the timed one.")


def download(run):
    """The trace as Parquet."""
    st.download_button("Download the trace (Parquet)", data=lambda: _parquet(run), file_name=f"{run.request.kernel.name}-trace.parquet",
                       mime="application/vnd.apache.parquet", icon=":material/download:", on_click="ignore")


def _parquet(run):
    buffer = io.BytesIO()
    run.trace.save(buffer)
    return buffer.getvalue()


def labels():
    """What the provenance labels mean, folded."""
    with st.expander("What the labels mean"):
        for name in dict.fromkeys([*LABEL_OF.values(), *PROVENANCE]):
            st.markdown(f":{BADGE_COLOURS[name]}-badge[{name}] {PROVENANCE[name]}")


