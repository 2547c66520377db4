"""Coalescing: the sectors of global memory that each request touches, for any kernel's accesses and for several layouts
side by side."""

from typing import Any

import streamlit as st

from app import frame, runs
from app.choices import lines, show_ignored
from app.choices.pages import COALESCING as page
from app.clock import components
from explainers import coalescing
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.errors import ProblemError, WarpglassError
from kernels.run.results import Run

TITLES = {"attention": "A kernel's accesses", "layouts": "Layouts side by side"}
LAYOUT = "layout"  # the field of a problem that says where its elements lie
NAMES = {"row_major": "Row-major", "paged_split": "Paged K, split by x", "paged_whole": "Paged K, not split"}


def accesses(survey: Any) -> None:
    """One warp's requests of a kernel, and every source line's sums."""
    request = page.request(page.sidebar(survey))
    run = runs.run(request)
    table = coalescing.by_line(run)
    costly = table.sort_values("sectors", ascending=False, kind="stable").iloc[0]
    steps(run, lines.choose(page, run, lines.logged(run, "global"), (costly.file, int(costly["line"]))))
    st.subheader("Every access of global memory", anchor=False)
    st.dataframe(table.drop(columns=["file", "line"]).round(3), hide_index=True, width="stretch")
    st.caption(
        f"Of the traced {request.plan.item}: addresses {run.provenance} on {run.device}; sectors and lines derived. "
        f"What a cache then spares "
        "is not counted here."
    )


def layouts(survey: Any) -> None:
    """The same reads under each layout that the problem knows."""
    kernels = [name for name, spec in page.kernels.items() if LAYOUT in fields_of(spec.problem_type)]
    backend = page.sidebar(survey, hidden=(LAYOUT, "width"), kernels=kernels)
    names = page.fields(page.state)[LAYOUT].allowed or ()
    made = {name: runs.run(in_layout(name, backend)) for name in names}
    table = coalescing.layouts({title_of(name): run for name, run in made.items()})
    left, right = st.columns([9, 11], gap="large")
    with left:
        st.altair_chart(
            coalescing.layouts_chart(table), key="layouts", width="stretch", alt="Sectors per request of each layout"
        )
    with right:
        st.dataframe(table.round(2), hide_index=True, width="stretch")
        st.caption(
            "One warp reads the same elements each time. The paged layouts read pieces of 16 bytes, as the K cache of "
            "PagedAttention does: split "
            "by x, the same piece of neighbouring tokens lies side by side; not split, each token's key lies in one "
            "run."
        )
    run = made[page.segments(LAYOUT, {name: title_of(name) for name in names}, "Layout", label_visibility="visible")]
    reads = next(site for site in lines.logged(run, "global") if site.event == "load")
    steps(run, (reads.file, reads.line))


def title_of(layout: str) -> str:
    return NAMES.get(layout, layout.replace("_", " ").capitalize())


def in_layout(layout: str, backend: str) -> Request:
    """The chosen request in that layout, with the least width that it takes."""
    request, error = None, None
    for width in page.fields(page.state)["width"].allowed or ():
        try:
            problem = page.problem(layout=layout, width=width)
            request = request or Request(page.spec(), problem, tuple(page.settings().items()), backend=backend)
        except ProblemError as refused:
            error = refused
    if not request:
        raise error or ProblemError(f"There is no width for the layout {layout}.")
    return request


def steps(run: Run, at: lines.Place) -> None:
    """The requests of one probe, on the clock."""
    story = coalescing.explain(run, at)
    page.write_link()
    frame.steps(
        story.frames, (run.request, at), run.request.kernel, lambda: components.view("sectors", coalescing.view(story))
    )
    if story.left_out:
        st.caption(
            f"The first {len(story.frames)} requests of the warp on this line are shown; {story.left_out} more are "
            f"counted in the tables."
        )
    frame.badge(run)


survey = runs.survey()
st.header("Coalescing", anchor=False)
st.markdown(
    "Global memory moves in sectors of 32 bytes. What a warp asks for at once is moved once, however many lanes ask; "
    "what nobody asked for is "
    "moved along."
)
view = page.segments("view", TITLES)
show_ignored()
try:
    (accesses if view == "attention" else layouts)(survey)
except WarpglassError as error:
    page.write_link()
    frame.cannot(error)
frame.labels()
