"""The block table story's choices: sidebar widgets <-> a scenario at a moment, a problem, a query head <-> URL."""

from dataclasses import dataclass, fields

import streamlit as st

from app import kept
from app.choices import choose_backend, write_url
from kernels import backends, scenarios
from kernels.catalog import PAGED
from kernels.errors import ProblemError
from kernels.execute import Request, Scope
from kernels.kv_cache import KVCache
from kernels.paged import PagedProblem
from kernels.problem import check_value
from kernels.scenarios import PRESETS, Scenario

BY_HAND = "by_hand"
VIEWS = {"cache": "The cache", "walk": "The walk", "partitions": "V1 beside V2", "heads": "Heads and size"}
SHAPE = {f.name: f for f in fields(PagedProblem) if f.name in
         ("head_size", "block_size", "num_heads", "num_kv_heads", "dtype", "alibi", "score_scale", "seed")}
CONSTANTS = {c.name: c for spec in PAGED.values() for c in spec.constants}
FIRST_EVENTS = "add A 20, add B 9"
LISTS = {"view": tuple(VIEWS), "kernel": tuple(PAGED), "backend": ("auto", *backends.NAMES), "scenario": (*PRESETS, BY_HAND)}
NUMBERS = {"moment": (0, 500), "shuffle": (0, 1000), "num_blocks": (1, 128), "sequence": (0, 100), "head": (0, 127), "step": (0, 10**6)}
HEADS = (1, 2, 4, 8, 16, 32)
PREFIX = "cache_"  # of widget keys: the other stories have choices of the same names


@dataclass(frozen=True)
class CacheChoices:
    """states: kv_cache.play's, of the scenario. moment: how many events have been played. cache: the state then, shuffled if asked."""

    scenario: Scenario
    states: list
    moment: int
    cache: KVCache
    shuffle: int
    kernel: str
    backend: str
    shape: dict
    constants: dict
    sequence: int
    head: int

    def request(self, kernel=None, cache=None, everything=False, **changes):
        """A Request on the cache as it stands, or on another; over the chosen query head, or everything. ProblemError."""
        spec = PAGED[kernel or self.kernel]
        problem = scenarios.problem_at(cache or self.cache, **{**self.shape, **changes})
        settings = tuple(spec.settings({name: value for name, value in self.constants.items() if name in spec.settings()}).items())
        items = problem.num_seqs * problem.num_heads
        return Request(spec, problem, settings, Scope(0, items) if everything else Scope(self.sequence * problem.num_heads + self.head), self.backend)


def defaults():
    return {"view": "cache", "scenario": "two_chats", "events": FIRST_EVENTS, "moment": len(PRESETS["two_chats"].events), "shuffle": 0, "num_blocks": 16,
            "kernel": "paged_v1", "backend": "auto", "sequence": 0, "head": 0, **{name: f.default for name, f in SHAPE.items()},
            **{name: c.default for name, c in CONSTANTS.items()}, "PARTITION": scenarios.SHOWN_PARTITION}


def from_url(params):
    """(state, ignored, step): the state that a URL's parameters describe, a sentence for each that is not understood, and the step."""
    state, ignored, step = defaults(), [], 0
    for name, text in params.items():
        try:
            if name in LISTS:
                if text not in LISTS[name]:
                    raise ProblemError(f"{name} is {text!r}; it must be one of {', '.join(LISTS[name])}.")
                state[name] = text
            elif name == "events":
                scenarios.read_events(text)
                state[name] = text
            elif name in SHAPE:
                state[name] = check_value(name, text, SHAPE[name].default, SHAPE[name].metadata)
            elif name in CONSTANTS:
                state[name] = check_value(name, text, CONSTANTS[name].default, {"allowed": CONSTANTS[name].values})
            elif name in NUMBERS:
                low, high = NUMBERS[name]
                value = check_value(name, text, 0, {"low": low, "high": high})
                state, step = ({**state, name: value}, step) if name != "step" else (state, value)
            else:
                raise ProblemError(f"{name} is not a choice of this page.")
        except ProblemError as error:
            ignored.append(str(error))
    if state["num_heads"] not in HEADS or state["num_heads"] % state["num_kv_heads"]:
        ignored.append(f"num_heads is {state['num_heads']} and num_kv_heads {state['num_kv_heads']}; here num_heads is one of "
                       f"{', '.join(map(str, HEADS))} and a multiple of num_kv_heads.")
        state |= {name: SHAPE[name].default for name in ("num_heads", "num_kv_heads")}
    if "moment" not in params:
        state["moment"] = _event_count(state)
    for name, value, high in _bring_into_range(state):
        ignored.append(f"{name} is {value}; here it can be 0 to {high}.")
    return state, ignored, step


