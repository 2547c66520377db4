"""Compare: two kernels, or two builds of one, on the same inputs under one clock, and what differs in code, bytes,
conflicts and time."""

from contextlib import suppress
from dataclasses import replace

import streamlit as st

from app import frame, runs
from app.choices import places, show_ignored
from app.choices.pages import COMPARE as page
from app.clock import components
from app.sections import both_times
from explainers import compare, tiling, traffic
from kernels.build import DEFAULT_ARCH
from kernels.errors import ProblemError, WarpglassError

survey = runs.survey()
st.header("Compare", anchor=False)
backend = page.sidebar(survey)
places.choose(page)
page.write_link()
show_ignored()
requests = [places.request(page, backend, side) for side in page.sides]
names = [request.kernel.name for request in requests]
try:
    for request in requests:  # both before either is run, so that a choice that cannot be says so once
        request.scope.check(request.plan)
except ProblemError as error:
    frame.cannot(error)
    st.stop()
for column, side, request in zip(st.columns(2, gap="medium"), "AB", requests):
    column.markdown(frame.headline(request.kernel, f"{side}: "))
both = [runs.run(request) for request in requests]
stories = [tiling.explain(run) for run in both]
aligned = compare.align(stories[0].frames, stories[1].frames)
stories = [replace(story, frames=frames) for story, frames in zip(stories, (aligned.a, aligned.b))]

components.clock(aligned.frames, run_id=str(hash(tuple(requests))), step=st.session_state.pop("first_step", 0))
for mount in (  # a row of columns each, so that both sides stay level
    lambda side, run, story: components.narration(story.frames, side),
    lambda side, run, story: components.view("matrices", *tiling.view(run, story), side),
    lambda side, run, story: components.code(run.request.kernel, story.frames, side=side),
):
    for column, side, run, story in zip(st.columns(2, gap="medium"), page.sides, both, stories):
        with column:
            mount(side, run, story)
st.caption(
    "Steps are the same where both kernels are in the same phase and at the same first key; where only one of them has "
    "such a step, the other waits."
)

st.subheader("What differs", anchor=False)
arch = survey.devices["gpu"].target if backend == "gpu" else DEFAULT_ARCH
facts = [runs.facts(r.kernel, r.problem, r.settings, arch)[0] for r in requests]
occupancies: list = [None, None]
with suppress(WarpglassError):  # no NVRTC here, or an architecture whose limits are not known
    occupancies = [runs.occupancy(r.kernel, r.problem, r.settings, arch) for r in requests]
traffics = [runs.traffic(request) for request in requests]
table = compare.differences(requests, facts, occupancies, [compare.costs(run) for run in both], traffics)
st.dataframe(table, hide_index=True, width="stretch", height=35 * (len(table) + 1) + 3)
over = (
    "of the whole run"
    if all(t.whole for t in traffics)
    else "of the traced tile, as the whole run's records would not fit"
)
st.caption(
    f"Addresses {both[0].provenance}; wavefronts and sectors derived from them, of the traced query tile; bytes "
    f"counted {over}; registers and "
    f"occupancy for {arch}."
)
left, right = st.columns(2, gap="large")
with left:
    st.markdown("**Bytes from and to global memory**")
    titled = [replace(r, kernel=replace(r.kernel, title=f"{side}: {r.kernel.name}")) for side, r in zip("AB", requests)]
    bars = traffic.chart(list(zip(titled, traffics)))
    st.altair_chart(bars, key="traffic", width="stretch", alt="How many times each side moves each tensor")
with right:
    st.markdown("**Outputs and state**")
    agreement = compare.outputs(*both)
    st.info(compare.output_sentence(agreement, *both), icon=":material/balance:")
    texts = [f"{value:.3g}" for value in agreement["largest difference"]]
    st.dataframe(agreement.assign(**{"largest difference": texts}), hide_index=True, width="stretch")
    for side, run in zip("AB", both):
        if run.request.broken:
            st.caption(f"{side} is broken on purpose: {run.request.broken[0].effect}")

st.subheader("Times", anchor=False)
both_times.show(requests, survey)
st.subheader("Source, A to B", anchor=False)
if names[0] == names[1]:
    st.caption(f"Both are builds of {names[0]}: the source is the same, only the constants differ.")
else:
    with st.expander(f"The diff from {names[0]}.cu to {names[1]}.cu", expanded=True):
        st.code(compare.diff(requests[0].kernel, requests[1].kernel), language="diff", height=520)
for side, run in zip("AB", both):
    st.markdown(f"**{side}: {run.request.kernel.name}**")
    frame.badge(run)
frame.labels()
