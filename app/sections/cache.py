"""The cache: a scenario's events, one by one; played by hand if wanted; and what the kernels write for an event."""

from typing import Any

import streamlit as st

from app import frame, runs
from app.choices.cache import BY_HAND, Chosen
from app.clock import components
from explainers import block_table, kv_cache
from kernels.catalog import of_problem
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import OutOfBlocks, ProblemError
from kernels.families.paged.kv_cache import Event
from kernels.families.paged.scenarios import copy_of, write_event, write_of
from kernels.run.backends import Survey
from kernels.run.results import Run

WORDS = {"append": "Append tokens to", "add": "Add a sequence", "fork": "Fork a sequence", "free": "Free a sequence"}
MOST_NAMED = 24  # slots that a sentence lists


def show(chosen: Chosen, survey: Survey) -> None:
    page, states, max_len = chosen.page, chosen.states, chosen.scenario.max_len
    frames = kv_cache.cache_frames(states, max_len)
    last = states[-1][0]
    run, at = ("cache", chosen.scenario, last.block_size), page["moment"]
    if "first_step" in st.session_state:  # the link's step is this view's moment
        st.session_state.first_step = min(st.session_state.first_step, len(frames) - 1) or at
    frame.clock(frames, run, at)
    left, right = st.columns([13, 7], gap="medium")
    with left:
        moment = components.pool(kv_cache.view(frames, last, max_len, str(hash(run)), at, _layout(chosen)))
    if moment != at:
        page.change(moment=min(moment, len(states) - 1))
    with right:
        if page["scenario"] == BY_HAND:
            _by_hand(chosen)
        components.events(frames)
        chart = kv_cache.usage_chart(kv_cache.usage_table(states, max_len), components.CLOCK_SELECTOR)
        about = "Slots used, held in pages and reserved contiguously after each event; a rule marks the event"
        st.altair_chart(chart, key="usage", width="stretch", alt=about)
    cache = states[moment][0]
    st.info(f"After event {moment}. {kv_cache.usage_sentence(cache, max_len)}", icon=":material/data_usage:")
    if st.button(
        "Run the kernel on this cache", type="primary", icon=":material/play_arrow:", disabled=not cache.sequences
    ):
        page.change(view="walk", moment=moment)
    st.caption(
        "The tables are those of the block manager (kv_cache.py beside the kernels), which hands them to the kernels "
        "as they are."
    )
    _writes(chosen, moment)


def _layout(chosen: Chosen) -> object:
    """How the cache lies in memory; None where no kernel can run on it."""
    try:
        return chosen.problem(chosen.states[-1][0]).layout
    except ProblemError:
        return None


def _by_hand(chosen: Chosen) -> None:
    """The next event, chosen by the user. A refused one changes nothing and says why."""
    events, cache = list(chosen.scenario.events), chosen.states[-1][0]
    names = [s.name for s in cache.sequences]
    taken = {e.name for e in events}
    fresh = next(name for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if name not in taken or len(events) > 400)
    with st.container(border=True):
        begin = "append" if names else "add"
        action = st.segmented_control(
            "Next event", list(WORDS), format_func=WORDS.__getitem__, default=begin, required=True
        )
        left, right = st.columns(2, vertical_alignment="bottom")
        event = None
        if action == "add":
            name = left.text_input("Name", fresh, max_chars=12)
            event = Event("add", name, int(right.number_input("Tokens", 1, 10000, 20)))
        elif names and action == "append":
            event = Event("append", left.selectbox("Sequence", names), int(right.number_input("Tokens", 1, 10000, 5)))
        elif names and action == "fork":
            parent = left.selectbox("Fork from", names)
            event = Event("fork", right.text_input("Name of the fork", fresh, max_chars=12), parent=parent)
        elif names:
            event = Event("free", left.selectbox("Sequence", names))
        else:
            st.caption("There is no sequence yet. Add one first.")
        apply, undo, clear = st.columns(3)
        if apply.button("Apply", type="primary", disabled=event is None, width="stretch"):
            try:
                cache.apply(event)
            except ProblemError as error:
                title = "Out of pages." if isinstance(error, OutOfBlocks) else "Refused."
                st.error(f"**{title}** {error} Nothing was changed.".replace("`", "'"), icon=":material/block:")
            else:
                _set_events(chosen, [*events, event])
        if undo.button("Undo", disabled=not events, width="stretch"):
            _set_events(chosen, events[:-1])
        if clear.button("Clear", disabled=not events, width="stretch"):
            _set_events(chosen, [])


def _set_events(chosen: Chosen, events: list) -> None:
    chosen.page.change(events=", ".join(map(write_event, events)), moment=len(events))


def _writes(chosen: Chosen, moment: int) -> None:
    """What the kernels that write a cache store for the event, from their own traces."""
    cache, change = chosen.states[moment]
    if change is None or not (change.written or change.copied):
        return
    with st.expander(f"What the kernels write for event {moment}", icon=":material/edit:"):
        if chosen.backend == "recorded":
            st.caption("The kernels' writes are not recorded for every event; choose another backend to run them.")
            return
        state = chosen.page.state
        shape = {name: state[name] for name in ("num_kv_heads", "head_dim", "dtype", "seed")}
        if copied := copy_of(cache, change, **shape):
            spec, run = _run(copied, Scope(), chosen)
            table = runs.traffic(run.request).table
            moved = int(table[table.kind == "store"].bytes.sum())
            st.markdown(
                f"{frame.headline(spec)} Page {change.copied[0]} to page {change.copied[1]}: {moved:,} bytes stored, K "
                f"and V of {state['num_kv_heads']} KV heads, {run.provenance} on {run.device}."
            )
        written = write_of(cache, change, **shape)
        if not written:
            return
        slots = written.slots
        spec, run = _run(written, Scope(0, len(slots)), chosen)
        named = ", ".join(map(str, slots[:MOST_NAMED])) + (" ..." if len(slots) > MOST_NAMED else "")
        st.markdown(f"{frame.headline(spec)} Slots of the {len(slots)} new tokens: {named}.")
        st.dataframe(block_table.addresses_table(run), hide_index=True, width="stretch")
        st.caption(
            f"Offsets {run.provenance} on {run.device}: the bytes that the probed stores named, over all KV heads; the "
            f"first 64 tokens."
        )


def _run(problem: Any, scope: Scope, chosen: Chosen) -> tuple[KernelSpec, Run]:
    """The first kernel that solves a problem of that kind, and its run."""
    spec = next(iter(of_problem(type(problem)).values()))
    return spec, runs.run(Request(spec, problem, scope=scope, backend=chosen.backend))
