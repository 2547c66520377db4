"""The memory hierarchy: latency and bandwidth against the working set, measured on the GPU at hand or recorded."""

import time

import pandas as pd
import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.choices.pages import HIERARCHY as page
from explainers import hierarchy
from kernels.errors import BackendUnavailable, WarpglassError
from kernels.timing import hierarchy as measured
from kernels.timing.hierarchy import Measured

survey = runs.survey()
with st.sidebar:
    page.choose_backend(survey)
page.write_link()
st.header("Memory hierarchy", anchor=False)
st.markdown(
    "A chain of loads, each waiting for the one before, walks through more and more bytes; then the whole GPU reads as "
    "fast as it can. The "
    "plateaus are the levels of the memory."
)
show_ignored()
here = st.session_state.setdefault("hierarchy", [])  # rows measured in this session


def measure() -> None:
    """One point after another, each a task of the GPU's worker: what is done stays, and a click on Stop ends it."""
    places = measured.sweep(survey.devices["gpu"].multiprocessors)
    bar = st.progress(0.0, "Measuring")
    st.button("Stop", icon=":material/stop:")  # any click ends this run of the page; the points so far are kept
    here.clear()
    started = time.monotonic()
    for number, place in enumerate(places):
        here.append(runs.hierarchy_point(place))
        bar.progress(
            (number + 1) / len(places),
            f"{number + 1} of {len(places)} points, {time.monotonic() - started:.0f} s so far",
        )
    bar.empty()
    st.rerun()


if gpu := survey.devices.get("gpu"):
    if st.button("Measure on this GPU (about a minute)", icon=":material/speed:", type="primary"):
        try:
            measure()
        except WarpglassError as error:
            st.error(f"**The measurement ended.** {error}", icon=":material/error:")
else:
    st.info(
        f"This machine has no GPU, so the figures are recorded ones. {survey.reasons.get('gpu', '')}",
        icon=":material/info:",
    )
now = pd.DataFrame(here)
try:
    recorded = measured.recorded()
except BackendUnavailable as error:
    st.warning(str(error), icon=":material/info:")
    recorded = Measured(now, "", "", "", "")  # what was measured here stands alone
if recorded.table.empty:
    frame.labels()
    st.stop()
shown = hierarchy.beside(recorded, now if recorded.device else now.iloc[:0])
device, label, when = (gpu.name, "measured", "now") if here and gpu else (recorded.device, "recorded", recorded.date)
levels = hierarchy.plateaus(now.reindex(columns=recorded.table.columns) if here else recorded.table)
st.success(hierarchy.sentence(levels, device))
left, right = st.columns(2, gap="large")
with left:
    st.subheader("Latency", anchor=False)
    about = "Cycles of one load against the working set, by kind of memory"
    st.altair_chart(hierarchy.latency_chart(shown), key="latency", width="stretch", alt=about)
with right:
    st.subheader("Bandwidth", anchor=False)
    st.altair_chart(
        hierarchy.bandwidth_chart(shown),
        key="bandwidth",
        width="stretch",
        alt="Gigabytes per second against the working set",
    )
st.badge(label, color=frame.BADGE_COLOURS[label])
st.caption(
    f"{device}, {when}: median of {measured.RUNS} runs, with the least and the most as a rule; timed builds of a "
    f"pointer chase and of a stream "
    "whose output equalled the reference. A chain's figure holds the address arithmetic too: none in shared memory, "
    "two additions in global."
)
st.subheader("The levels", anchor=False)
st.dataframe(hierarchy.as_text(levels), hide_index=True, width="stretch")
st.caption(
    f"Cycles, ns, GB/s: {label}, medians over the plateau (latency: L1 up to 128 KiB, L2 from 512 KiB to 16 MiB, "
    f"device memory from 128 MiB). "
    "Textbook cycles: the round figures that courses give, of no GPU in particular; they are not measured."
)
frame.labels()
