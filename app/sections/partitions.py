"""V1 beside V2, on one clock; and when V2 has enough blocks to fill the GPU."""

import streamlit as st

from app import frame, runs
from app.clock import components
from explainers import partitions
from kernels.catalog import PAGED
from kernels.errors import ProblemError

H200_MULTIPROCESSORS = 132  # NVIDIA's figure, taken where no GPU is there to ask


def show(chosen, survey):
    try:
        requests = [chosen.request(kernel) for kernel in PAGED]
    except ProblemError as error:
        st.info(f"{error}", icon=":material/info:")
        st.stop()
    one, two = (runs.run(request) for request in requests)
    sequence = chosen.cache.sequences[chosen.sequence]
    story = partitions.compare(one, two, sequence.name)
    frame.clock(story.frames, ("partitions", *requests))
    components.partitions(story, len(sequence.tokens), sequence.name, chosen.head)
    left, right = st.columns(2, gap="medium")
    with left:
        components.code(PAGED["paged_v1"], story.frames, "lines_v1")
    with right:
        components.code(PAGED["paged_v2"], story.frames, "lines_v2")
    frame.badge(one)
    st.caption(f"Step n is every block's n-th step; a step is not a time. Largest difference between the two outputs of this query head: "
               f"{story.difference:.2g}. V2 here cuts at {dict(requests[1].settings)['PARTITION']} tokens, so that short contexts too are "
               "cut; its default is 512.")

    st.subheader("Thread blocks", anchor=False)
    st.dataframe(partitions.grids(*requests), hide_index=True, width="stretch")
    st.caption("Of this cache: grids as launched. A block of V2 whose partition lies behind its sequence's end leaves at once.")
    st.subheader("Enough blocks to fill the GPU", anchor=False)
    left, middle, _ = st.columns([1, 1, 2])
    heads = int(left.number_input("Query heads", 1, 256, 32))
    partition = int(middle.number_input("Tokens per partition", 16, 4096, 512))
    device = survey.devices.get("gpu")
    count, name = (device.multiprocessors, device.name) if device else (H200_MULTIPROCESSORS, "An H200")
    left, right = st.columns(2, gap="large")
    with left:
        st.altair_chart(partitions.blocks_chart(partitions.blocks_table(heads, partition), count), key="blocks", width="stretch",
                        alt="Thread blocks of V1 and V2 against context length, for 1 to 64 sequences, and the number of multiprocessors")
    with right:
        st.dataframe(partitions.fill_table(heads, partition, count), hide_index=True, width="stretch")
    st.caption(f"Modelled: V1 has heads x sequences blocks, V2 as many for each partition; fills it: at least one block per multiprocessor; from: "
               f"the shortest context length. {partitions.fill_sentence(heads, partition, count, name)}")
