"""The walk: one query head's way through its block table, step by step; the same under a shuffle of the pages."""

from dataclasses import replace

import streamlit as st

from app import cache_choices, frame, runs
from app.clock import components
from explainers import block_table
from kernels.catalog import PAGED
from kernels.errors import ProblemError


def show(chosen, survey):
    left, middle, right = st.columns([3, 2, 6], vertical_alignment="center")
    left.segmented_control("Kernel", list(PAGED), key=cache_choices.PREFIX + "kernel", label_visibility="collapsed", required=True,
                           format_func=lambda name: PAGED[name].title.removeprefix("PagedAttention "))
    if middle.button("Shuffle the pages", icon=":material/shuffle:", disabled=chosen.backend == "recorded" and chosen.shuffle == 1):
        cache_choices.change(shuffle=chosen.shuffle + 1)
    if chosen.shuffle and right.button("Back to where they were allocated", icon=":material/undo:"):
        cache_choices.change(shuffle=0)
    try:
        request = chosen.request()
    except ProblemError as error:
        st.info(f"{error}", icon=":material/info:")
        st.stop()
    sequence = chosen.cache.sequences[chosen.sequence]
    name = sequence.name
    run = runs.run(request)
    story = block_table.walk(run, name)
    colours = block_table.sequence_colours(chosen.states)
    frame.steps(story.frames, request, request.kernel, lambda: components.walk(run, story, name, colours[block_table.identity(sequence)]))
    frame.badge(run)
    if chosen.shuffle:
        _shuffled(chosen, run)

    st.subheader("Why K is split by x", anchor=False)
    table = block_table.layouts_table(story, request.problem)
    st.dataframe(table, hide_index=True, width="stretch")
    st.caption(f"{block_table.layouts_sentence(table)} The first row is from the logged addresses; the others are derived from its lanes' tokens "
               "and pieces. A line is a byte offset / 128, a sector / 32.")
    frame.builds(request, survey.pick(request.backend))
    frame.download(run)


def _shuffled(chosen, run):
    """The same tokens at other addresses: outputs compared bit for bit."""
    plain = runs.run(replace(run.request, problem=chosen.request(cache=chosen.states[chosen.moment][0]).problem))
    names = [s.name for s in chosen.cache.sequences]
    table = block_table.shuffle_table(plain, run, names)
    same = (table["equal bit for bit"] == "yes").all()
    (st.success if same else st.error)(
        f"The pages were moved by a random permutation (seed {chosen.shuffle}) and the block tables rewritten: other addresses, "
        + ("the same output, bit for bit, in every sequence and head." if same else "and the output differs."), icon=":material/shuffle:")
    st.dataframe(table, hide_index=True, width="stretch")
