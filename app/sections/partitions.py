"""A kernel that walks whole contexts (V1) beside one that cuts them (V2), on one clock; and when V2 has enough blocks
to fill the GPU."""

import streamlit as st

from app import frame, runs
from app.choices.cache import Chosen
from app.clock import components
from explainers import partition_blocks, partitions
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.errors import ProblemError
from kernels.run.backends import Survey


def show(chosen: Chosen, survey: Survey) -> None:
    page = chosen.page
    first = {
        accepts: next(name for name, spec in page.kernels.items() if accepts(spec))
        for accepts in (partitions.accepts_whole, partitions.accepts)
    }
    try:
        requests = [chosen.request(name) for name in first.values()]
    except ProblemError as error:
        st.info(f"{error}", icon=":material/info:")
        st.stop()
    one, two = (runs.run(request) for request in requests)
    sequence = chosen.cache.sequences[page["sequence"]]
    story = partitions.compare(one, two, sequence.name)
    frame.clock(story.frames, ("partitions", *requests))
    components.view("partitions", partitions.view(story, len(sequence.tokens), sequence.name, page["head"]))
    for column, request, lit in zip(st.columns(2, gap="medium"), requests, ("lines_v1", "lines_v2")):
        with column:
            components.code(request.kernel, story.frames, lit)
    frame.badge(one)
    size, default = requests[1].constants[partitions.SIZE], requests[1].kernel.settings()[partitions.SIZE]
    st.caption(
        f"Step n is every block's n-th step; a step is not a time. Largest difference between the two outputs of this "
        f"query head: "
        f"{story.difference:.2g}. V2 here cuts at {size} tokens, so that short contexts too are cut; its default is "
        f"{default}."
    )

    st.subheader("Thread blocks", anchor=False)
    st.dataframe(partition_blocks.grids(one, two), hide_index=True, width="stretch")
    st.caption(
        "Of this cache: grids as launched. A block of V2 whose partition lies behind its sequence's end leaves at once."
    )
    st.subheader("Enough blocks to fill the GPU", anchor=False)
    left, middle, _ = st.columns([1, 1, 2])
    heads = int(left.number_input("Query heads", 1, 256, 32))
    partition = int(middle.number_input("Tokens per partition", 16, 4096, 512))
    device, known = survey.devices.get("gpu"), machine(DEFAULT_ARCH)
    count, name = (device.multiprocessors, device.name) if device else (known.multiprocessors, f"An {known.gpu}")
    left, right = st.columns(2, gap="large")
    with left:
        chart = partition_blocks.blocks_chart(partition_blocks.blocks_table(heads, partition), count)
        about = "Thread blocks of V1 and V2 against context length, for 1 to 64 sequences, and the multiprocessors"
        st.altair_chart(chart, key="blocks", width="stretch", alt=about)
    with right:
        st.dataframe(partition_blocks.fill_table(heads, partition, count), hide_index=True, width="stretch")
    st.caption(
        "Modelled: V1 has heads x sequences blocks, V2 as many for each partition; fills it: at least one block per "
        "multiprocessor; from: the "
        f"shortest context length. {partition_blocks.fill_sentence(heads, partition, count, name)}"
    )
