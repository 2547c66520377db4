"""Tiling: which part of Q, K^T, S, V and O a block works on, what it holds, and what that saves."""

from dataclasses import replace

import streamlit as st

from app import choices, frame, runs
from app.clock import components
from explainers import tiling
from kernels.catalog import ATTENTION

survey = runs.survey()
chosen = choices.sidebar(survey)
request = chosen.request
frame.title("Tiling", request)
run = runs.run(request)
story = tiling.explain(run)

frame.steps(story.frames, request, request.kernel, lambda: components.matrices(run, story))
frame.badge(run)

st.subheader("Bytes from and to global memory", anchor=False)
left, right = st.columns(2, gap="large")
with left:
    chart = tiling.cumulative_chart(story, components.CLOCK_SELECTOR)
    st.altair_chart(chart, key="bytes", width="stretch", alt="Bytes read and written so far, by tensor; a rule marks the step")
    st.caption(f"This query tile, step by step ({run.provenance}).")
    frame.builds(request, survey.pick(request.backend))
    frame.download(run)
with right:
    traffics = {}
    for spec in ATTENTION.values():
        settings = choices.carried_over(request.settings, spec)
        if request.backend == "recorded" and spec is not request.kernel and request.broken:
            continue
        traffics[spec.title] = runs.traffic(replace(request, kernel=spec, settings=settings))
    comparison, reuse = tiling.traffic_comparison(traffics, request.problem), tiling.reuse(traffics, request.problem)
    st.altair_chart(tiling.traffic_chart(comparison), key="traffic", width="stretch", alt="How many times each kernel moves each tensor")
    whole = all(t.whole for t in traffics.values())
    st.caption(tiling.traffic_sentence(comparison, request.problem, whole))
    st.dataframe(reuse.pivot(index="kernel", columns="tensor", values="reuse").reindex(list(traffics))[["Q", "K", "V"]], width="stretch")
    st.caption("Reuse factor (derived): multiply-adds that use an element, over elements fetched from global memory.")
frame.labels()
