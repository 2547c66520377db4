"""Tiling: which part of Q, K^T, S, V and O a block works on, what it holds, and what that saves."""

import streamlit as st

from app import frame, runs
from app.choices import places
from app.choices.pages import TILING as page
from app.clock import components
from app.sections import unknown
from explainers import tiling, traffic

survey = runs.survey()
backend = page.sidebar(survey)
places.choose(page)
page.write_link()
request = places.request(page, backend)
frame.title("Tiling", request.kernel)
run = runs.run(request)
story = tiling.explain(run)

frame.steps(story.frames, request, request.kernel, lambda: components.view("matrices", *tiling.view(run, story)))
frame.badge(run)
unknown.show(run, len(story.frames))

st.subheader("Bytes from and to global memory", anchor=False)
left, right = st.columns(2, gap="large")
with left:
    chart = traffic.cumulative_chart(run, story, components.CLOCK_SELECTOR)
    st.altair_chart(
        chart, key="bytes", width="stretch", alt="Bytes read and written so far, by tensor; a rule marks the step"
    )
    st.caption(f"This query tile, step by step ({run.provenance}).")
    frame.builds(request, survey.pick(request.backend))
    frame.download(run)
with right:
    runs.traffic(request)
    counted, absent = runs.traffic_of_each(page.others_on(request))
    st.altair_chart(
        traffic.chart(counted), key="traffic", width="stretch", alt="How many times each kernel moves each tensor"
    )
    st.caption(" ".join([traffic.sentence(counted), *absent]))
    reuse = traffic.reuse(counted)
    table = reuse.pivot(index="kernel", columns="tensor", values="reuse")[list(dict.fromkeys(reuse.tensor))]
    st.dataframe(table.reindex([other.kernel.title for other, _ in counted]), width="stretch")
    st.caption("Reuse factor (derived): multiply-adds that use an element, over elements fetched from global memory.")
frame.labels()
