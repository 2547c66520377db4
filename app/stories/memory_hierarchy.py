"""The memory hierarchy: latency and bandwidth against the working set, measured on the GPU at hand or recorded."""

import time

import pandas as pd
import streamlit as st

from app import frame, kept, runs
from app.choices import choose_backend, show_ignored, write_url
from explainers import hierarchy
from kernels import measurements
from kernels.errors import WarpglassError

survey = runs.survey()
with st.sidebar:
    kept.restore("backend", st.session_state.get("hierarchy_backend", "auto"))
    choose_backend(survey)
    st.session_state.hierarchy_backend = st.session_state.backend
st.header("Memory hierarchy", anchor=False)
st.markdown("A chain of loads, each waiting for the one before, walks through more and more bytes; then the whole GPU reads as fast as it can. The "
            "plateaus are the levels of the memory.")
show_ignored()
write_url({"backend": st.session_state.backend})

recorded, where = measurements.recorded_table(measurements.HIERARCHY)
shown = hierarchy.labelled(recorded, f"recorded, {where['device']}")
device, label, here = where["device"], "recorded", st.session_state.setdefault("hierarchy", [])


def measure():
    """One point after another, each a task of the GPU's worker: what is done stays, and a click on Stop ends it."""
    points = measurements.hierarchy_sweep(survey.devices["gpu"].multiprocessors)
    bar = st.progress(0.0, "Measuring")
    st.button("Stop", icon=":material/stop:")  # any click ends this run of the page; the points so far are kept
    here.clear()
    started = time.monotonic()
    for number, point in enumerate(points):
        here.append(runs.hierarchy_point(point))
        bar.progress((number + 1) / len(points), f"{number + 1} of {len(points)} points, {time.monotonic() - started:.0f} s so far")
    bar.empty()
    st.rerun()


if "gpu" in survey.devices:
    if st.button("Measure on this GPU (about a minute)", icon=":material/speed:", type="primary"):
        try:
            measure()
        except WarpglassError as error:
            st.error(f"**The measurement ended.** {error}", icon=":material/error:")
else:
    st.info(f"This machine has no GPU, so the figures are recorded ones. {survey.reasons.get('gpu', '')}", icon=":material/info:")
if here:
    mine = pd.DataFrame(here).reindex(columns=recorded.columns)
    device, label = survey.devices["gpu"].name, "measured"
    shown = pd.concat([hierarchy.labelled(mine, "measured now"), shown])

levels = hierarchy.plateaus(pd.DataFrame(here).reindex(columns=recorded.columns) if here else recorded)
st.success(hierarchy.sentence(levels, device))
left, right = st.columns(2, gap="large")
with left:
    st.subheader("Latency", anchor=False)
    st.altair_chart(hierarchy.latency_chart(shown), key="latency", width="stretch", alt="Cycles of one load against the working set, by kind of memory")
with right:
    st.subheader("Bandwidth", anchor=False)
    st.altair_chart(hierarchy.bandwidth_chart(shown), key="bandwidth", width="stretch", alt="Gigabytes per second against the working set")
st.badge(label, color=frame.BADGE_COLOURS[label])
st.caption(f"{device}, {where['date'] if label == 'recorded' else 'now'}: median of {measurements.RUNS} runs, with the least and the most as a rule; timed "
           "builds of lab_chase and lab_stream whose output equalled the reference. A chain's figure holds the address arithmetic too: none in shared memory, "
           "two additions in global.")
st.subheader("The levels", anchor=False)
st.dataframe(hierarchy.as_text(levels), hide_index=True, width="stretch")
st.caption(f"Cycles, ns, GB/s: {label}, medians over the plateau (latency: L1 up to 128 KiB, L2 from 512 KiB to 16 MiB, device memory from 128 MiB). Textbook "
           "cycles: the round figures that courses give, of no GPU in particular; they are not measured.")
frame.labels()