def scenario_of(state):
    """The Scenario that a state names."""
    if state["scenario"] != BY_HAND:
        return PRESETS[state["scenario"]]
    events = scenarios.read_events(state["events"]) if state["events"].strip() else ()
    return Scenario("By hand", "Add, append, fork and free as you like.", events, state["num_blocks"] * state["block_size"], 128)


def _event_count(state):
    return len(scenario_of(state).events)


def _bring_into_range(state):
    """Puts what does not fit at its default, in place; a list of (name, value it had, limit) of those."""
    moved, events = [], _event_count(state)
    if state["moment"] > events:
        moved.append(("moment", state["moment"], events))
        state["moment"] = events
    try:
        cache = scenario_of(state).states(state["block_size"])[state["moment"]][0]
    except ProblemError:
        return moved  # the page says what is wrong with the events
    for name, count in (("sequence", len(cache.sequences)), ("head", state["num_heads"])):
        if state[name] >= max(count, 1):
            moved.append((name, state[name], max(count, 1) - 1))
            state[name] = 0
    return moved


# ---- the sidebar ----


def state():
    """This session's choices, a dict: from the URL the first time, kept afterwards."""
    if "cache_state" not in st.session_state:
        found, st.session_state.ignored, st.session_state.first_step = from_url(st.query_params.to_dict())
        st.session_state.cache_state = found
    return st.session_state.cache_state


def change(**values):
    """New values, some of them perhaps of widgets that are already drawn: applied in the next run."""
    state().update(values)
    for name in values:
        st.session_state.pop(PREFIX + name, None)
    st.rerun()


def sidebar(survey):
    """Draws the sidebar, keeps the URL in step, and returns the CacheChoices. ProblemError if the events cannot be played."""
    now = state()
    kept.restore("backend", now["backend"])
    for name in now:
        if name not in ("moment", "backend", "events"):
            kept.restore(PREFIX + name, now[name])
    if not isinstance(st.session_state[PREFIX + "sequence"], int):  # the label of an option that the moment before had and this one has not
        st.session_state[PREFIX + "sequence"] = 0
    with st.sidebar:
        titles = {name: scenario.title for name, scenario in PRESETS.items()} | {BY_HAND: "By hand"}
        _select("Scenario", "scenario", titles, format_func=titles.get, on_change=_new_scenario)
        backend = choose_backend(survey)
        if backend == "recorded":
            _recorded_shape(now)
        else:
            _shape()
        now |= {name: st.session_state[PREFIX + name] for name in now if PREFIX + name in st.session_state} | {"backend": st.session_state.backend}
        for name, _, _ in _bring_into_range(now):
            st.session_state.pop(PREFIX + name, None)
        scenario = scenario_of(now)
        states = scenario.states(now["block_size"])
        cache = states[now["moment"]][0]
        _place(now, cache)
    write_url({**now, "events": now["events"] if now["scenario"] == BY_HAND else ""})
    moved = cache.shuffled(now["shuffle"]) if now["shuffle"] else cache
    shape, constants = ({name: now[name] for name in names if name != "block_size"} for names in (SHAPE, CONSTANTS))
    return CacheChoices(scenario, states, now["moment"], moved, now["shuffle"], now["kernel"], backend, shape, constants, now["sequence"], now["head"])


