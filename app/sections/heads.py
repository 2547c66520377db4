"""Heads and size: which query heads read which KV head, how often each byte is read, and the KV cache calculator."""

import streamlit as st

from app import runs
from app.choices.cache import Chosen
from explainers import kv_heads, partitions
from kernels.errors import ProblemError
from kernels.run.backends import Survey
from kernels.run.results import Run


def show(chosen: Chosen, survey: Survey) -> None:
    page = chosen.page
    kernel = next(name for name, spec in page.kernels.items() if partitions.accepts_whole(spec))
    counts = dict.fromkeys((page["num_heads"], page["num_kv_heads"], 1))
    try:
        requests = [chosen.request(kernel, everything=True, num_kv_heads=count) for count in counts]
    except ProblemError as error:
        st.info(f"{error}", icon=":material/info:")
        requests = []
    if requests:
        _reads([runs.run(request) for request in requests])
    _calculator()


def _calculator() -> None:
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
        said = f"Query heads is {heads} and KV heads {kv}; query heads must be a multiple of KV heads."
        st.error(said, icon=":material/block:")
        return
    table = kv_heads.calculator(layers, heads, kv, head_dim, length, dtype, sequences)
    for column, row in zip(st.columns(len(table)), table.itertuples()):
        column.metric(row.heads, kv_heads.readable(row.bytes), border=True)
    st.caption(f"Modelled: {kv_heads.calculator_sentence(layers, kv, head_dim, length, dtype, sequences)}.")


def _reads(made: list[Run]) -> None:
    st.subheader("Which query head reads which KV head", anchor=False)
    found = [kv_heads.reads(run) for run in made]
    about = "Query heads above, KV heads below, a line where one reads the other"
    for column, chart, one in zip(st.columns(len(found)), kv_heads.heads_chart(found), found):
        column.altair_chart(chart, key=f"heads-{one['num_kv_heads']}", width="stretch", alt=about)
    st.dataframe(kv_heads.reads_table(found), hide_index=True, width="stretch")
    run = made[0]
    st.caption(
        f"Counted in the traces of {len(made)} runs of {run.request.kernel.name} over the whole cache, "
        f"{run.provenance} on {run.device}, "
        f"{run.date}. A load's KV head is derived: the index of its element along the cache's axis of KV heads. "
        f"{kv_heads.reads_sentence(found)}"
    )
