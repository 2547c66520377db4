"""Sidebar widgets <-> choices <-> URL. Every choice is in the URL; what a URL says wrongly is replaced by the default, and told."""

from dataclasses import dataclass, fields, replace

import streamlit as st

from app import kept
from kernels import backends
from kernels.backends import recorded
from kernels.catalog import ATTENTION
from kernels.errors import ProblemError
from kernels.execute import Request, Scope
from kernels.problem import AttentionProblem, check_value

PROBLEM = {f.name: f for f in fields(AttentionProblem)}
TILE = 16  # rows and keys of a tile to begin with, and every kernel allows it: a small problem has several tiles
VIEW = {"at_batch": 0, "at_head": 0, "at_tile": 0, "row": 6, "step": 0}  # where to look; in row 6 the max moves twice
AS_WRITTEN = "none"


def _all_constants():
    """Name -> Constant, its values those that any of the kernels allows."""
    found = {}
    for constant in (c for spec in ATTENTION.values() for c in spec.constants):
        values = {*constant.values, *(found[constant.name].values if constant.name in found else ())}
        found[constant.name] = replace(constant, values=constant.values if constant.what_if else tuple(sorted(values)))
    return found


CONSTANTS = _all_constants()


def begin(constant):
    """What a constant is on the pages until another value is chosen."""
    return TILE if constant.name.startswith("BLOCK") else constant.default


@dataclass(frozen=True)
class Choices:
    """Everything a page needs: the request, and the row looked at within its query tile."""

    request: Request
    row: int


def defaults():
    return {"kernel": "03_flash", "backend": "auto", "what_if": AS_WRITTEN, **{name: f.default for name, f in PROBLEM.items()},
            **{name: begin(c) for name, c in CONSTANTS.items() if not c.what_if}, **VIEW}


def from_url(params):
    """(state, ignored): the state that a URL's parameters describe, and a sentence for each that is not understood."""
    state, ignored = defaults(), []
    constants = CONSTANTS | {c.name: c for c in ATTENTION.get(params.get("kernel"), ATTENTION[state["kernel"]]).constants}
    lists = {"kernel": list(ATTENTION), "backend": ["auto", *backends.NAMES], "what_if": [AS_WRITTEN, *what_ifs()]}
    for name, text in params.items():
        try:
            if name in lists:
                if text not in lists[name]:
                    raise ProblemError(f"{name} is {text!r}; it must be one of {', '.join(lists[name])}.")
                state[name] = text
            elif name in PROBLEM:
                state[name] = check_value(name, text, PROBLEM[name].default, PROBLEM[name].metadata)
            elif name in state and name in CONSTANTS:
                state[name] = check_value(name, text, constants[name].default, {"allowed": constants[name].values})
            elif name in VIEW:
                state[name] = check_value(name, text, 0, {"low": 0, "high": 10**6})
            else:
                raise ProblemError(f"{name} is not a choice of this page.")
        except ProblemError as error:
            ignored.append(str(error))
    if state["what_if"] not in [AS_WRITTEN, *what_ifs(ATTENTION[state["kernel"]])]:
        ignored.append(f"what_if is {state['what_if']!r}; {state['kernel']} has no such build.")
        state["what_if"] = AS_WRITTEN
    for name, value, high in _bring_into_range(state):
        if name in params:
            ignored.append(f"{name} is {value}; here it can be 0 to {high}.")
    return state, ignored


def what_ifs(kernel=None):
    """Names of the constants with what-if builds, of one kernel or of all."""
    return [c.name for c in (kernel.constants if kernel else CONSTANTS.values()) if c.what_if]


def carried_over(settings, kernel):
    """Settings (pairs) of any kernel as far as this one has and allows them; else a TILE, or its default. What-ifs too."""
    given = dict(settings)
    return tuple((c.name, given[c.name] if given.get(c.name) in c.values else begin(c)) for c in kernel.constants)


def to_request(state, device_backend):
    """The Request that a state describes."""
    kernel = ATTENTION[state["kernel"]]
    settings = dict(carried_over({name: state[name] for name, c in CONSTANTS.items() if not c.what_if}, kernel))
    settings |= {c.name: next(v for v in c.values if v != c.default) if c.name == state["what_if"] else c.default for c in kernel.constants if c.what_if}
    return request_at(state, kernel, settings, state["at_tile"], device_backend)