def _new_scenario():
    """Another scenario begins at its end."""
    now = state()
    now["scenario"] = st.session_state[PREFIX + "scenario"]
    now |= {"moment": _event_count(now), "sequence": 0, "shuffle": 0}
    for name in ("sequence", "shuffle"):
        st.session_state.pop(PREFIX + name, None)


def _select(label, name, options, where=st, **more):
    where.selectbox(label, list(options), key=PREFIX + name, **more)


def _shape():
    left, right = st.columns(2)
    if st.session_state[PREFIX + "scenario"] == BY_HAND:
        st.number_input("Pages in the pool", *NUMBERS["num_blocks"], key=PREFIX + "num_blocks")
    _select("block_size", "block_size", SHAPE["block_size"].metadata["allowed"], left, help="slots per page")
    _select("head_size", "head_size", SHAPE["head_size"].metadata["allowed"], right, help=SHAPE["head_size"].metadata["meaning"])
    _select("num_heads", "num_heads", HEADS, left, help="query heads")
    heads = st.session_state[PREFIX + "num_heads"]
    options = [n for n in HEADS if heads % n == 0 and n <= heads]
    if st.session_state[PREFIX + "num_kv_heads"] not in options:
        st.session_state[PREFIX + "num_kv_heads"] = options[-1]
    _select("num_kv_heads", "num_kv_heads", options, right, help="as many as num_heads: multi-head; one: multi-query; between: grouped-query")
    _select("dtype", "dtype", SHAPE["dtype"].metadata["allowed"], left, help=SHAPE["dtype"].metadata["meaning"])
    _select("WARPS", "WARPS", CONSTANTS["WARPS"].values, right, help=CONSTANTS["WARPS"].meaning)
    _select("PARTITION", "PARTITION", CONSTANTS["PARTITION"].values, left, help="tokens per partition of V2; small here, so that short contexts too are cut")
    f = SHAPE["score_scale"].metadata
    right.number_input("score_scale", f["low"], f["high"], key=PREFIX + "score_scale", help=f["meaning"])
    left.number_input("seed", SHAPE["seed"].metadata["low"], SHAPE["seed"].metadata["high"], key=PREFIX + "seed", help=SHAPE["seed"].metadata["meaning"])
    right.toggle("alibi", key=PREFIX + "alibi", help=SHAPE["alibi"].metadata["meaning"])


def _recorded_shape(now):
    """Recordings are of each preset's last moment with the default shape, as allocated or under the first shuffle."""
    st.caption("Recorded: each preset's last moment, as allocated and under shuffle 1, with the default shape.")
    for name in (*SHAPE, *CONSTANTS):
        st.session_state[PREFIX + name] = defaults()[name]
    now["moment"] = _event_count(now)
    st.session_state[PREFIX + "shuffle"] = min(now["shuffle"], scenarios.SHUFFLE_SEED)


def _place(now, cache):
    """Which query head of which sequence is walked, and where its pages lie."""
    st.markdown("**Traced query head**")
    left, right = st.columns(2)
    names = [s.name for s in cache.sequences]
    kept.restore(PREFIX + "sequence", now["sequence"])
    kept.restore(PREFIX + "head", now["head"])
    _select("sequence", "sequence", range(max(len(names), 1)), left, format_func=lambda n: names[n] if names else "none", disabled=len(names) < 2)
    right.number_input("query head", 0, now["num_heads"] - 1, key=PREFIX + "head", disabled=now["num_heads"] == 1)
    st.number_input("Shuffle of the pages", *NUMBERS["shuffle"], key=PREFIX + "shuffle",
                    help="0: where the block manager put them; any other number: a random permutation of all pages")
    now |= {name: st.session_state[PREFIX + name] for name in ("sequence", "head", "shuffle")}
