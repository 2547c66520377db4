"""Compare: two kernels, or two builds of one, on the same inputs under one clock, and what differs in code, bytes, conflicts and time."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from app import compare_choices, frame, runs
from app.choices import PROBLEM, show_ignored
from app.clock import components
from explainers import compare, tiling, timing
from kernels import bench
from kernels.build import DEFAULT_ARCH
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import Point

survey = runs.survey()
st.header("Compare", anchor=False)
pair = compare_choices.sidebar(survey)
requests = (pair.a, pair.b)
names = [request.kernel.name for request in requests]
show_ignored()
try:
    for request in requests:  # both before either is run, so that a choice that cannot be says so once
        request.scope.check(request.plan.items, request.problem.item)
except ProblemError as error:
    st.error(f"**This cannot run.** {error}".replace("`", "'"), icon=":material/block:")
    st.stop()
for column, side, request in zip(st.columns(2, gap="medium"), "AB", requests):
    column.markdown(f"**{side}: {request.kernel.name}** {request.kernel.title}. {request.kernel.idea[0].upper()}{request.kernel.idea[1:]}")
both = [runs.run(request) for request in requests]
stories = [tiling.explain(run) for run in both]
aligned = compare.align(stories[0].frames, stories[1].frames, requests)

components.clock(aligned.frames, run_id=str(hash(requests)), step=st.session_state.pop("first_step", 0))
sides = list(zip("ab", both, stories, (aligned.a, aligned.b)))
for mount in (lambda side, run, story, frames: components.narration(frames, side),  # a row of columns each, so that both stay level
              lambda side, run, story, frames: components.matrices(run, replace(story, frames=frames), side),
              lambda side, run, story, frames: components.code(run.request.kernel, frames, side=side)):
    for column, what in zip(st.columns(2, gap="medium"), sides):
        with column:
            mount(*what)
st.caption("Steps are the same where both kernels are in the same phase and at the same first key; where only one of them has such a step, the other waits.")

st.subheader("What differs", anchor=False)
arch = survey.devices["gpu"].target if pair.a.backend == "gpu" else DEFAULT_ARCH
facts = [runs.facts(r.kernel, r.problem, r.settings, arch)[0] for r in requests]
try:
    occupancies = [runs.occupancy(r.kernel, r.problem, r.settings, arch) for r in requests]
except WarpglassError:  # no NVRTC here, or an architecture whose limits are not known
    occupancies = [None, None]
traffics = [runs.traffic(request) for request in requests]
table = compare.differences(requests, facts, occupancies, [compare.costs(run) for run in both], traffics)
st.dataframe(table, hide_index=True, width="stretch", height=35 * (len(table) + 1) + 3)
over = "of the whole run" if all(t.whole for t in traffics) else "of the traced tile, as the whole run's records would not fit"
st.caption(f"Addresses {both[0].provenance}; wavefronts and sectors derived from them, of the traced query tile; bytes counted {over}; registers and occupancy "
           f"for {arch}.")
left, right = st.columns(2, gap="large")
with left:
    st.markdown("**Bytes from and to global memory**")
    traffic = tiling.traffic_comparison({f"{side}: {name}": t for side, name, t in zip("AB", names, traffics)}, pair.a.problem)
    bars = tiling.traffic_chart(traffic).properties(height=90 + 34 * traffic.groupby(["tensor", "kind"]).ngroups)
    st.altair_chart(bars, key="traffic", width="stretch", alt="How many times each side moves each tensor")
with right:
    st.markdown("**Outputs and state**")
    agreement = compare.outputs(*both)
    st.info(compare.output_sentence(agreement, *both), icon=":material/balance:")
    st.dataframe(agreement.assign(**{"largest difference": [f"{v:.3g}" for v in agreement["largest difference"]]}), hide_index=True, width="stretch")
    for side, run in zip("AB", both):
        if run.request.broken:
            st.caption(f"{side} is broken on purpose: {run.request.broken[0].effect}")

st.subheader("Times", anchor=False)
tables = [timing.prepared(table, where, "recorded") for table, where in bench.recorded().values()]
here = st.session_state.setdefault("compare_rows", [])  # of A and B, as last timed
if "gpu" in survey.devices:
    st.markdown("Both at once on this GPU, on the problem above or on a larger one of the same kind:")
    columns, field = st.columns([1, 1, 1, 2], vertical_alignment="bottom"), {name: f.metadata for name, f in PROBLEM.items()}
    seq_len = columns[0].number_input("seq_len to time", field["seq_len"]["low"], field["seq_len"]["high"], 1024, key="compare_time_seq_len")
    heads = columns[1].number_input("heads to time", field["heads"]["low"], field["heads"]["high"], 8, key="compare_time_heads")
    head_dim = columns[2].selectbox("head_dim to time", field["head_dim"]["allowed"], index=1, key="compare_time_head_dim")
    if columns[3].button("Time both", icon=":material/speed:", type="primary"):
        try:
            with st.spinner("Timing A and B"):
                roofs, problem = runs.roofs(), replace(pair.a.problem, seq_len=seq_len, heads=heads, head_dim=head_dim)
                here[:] = [runs.timed(Point(request.kernel.name, problem, request.settings), roofs) for request in requests]
        except WarpglassError as error:
            st.error(f"**Nothing was timed.** {error}", icon=":material/error:")
else:
    st.caption(f"This machine has no GPU, so the times are recorded ones, of the bench's own constants. {survey.reasons.get('gpu', '')}")
if here:
    device = survey.devices["gpu"]
    tables.insert(0, timing.prepared(bench.table(here), {"device": device.name, "date": "now"}, "measured"))
    for row in here:
        if row["status"] != "ok":
            st.error(f"**{row['name']} has no time.** {row['reason']}", icon=":material/error:")
timed = pd.concat(tables, ignore_index=True) if tables else bench.table([]).assign(device="", date="", source="")
found = compare.times(timed, requests)
st.success(compare.times_sentence(found, ["A, " + names[0], "B, " + names[1]]))
if len(found):
    left, right = st.columns([11, 9], gap="large")
    with left:
        st.dataframe(compare.times_table(found, names), hide_index=True, width="stretch")
    with right:
        st.altair_chart(compare.ratio_chart(found), key="ratios", width="stretch", alt="A's time over B's, with its spread, against seq_len")
        st.caption("A's median over B's, above 1 where B is faster; the rule goes from A's p10 over B's p90 to A's p90 over B's p10.")

st.subheader("Source, A to B", anchor=False)
if names[0] == names[1]:
    st.caption(f"Both are builds of {names[0]}: the source is the same, only the constants differ.")
else:
    with st.expander(f"The diff from {names[0]}.cu to {names[1]}.cu", expanded=True):
        st.code(compare.diff(pair.a.kernel, pair.b.kernel), language="diff", height=520)
for side, run in zip("AB", both):
    st.markdown(f"**{side}: {run.request.kernel.name}**")
    frame.badge(run)
frame.labels()
