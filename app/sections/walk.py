"""The walk: one query head's way through its block table, step by step; the same under a shuffle of the pages."""

import streamlit as st

from app import frame, runs
from app.choices.cache import Chosen
from app.clock import components
from explainers import block_table, kv_cache
from kernels.errors import ProblemError
from kernels.run.backends import Survey
from kernels.run.results import Run


def show(chosen: Chosen, survey: Survey) -> None:
    page = chosen.page
    shuffle = page["shuffle"]
    left, middle, right = st.columns([3, 2, 6], vertical_alignment="center")
    with left:
        page.segments(
            "kernel",
            {name: spec.title.removeprefix("PagedAttention ") for name, spec in page.kernels.items()},
            "Kernel",
        )
    if middle.button(
        "Shuffle the pages", icon=":material/shuffle:", disabled=chosen.backend == "recorded" and shuffle == 1
    ):
        page.change(shuffle=shuffle + 1)
    if shuffle and right.button("Back to where they were allocated", icon=":material/undo:"):
        page.change(shuffle=0)
    try:
        request = chosen.request()
    except ProblemError as error:
        st.info(f"{error}", icon=":material/info:")
        st.stop()
    sequence = chosen.cache.sequences[page["sequence"]]
    run = runs.run(request)
    story = block_table.walk(run, sequence.name)
    colour = kv_cache.sequence_colours(chosen.states)[kv_cache.identity(sequence)]
    made = block_table.view(run, story, sequence.name, colour)
    frame.steps(story.frames, request, request.kernel, lambda: components.view("walk", *made))
    frame.badge(run)
    if shuffle:
        _shuffled(chosen, run)

    st.subheader("Why K is split by x", anchor=False)
    table = block_table.layouts_table(story, run)
    st.dataframe(table, hide_index=True, width="stretch")
    st.caption(
        f"{block_table.layouts_sentence(table)} The first row is from the logged addresses; the others are derived "
        f"from its lanes' tokens "
        "and pieces. A line is a byte offset / 128, a sector / 32."
    )
    frame.builds(request, survey.pick(request.backend))
    frame.download(run)


def _shuffled(chosen: Chosen, run: Run) -> None:
    """The same tokens at other addresses: outputs compared bit for bit."""
    plain = runs.run(chosen.request(cache=chosen.states[chosen.page["moment"]][0]))
    table = block_table.shuffle_table(plain, run, [s.name for s in chosen.cache.sequences])
    same = (table["equal bit for bit"] == "yes").all()
    found = "the same output, bit for bit, in every sequence and head." if same else "and the output differs."
    (st.success if same else st.error)(
        f"The pages were moved by a random permutation (seed {chosen.page['shuffle']}) and the block tables rewritten: "
        f"other addresses, {found}",
        icon=":material/shuffle:",
    )
    st.dataframe(table, hide_index=True, width="stretch")
