"""The cache: a scenario's events, one by one; played by hand if wanted; and what the kernels write for an event."""

import streamlit as st

from app import cache_choices, frame, runs
from app.clock import components
from explainers import block_table
from kernels.catalog import CACHE
from kernels.errors import OutOfBlocks, ProblemError
from kernels.execute import Request, Scope
from kernels.kv_cache import Event
from kernels.paged import CacheCopyProblem, CacheWriteProblem
from kernels.scenarios import problem_at, write_event

WORDS = {"append": "Append tokens to", "add": "Add a sequence", "fork": "Fork a sequence", "free": "Free a sequence"}


def show(chosen, survey):
    states, max_len = chosen.states, chosen.scenario.max_len
    frames = block_table.cache_frames(states, max_len)
    last = states[-1][0]
    layout = problem_at(last, **chosen.shape).layout if last.sequences else None
    run = ("cache", chosen.scenario, last.block_size)
    if "first_step" in st.session_state:  # the link's step is this view's moment
        st.session_state.first_step = min(st.session_state.first_step, len(frames) - 1) or chosen.moment
    frame.clock(frames, run, chosen.moment)
    left, right = st.columns([13, 7], gap="medium")
    with left:
        moment = components.pool(frames, last, max_len, str(hash(run)), chosen.moment, layout)
    if moment != chosen.moment:
        cache_choices.change(moment=min(moment, len(states) - 1))
    with right:
        if cache_choices.state()["scenario"] == cache_choices.BY_HAND:
            _by_hand(chosen)
        components.events(frames)
        st.altair_chart(block_table.usage_chart(block_table.usage_table(states, max_len), components.CLOCK_SELECTOR), key="usage", width="stretch",
                        alt="Slots used, held in pages and reserved contiguously after each event; a rule marks the event")
    cache = states[moment][0]
    st.info(f"After event {moment}. {block_table.usage_sentence(cache, max_len)}", icon=":material/data_usage:")
    if st.button("Run the kernel on this cache", type="primary", icon=":material/play_arrow:", disabled=not cache.sequences):
        cache_choices.change(view="walk", moment=moment)
    st.caption("The tables are those of the block manager (kernels/kv_cache.py), which hands them to the kernels as they are.")
    _writes(chosen, moment)


def _by_hand(chosen):
    """The next event, chosen by the user. A refused one changes nothing and says why."""
    events, cache = list(chosen.scenario.events), chosen.states[-1][0]
    names = [s.name for s in cache.sequences]
    fresh = next(name for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if name not in {e.name for e in events} or len(events) > 400)
    with st.container(border=True):
        action = st.segmented_control("Next event", list(WORDS), format_func=WORDS.get, default="append" if names else "add", required=True)
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
                _set_events([*events, event])
        if undo.button("Undo", disabled=not events, width="stretch"):
            _set_events(events[:-1])
        if clear.button("Clear", disabled=not events, width="stretch"):
            _set_events([])


def _set_events(events):
    cache_choices.change(events=", ".join(map(write_event, events)), moment=len(events))


def _writes(chosen, moment):
    """What reshape_and_cache and copy_blocks store for the event, from their own traces."""
    change, cache = chosen.states[moment][1], chosen.states[moment][0]
    if change is None or not (change.written or change.copied):
        return
    with st.expander(f"What the kernels write for event {moment}", icon=":material/edit:"):
        if chosen.backend == "recorded":
            st.caption("The kernels' writes are not recorded for every event; choose another backend to run them.")
            return
        shape = {name: chosen.shape[name] for name in ("num_kv_heads", "head_size", "dtype", "seed")} | {
            "block_size": cache.block_size, "num_blocks": cache.num_blocks}
        if change.copied:
            spec = CACHE["copy_blocks"]
            run = runs.run(Request(spec, CacheCopyProblem(copies=(change.copied,), **shape), scope=Scope(0, 1), backend=chosen.backend))
            table = runs.traffic(run.request).table
            moved = int(table[(table.kind == "store")].bytes.sum())
            st.markdown(f"**{spec.name}** {spec.idea[0].upper()}{spec.idea[1:]} Page {change.copied[0]} to page {change.copied[1]}: {moved:,} bytes "
                        f"stored, K and V of {chosen.shape['num_kv_heads']} KV heads, {run.provenance} on {run.device}.")
        spec, slots = CACHE["reshape_and_cache"], tuple(slot for _, slot in change.written)
        run = runs.run(Request(spec, CacheWriteProblem(slots=slots, **shape), scope=Scope(0, len(slots)), backend=chosen.backend))
        st.markdown(f"**{spec.name}** {spec.idea[0].upper()}{spec.idea[1:]} Slots of the {len(slots)} new tokens: {', '.join(map(str, slots[:24]))}"
                    f"{' ...' if len(slots) > 24 else ''}.")
        st.dataframe(block_table.addresses_table(run), hide_index=True, width="stretch")
        st.caption(f"Offsets {run.provenance} on {run.device}: the bytes that the probed stores named, over all KV heads; the first 64 tokens.")
