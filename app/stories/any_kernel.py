"""Any kernel: every step, every tensor and every value of any kernel that writes a trace, known to a story or not."""

import streamlit as st

from app import frame, runs
from app.choices.pages import ANY_KERNEL as page
from app.clock import components
from explainers import generic
from kernels.core.request import Scope
from kernels.errors import WarpglassError

survey = runs.survey()
backend = page.sidebar(survey)
frame.title("Any kernel", page.spec())
try:
    plan = page.request(backend).plan
    with st.sidebar:
        page.widget("at_item", st, f"Traced {plan.item}", high=plan.items - 1, disabled=plan.items == 1)
    page.write_link()
    request = page.request(backend, Scope(page["at_item"]))
except WarpglassError as error:
    page.write_link()
    frame.cannot(error)
    frame.labels()
    st.stop()
run = runs.run(request)
story = generic.explain(run)
if story.frames:
    frame.steps(story.frames, request, request.kernel, lambda: components.view("tensors", *generic.view(story)))
else:
    st.info("These blocks logged no step: the kernel marks none, or none was reached.", icon=":material/info:")
frame.badge(run)
st.caption(
    "Tensors as the run left them, a matrix by their last two axes; a value where its last two keys say, as logged up "
    "to the step. What the step "
    "touches follows from the logged addresses: element = byte offset / bytes of an element."
)
st.subheader("Its tensors", anchor=False)
rows = [
    {
        "tensor": t.name,
        "role": t.role.value,
        "shape": " x ".join(map(str, t.shape)),
        "axes": ", ".join(t.axes),
        "type": t.dtype,
        "bytes": t.nbytes,
    }
    for t in plan.tensors
]
st.dataframe(rows, hide_index=True, width="stretch")
frame.builds(request, survey.pick(request.backend))
frame.download(run)
frame.labels()
