"""Online softmax: one row's running max and sum, step by step, beside the same row by ordinary softmax."""

import streamlit as st

from app import frame, runs
from app.choices import places
from app.choices.pages import ONLINE_SOFTMAX as page
from app.clock import components
from app.sections import unknown
from explainers import online_softmax, row_charts

survey = runs.survey()
backend = page.sidebar(survey)
places.choose(page, with_row=True)
page.write_link()
request = places.request(page, backend)
frame.title("Online softmax", request.kernel)
run = runs.run(request)
row = online_softmax.rows_of(run)[0] + page["row"]
story = online_softmax.explain(run, row)

frame.steps(
    story.frames, (request, row), request.kernel, lambda: components.view("row", *online_softmax.view(run, story, row))
)
(st.error if story.first_wrong is not None else st.success)(story.summary)
frame.badge(run)
unknown.show(run, len(story.frames))

left, right = st.columns(2, gap="large")
with left:
    for quantity, alt in (("m", "The running max after each tile"), ("l", "The running sum after each tile")):
        chart = row_charts.state_chart(story, quantity, components.CLOCK_SELECTOR)
        st.altair_chart(chart, key=quantity, width="stretch", alt=alt)
    st.caption(f"Logged: {run.provenance}. float64: modelled, for the same keys and the same m.")
with right:
    weights = row_charts.ordinary_chart(story)
    st.altair_chart(
        weights, key="ordinary", width="stretch", alt="The row's weights by ordinary softmax and in this kernel"
    )
    st.caption(
        "Bars: the same row by ordinary softmax in float64 (modelled). Points: what each key counts for in the end in "
        "this kernel "
        f"({run.provenance})."
    )
    frame.builds(request, survey.pick(request.backend))
    frame.download(run)
frame.labels()
