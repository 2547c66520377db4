"""Coalescing: the sectors of global memory that each request touches, for the attention kernels' accesses and for five layouts."""

from dataclasses import replace

import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.clock import components
from app.lab_choices import Choice, Page
from explainers import coalescing
from kernels.catalog import ATTENTION, KERNELS, PAGED
from kernels.errors import ProblemError
from kernels.execute import Scope
from kernels.lab import LAYOUTS, GlobalProblem

TITLES = {"attention": "The attention kernels", "layouts": "Layouts side by side"}
PROBLEM = {"attention": ["seq_len", "head_dim", "heads", "causal", "BLOCK_Q", "BLOCK_KV"],
           "paged": ["context_lens", "num_heads", "num_kv_heads", "head_size", "block_size", "dtype"]}


def attention(page, backend):
    """One warp's requests of a kernel, and every source line's sums."""
    request = page.request(backend, Scope())
    run = runs.run(request)
    table = coalescing.by_line(run)
    _steps(request, run, page.choose_line(request, run.lines("global"), int(table.sort_values("sectors", ascending=False, kind="stable").probe.iloc[0])))
    st.subheader("Every access of global memory", anchor=False)
    st.dataframe(table.drop(columns=["probe"]).round(3), hide_index=True, width="stretch")
    st.caption(f"Of the traced {request.problem.item}: addresses {run.provenance} on {run.device}; sectors and lines derived. "
               "What a cache then spares is not counted here.")


def layouts(page, backend):
    """The same reads under five layouts."""
    kernel = KERNELS["lab_global"]
    with st.sidebar:
        if backend != "recorded":
            left, right = st.columns(2)
            left.number_input("stride", 1, 256, key=page.key("stride"), help="elements from lane to lane in the strided layout")
            right.number_input("shift", 0, 31, key=page.key("shift"), help="elements by which the misaligned layout begins late")
            left.selectbox("tokens per page", (8, 16, 32), key=page.key("page_tokens"), help="in the paged layouts")
            chosen = {"stride": page.keep("stride"), "shift": page.keep("shift"), "block_size": page.keep("page_tokens")}
        else:
            chosen = {}
    made = {}
    for layout in LAYOUTS:
        problem = GlobalProblem(layout, 16 if layout.startswith("paged") else 4, **chosen)
        made[layout] = runs.run(replace(page.request(backend), kernel=kernel, problem=problem, settings=()))
    table = coalescing.layouts(made)
    left, right = st.columns([9, 11], gap="large")
    with left:
        st.altair_chart(coalescing.layouts_chart(table), key="layouts", width="stretch", alt="Sectors per request of five layouts")
    with right:
        st.dataframe(table.round(2), hide_index=True, width="stretch")
        st.caption("One warp reads the same elements each time. The paged layouts read pieces of 16 bytes, as the K cache of PagedAttention does: split by x, "
                   "the same piece of neighbouring tokens lies side by side; not split, each token's key lies in one run.")
    st.segmented_control("Layout", list(LAYOUTS), key=page.key("layout"), format_func=coalescing.LAYOUT_TITLES.get, required=True)
    run = made[page.keep("layout")]
    _steps(run.request, run, next(line for line, site in run.request.sites.items() if site.kind == "load"))


def _steps(request, run, line):
    story = coalescing.explain(run, line)
    page.write_url()
    frame.steps(story.frames, (request, line), request.kernel, lambda: components.sectors(story))
    if story.left_out:
        st.caption(f"The first {len(story.frames)} requests of the warp on this line are shown; {story.left_out} more are counted in the tables.")
    frame.badge(run)


page = Page("coalescing", [*ATTENTION, *PAGED], first="03_flash", view=Choice("attention", tuple(TITLES)), line=Choice(0, None, 0, 10**5),
            layout=Choice("row_major", LAYOUTS), stride=Choice(8, None, 1, 256), shift=Choice(1, None, 0, 31), page_tokens=Choice(32, (8, 16, 32)))
survey = runs.survey()
st.header("Coalescing", anchor=False)
st.markdown("Global memory moves in sectors of 32 bytes. What a warp asks for at once is moved once, however many lanes ask; what nobody asked for is "
            "moved along.")
show_ignored()
view = st.segmented_control("Section", list(TITLES), key=page.key("view"), format_func=TITLES.get, label_visibility="collapsed", required=True)
page.keep("view")
try:
    with st.sidebar:
        if view == "attention":
            kernel = page.choose_kernel()
        backend = page.choose_backend(survey)
        if view == "attention" and backend == "recorded":
            page.choose_recorded()
        elif view == "attention":
            page.widgets(PROBLEM[kernel.family])
    (attention if view == "attention" else layouts)(page, backend)
except ProblemError as error:
    page.write_url()
    st.error(f"**This cannot run.** {error}".replace("`", "'"), icon=":material/block:")
frame.labels()
