"""Timing: sweeps of times, live on this GPU or recorded on named ones: latency, throughput, speed-up, memory, roofline,
a report."""

import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.choices.pages import TIMING as page
from app.sections import live_sweep, times
from explainers import timing, timing_charts
from kernels.timing import bench, compare

survey = runs.survey()
mine = st.session_state.setdefault("timing_rows", [])  # rows measured in this session
st.header("Timing", anchor=False)
st.markdown(
    "How long each kernel takes, next to torch's own attention on the same inputs. Only a timed build whose output "
    "passed against float64 gets a "
    "time."
)
told = st.container()
if "gpu" in survey.devices:
    live_sweep.show(mine)
else:
    st.info(
        f"This machine has no GPU, so the times are recorded ones. {survey.reasons.get('gpu', '')}",
        icon=":material/info:",
    )

with st.sidebar:
    table, where, every = times.sources(page, mine, survey)
    found = timing.sweeps(table)
    titles = {key: timing.sweep_title(table, field, fixed) for key, (field, fixed) in found.items()}
if not found:
    with told:
        show_ignored()
    page.write_link()
    said = (
        "No sweep has two sizes yet: what was measured is in the table below."
        if len(table)
        else "Nothing is recorded and nothing was measured yet."
    )
    st.warning(" ".join([said, *bench.not_recorded()]))
    st.dataframe(table.dropna(axis=1, how="all"), hide_index=True, width="stretch")
    frame.labels()
    st.stop()
with st.sidebar:
    page.state["sweep"] = timing.find_sweep(found, page["sweep"]) or page["sweep"]
    page.among("sweep", found, next(iter(found)))
    key = page.widget("sweep", st, "Sweep", options=found, format_func=titles.get)
    field, fixed = found[key]
    part = timing.slice_of(table, field, fixed)
    names = timing.labels(part)
    page.among("baseline", names, times.preferred(names))
    baseline = page.widget("baseline", st, "Baseline of the speed-ups", options=names)
    shown = times.several(page, "Shown", names, "hide", hidden=True)
page.write_link()
with told:
    show_ignored()
compared = compare.speedups(part, baseline)
compared = compared[compared.label.isin(shown)]

st.subheader(titles[key], anchor=False)
st.success(timing.sentence(compared, field, baseline))
st.caption(timing.exponent_sentence(part[part.label.isin(compared.label)], field))
roofs = {entry.device: entry.roofs for entry in where.values()}
charts = {kind: timing_charts.chart(kind, compared, field, baseline, roofs) for kind in timing_charts.CHARTS}
for first in range(0, len(charts), 2):
    for column, kind in zip(st.columns(2, gap="large"), list(charts)[first : first + 2]):
        with column:
            st.markdown(f"**{timing_charts.CHARTS[kind]}**")
            st.altair_chart(charts[kind], key=f"chart_{kind}", width="stretch", alt=timing_charts.ALT[kind])
            st.caption(timing_charts.NOTES[kind])
times.badges(where)
st.subheader("Every figure", anchor=False)
st.dataframe(timing.figures_table(compared, field), hide_index=True, width="stretch", key="timing_table")
missing = timing.without_time(part)
if len(missing):
    st.markdown("**No time, and why**")
    st.dataframe(missing, hide_index=True, width="stretch")
if reasons := bench.not_recorded():
    st.caption(" ".join(reasons))
st.subheader("Take it along", anchor=False)
times.downloads(
    compared, timing.report(compared, part, field, titles[key], baseline, list(where.values())), baseline, where, charts
)
times.others(table)
frame.labels()