def request_at(state, kernel, settings, tile, backend):
    """The Request of a state's problem, its scope the query tile of that number in the state's batch and head."""
    problem = AttentionProblem(**{name: state[name] for name in PROBLEM})
    tiles = -(-problem.seq_len // settings["BLOCK_Q"])
    first = (state["at_batch"] * problem.heads + state["at_head"]) * tiles + tile
    return Request(kernel, problem, tuple(settings.items()), Scope(first, 1), backend)


def _view_limits(state):
    last_tile = -(-state["seq_len"] // state["BLOCK_Q"]) - 1
    rows = min(state["BLOCK_Q"], state["seq_len"] - state["at_tile"] * state["BLOCK_Q"])
    return {"at_batch": state["batch"] - 1, "at_head": state["heads"] - 1, "at_tile": last_tile, "row": max(0, rows - 1)}


def _bring_into_range(state):
    """Puts what a smaller problem leaves out of range at its default, in place; a list of (name, value it had, limit) of those."""
    moved = []
    for name in ("at_batch", "at_head", "at_tile", "row"):  # the row's limit depends on the tile
        high = _view_limits(state)[name]
        if state[name] > high:
            moved.append((name, state[name], high))
            state[name] = min(VIEW[name], high)
    return moved


# ---- the sidebar ----


def sidebar(survey, with_row=False):
    """Draws the sidebar, keeps the URL in step, and returns the Choices."""
    state = _session_state()
    with st.sidebar:
        st.selectbox("Kernel", list(ATTENTION), key="kernel", format_func=lambda name: f"{name[:2]} {ATTENTION[name].title}")
        kernel = ATTENTION[st.session_state.kernel]
        _what_if(kernel)
        backend = choose_backend(survey)
        for name, value in carried_over({name: st.session_state[name] for name in CONSTANTS if name in st.session_state}, kernel):
            if not CONSTANTS[name].what_if:
                st.session_state[name] = value
        if backend == "recorded":
            _recorded_problem(kernel)
        else:
            _problem(kernel)
        _place(with_row)
    state |= {name: st.session_state[name] for name in state if name in st.session_state}
    write_url(state)
    return Choices(to_request(state, backend), state["at_tile"] * state["BLOCK_Q"] + state["row"])


def _session_state():
    """This session's choices: from the URL the first time, kept afterwards, also while another page hides their widgets."""
    if "choices" not in st.session_state:
        st.session_state.choices, st.session_state.ignored = from_url(st.query_params.to_dict())
        st.session_state.first_step = st.session_state.choices.pop("step")
    state = st.session_state.choices
    for name, value in state.items():
        kept.restore(name, value)
    return state


def show_ignored():
    """Says once what the URL asked for and did not get."""
    ignored = st.session_state.pop("ignored", None)
    if ignored:
        st.warning("Some of the link was not understood, and the defaults were taken: " + " ".join(ignored).replace("*", r"\*"), icon=":material/link_off:")


def _what_if(kernel):
    if st.session_state.what_if not in [AS_WRITTEN, *what_ifs(kernel)]:
        st.session_state.what_if = AS_WRITTEN
    names = {c.name: c.what_if for c in kernel.constants}
    st.selectbox("What-if build", [AS_WRITTEN, *what_ifs(kernel)], key="what_if", format_func=lambda name: names.get(name, "As written"))
    chosen = CONSTANTS.get(st.session_state.what_if)
    if chosen:
        st.caption(f"Broken on purpose: {chosen.effect}" + (f" It shows from score_scale {chosen.shows_at:g} on." if chosen.shows_at > 1 else ""))


def choose_backend(survey):
    """Draws the choice of backend; the name of the one that runs go to."""
    usable = ["auto", *survey.devices]
    if st.session_state.backend not in usable:
        st.warning(f"This machine has no usable {st.session_state.backend} backend: {survey.reasons.get(st.session_state.backend, '')}")
        st.session_state.backend = "auto"
    labels = {name: {"gpu": "This GPU", "cpu": "The CPU", "recorded": "Recorded"}[name] + f": {device.name}" for name, device in survey.devices.items()}
    st.selectbox("Run on", usable, key="backend", format_func=lambda name: labels.get(name, f"Automatic: {labels[survey.pick().backend]}"))
    return survey.pick(st.session_state.backend).backend


def _problem(kernel):
    own = {c.name: c for c in kernel.constants}
    left, right = st.columns(2)
    f = PROBLEM["seq_len"].metadata
    left.number_input("seq_len", f["low"], f["high"], key="seq_len", help=f["meaning"])
    right.selectbox("head_dim", PROBLEM["head_dim"].metadata["allowed"], key="head_dim", help=PROBLEM["head_dim"].metadata["meaning"])
    for column, name in ((left, "batch"), (right, "heads"), (left, "BLOCK_Q"), (right, "BLOCK_KV"), (left, "score_scale"), (right, "seed")):
        if name in own:
            column.selectbox(name, own[name].values, key=name, help=own[name].meaning)
        else:
            f = PROBLEM[name].metadata
            column.number_input(name, f["low"], f["high"], key=name, help=f["meaning"])
    left.toggle("causal", key="causal", help=PROBLEM["causal"].metadata["meaning"])
    for column, name in zip((right, left, right), [name for name in own if not name.startswith("BLOCK") and not own[name].what_if]):
        column.selectbox(name, own[name].values, key=name, help=own[name].meaning)


def _recorded_problem(kernel):
    """A choice among this kernel's recordings; it sets the problem and the constants together."""
    entries = sorted(recorded.of(kernel), key=lambda e: sum(value != defaults()[name] for name, value in _state_of(e).items()))  # the default problem first
    if not entries:
        st.warning(f"No recording of {kernel.name} fits its present source.")
        return
    names = [f"{e['problem']['seq_len']} x {e['problem']['head_dim']}" + (", causal" if e["problem"]["causal"] else "")
             + "".join(f", {CONSTANTS[c].what_if.lower() or f'{c} {v}'}" for c, v in e["settings"].items() if v != CONSTANTS[c].default) for e in entries]
    now = {**st.session_state.choices, **{k: st.session_state[k] for k in st.session_state.choices if k in st.session_state}}
    at = next((n for n, e in enumerate(entries) if {**now, **_state_of(e)} == now), None)
    chosen = st.selectbox("Recorded run (seq_len x head_dim)", range(len(entries)), index=0 if at is None else at, format_func=lambda n: names[n])
    if chosen != at:
        entry = entries[chosen]
        if at is None:  # the kernel or the what-if was chosen: take a recording of that
            entry = next((e for e in entries if _state_of(e)["what_if"] == now["what_if"]), entry)
        _set({**_state_of(entry), "at_batch": 0, "at_head": 0, "at_tile": 0})


def _state_of(entry):
    """The choices that a recording stands for."""
    broken = next((c for c, v in entry["settings"].items() if CONSTANTS[c].what_if and v != CONSTANTS[c].default), AS_WRITTEN)
    return {**entry["problem"], "what_if": broken, **{c: v for c, v in entry["settings"].items() if not CONSTANTS[c].what_if}}


def _set(values):
    """New values for widgets, some already drawn in this run: kept with the choices and applied in the next."""
    st.session_state.choices |= values
    for name in values:
        st.session_state.pop(name, None)
    st.rerun()


def _place(with_row):
    """Which query tile is traced, and which of its rows is looked at."""
    state = {name: st.session_state[name] for name in defaults() if name in st.session_state}
    for name, _, _ in _bring_into_range(state):
        st.session_state[name] = state[name]
    first, last = state["at_tile"] * state["BLOCK_Q"], min(state["seq_len"], (state["at_tile"] + 1) * state["BLOCK_Q"]) - 1
    limits = _view_limits(state)
    st.markdown("**Traced query tile**")
    columns = st.columns(3)
    for column, name, label in zip(columns, ("at_batch", "at_head", "at_tile"), ("batch", "head", "tile")):
        column.number_input(label, 0, limits[name], key=name, disabled=limits[name] == 0)
    st.caption(f"Queries {first} to {last}.")
    if with_row:
        st.number_input("Row of the tile", 0, limits["row"], key="row", disabled=limits["row"] == 0, help=f"The query looked at: {first} + this.")


def write_url(state):
    """Every choice into the URL; `step` is the clock's own and stays as it is."""
    for name, value in state.items():
        text = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
        if st.query_params.get(name) != text:
            st.query_params[name] = text
    for name in set(st.query_params) - set(state) - {"step"}:
        del st.query_params[name]
