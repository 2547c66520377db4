"""Heads and size: which query heads read which KV head, how often each byte is read, and the KV cache calculator."""

import streamlit as st

from app import runs
from explainers import kv_heads
from kernels.errors import ProblemError


def show(chosen, survey):
    num_heads = chosen.shape["num_heads"]
    try:
        requests = [chosen.request("paged_v1", everything=True, num_kv_heads=kv) for kv in dict.fromkeys((num_heads, chosen.shape["num_kv_heads"], 1))]
    except ProblemError as error:
        st.info(f"{error}", icon=":material/info:")
        requests = []
    if requests:
        _reads([runs.run(request) for request in requests])
    st.subheader("How large is a KV cache", anchor=False)
    columns = st.columns(7)
    layers = int(columns[0].number_input("Layers", 1, 1000, 32))
    heads = int(columns[1].number_input("Query heads", 1, 1024, 32))
    kv = int(columns[2].number_input("KV heads", 1, 1024, 8))
    head_dim = int(columns[3].number_input("head_dim", 1, 1024, 128))
    length = int(columns[4].number_input("Tokens", 1, 10**7, 2048))
    dtype = columns[5].selectbox("Type", list(kv_heads.DTYPES), index=1)
    sequences = int(columns[6].number_input("Sequences", 1, 10**6, 1))
    if heads % kv:
        st.error(f"Query heads is {heads} and KV heads {kv}; query heads must be a multiple of KV heads.", icon=":material/block:")
        return
    table = kv_heads.calculator(layers, heads, kv, head_dim, length, dtype, sequences)
    for column, row in zip(st.columns(len(table)), table.itertuples()):
        column.metric(row.heads, kv_heads.readable(row.bytes), border=True)
    st.caption(f"Modelled: {kv_heads.calculator_sentence(layers, kv, head_dim, length, dtype, sequences)}.")


def _reads(made):
    st.subheader("Which query head reads which KV head", anchor=False)
    found = [kv_heads.reads(run) for run in made]
    for column, chart, run in zip(st.columns(len(found)), kv_heads.heads_chart(found), made):
        column.altair_chart(chart, key=f"heads-{run.request.problem.num_kv_heads}", width="stretch",
                            alt="Query heads above, KV heads below, a line where one reads the other")
    st.dataframe(kv_heads.reads_table(found), hide_index=True, width="stretch")
    run = made[0]
    st.caption(f"Counted in the traces of {len(made)} runs of paged_v1 over the whole cache, {run.provenance} on {run.device}, {run.date}. "
               f"A load's KV head is derived: byte offset / bytes of a page of one KV head, modulo the number of KV heads. {kv_heads.reads_sentence(found)}")
