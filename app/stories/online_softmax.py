"""Online softmax: one row's running max and sum, step by step, beside the same row by ordinary softmax."""

import streamlit as st

from app import choices, frame, runs
from app.clock import components
from explainers import online_softmax

survey = runs.survey()
chosen = choices.sidebar(survey, with_row=True)
request, row = chosen.request, chosen.row
frame.title("Online softmax", request)
run = runs.run(request)
story = online_softmax.explain(run, row)

frame.steps(story.frames, request, request.kernel, lambda: components.row(run, story, row))
(st.error if story.first_wrong is not None else st.success)(story.summary)
frame.badge(run)

left, right = st.columns(2, gap="large")
with left:
    st.altair_chart(online_softmax.state_chart(story, "m", components.CLOCK_SELECTOR), key="m", width="stretch", alt="The running max after each tile")
    st.altair_chart(online_softmax.state_chart(story, "l", components.CLOCK_SELECTOR), key="l", width="stretch", alt="The running sum after each tile")
    st.caption(f"Logged: {run.provenance}. float64: modelled, for the same keys and the same m.")
with right:
    st.altair_chart(online_softmax.ordinary_chart(story), key="ordinary", width="stretch", alt="The row's weights by ordinary softmax and in this kernel")
    st.caption(f"Bars: the same row by ordinary softmax in float64 (modelled). Points: what each key counts for in the end in this kernel ({run.provenance}).")
    frame.builds(request, survey.pick(request.backend))
    frame.download(run)
frame.labels()
