"""The same lens on the attention kernels: every shared access of those that can pad K_smem, per source line, padded and not."""

from dataclasses import replace

import streamlit as st

from app import frame, runs
from app.clock import components
from explainers import bank_conflicts
from kernels.catalog import ATTENTION
from kernels.execute import Scope

PADDING = {spec.name: c for spec in ATTENTION.values() for c in spec.constants if c.name.startswith("PAD")}  # kernel -> its constant
PROBLEM = ["seq_len", "head_dim", "heads", "causal", "BLOCK_Q", "BLOCK_KV"]


def show(page, survey):
    with st.sidebar:
        page.kernels = tuple(PADDING)
        kernel = page.choose_kernel()
        pad = PADDING[kernel.name]
        backend = page.choose_backend(survey)
        if backend == "recorded":
            page.choose_recorded()
        else:
            page.widgets([*PROBLEM, pad.name])
    request = page.request(backend, Scope())
    run = runs.run(request)
    plain, padded = (runs.run(replace(request, settings=page.settings(**{pad.name: value}))) for value in (0, max(pad.values)))
    table = bank_conflicts.compare_padding(plain, padded)
    st.subheader("Wavefronts per request, by source line", anchor=False)
    st.dataframe(table.drop(columns=["wavefronts without", "wavefronts with"]).round(3), hide_index=True, width="stretch")
    st.info(bank_conflicts.padding_sentence(table), icon=":material/data_usage:")
    st.caption(f"Of query tile {request.scope.first}: addresses {plain.provenance} on {plain.device}, wavefronts derived. {pad.name}, {pad.meaning}: "
               f"0, or padded {max(pad.values)}, so that neighbouring rows begin in other banks.")
    costly = table.loc[table["wavefronts without"].idxmax(), "source line"]
    line = page.choose_line(request, run.lines("shared"), next(n for n, site in request.sites.items() if site.code_line == costly and site.space == "shared"))
    story = bank_conflicts.explain(run, line)
    page.write_url()
    frame.steps(story.frames, (request, line), kernel, lambda: components.banks(story))
    st.caption(f"Warp 0 of the first block, {pad.name} {request.constants[pad.name]}. Offsets are from the tensor's own base: another base "
               "turns the banks, and changes no count.")
    frame.badge(run)
