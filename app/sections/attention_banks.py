"""The same lens on the attention kernels: every shared access of 02 and 03, per source line, with K_smem padded and not."""

from dataclasses import replace

import streamlit as st

from app import frame, runs
from app.clock import components
from explainers import bank_conflicts
from kernels.execute import Scope

KERNELS = ("02_tiled", "03_flash")
PROBLEM = ["seq_len", "head_dim", "heads", "causal", "BLOCK_Q", "BLOCK_KV", "PAD_K"]


def show(page, survey):
    with st.sidebar:
        page.kernels = KERNELS
        kernel = page.choose_kernel()
        backend = page.choose_backend(survey)
        if backend == "recorded":
            page.choose_recorded()
        else:
            page.widgets(PROBLEM)
    request = page.request(backend, Scope())
    run = runs.run(request)
    plain, padded = (runs.run(replace(request, settings=page.settings(PAD_K=pad))) for pad in (0, 4))
    table = bank_conflicts.compare_padding(plain, padded)
    st.subheader("Wavefronts per request, by source line", anchor=False)
    st.dataframe(table.drop(columns=["wavefronts without", "wavefronts with"]).round(3), hide_index=True, width="stretch")
    st.info(bank_conflicts.padding_sentence(table), icon=":material/data_usage:")
    st.caption(f"Of query tile {request.scope.first}: addresses {plain.provenance} on {plain.device}, wavefronts derived. Padded: each row of K_smem is "
               "4 floats longer, so that neighbouring keys begin in other banks.")
    lines = [line for line, site in request.sites.items() if site.space == "shared"]
    logged = set(run.trace.table["line"].unique().to_pylist())
    lines = [line for line in lines if line in logged]
    costly = bank_conflicts.explain(plain).by_line.sort_values("conflicts", ascending=False).line.iloc[0]
    line = _choose_line(page, request, lines, int(costly))
    story = bank_conflicts.explain(run, line)
    page.write_url()
    frame.clock(story.frames, (request, line))
    left, right = st.columns([11, 9], gap="medium")
    with left:
        components.banks(story)
    with right:
        components.code(kernel, story.frames)
    st.caption(f"Warp 0 of the first block, K_smem padded by {dict(request.settings)['PAD_K']} floats. Offsets are from the tensor's own base: another base "
               "turns the banks, and changes no count.")
    frame.badge(run)


def _choose_line(page, request, lines, first):
    source = request.kernel.source.splitlines()
    if page["line"] not in lines:
        page.state["line"] = first
        st.session_state[page.key("line")] = first
    code = {line: request.sites[line].code_line for line in lines}
    st.selectbox("Source line", lines, key=page.key("line"), format_func=lambda line: f"line {code[line]}: {source[code[line] - 1].strip()}")
    return page.keep("line")
