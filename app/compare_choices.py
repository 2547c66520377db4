"""Choices of the compare page: two kernels with their own constants, one problem, one query looked at; kept in the URL."""

from dataclasses import dataclass

import streamlit as st

from app import kept
from app.choices import CONSTANTS, PROBLEM, TILE, begin, choose_backend, request_at, write_url
from kernels import backends
from kernels.backends import recorded
from kernels.catalog import ATTENTION
from kernels.errors import ProblemError
from kernels.execute import Request
from kernels.problem import check_value

SIDES = ("a", "b")
PREFIX = "compare_"
PLACE = {"at_batch": 0, "at_head": 0, "at_query": 0}


@dataclass(frozen=True)
class Pair:
    """Both requests, over the tile that holds the query looked at."""

    a: Request
    b: Request


def defaults():
    return {"a": "03_flash", "b": "04_flash_registers", "backend": "auto", **{name: f.default for name, f in PROBLEM.items()}, **PLACE,
            **{f"{side}_{name}": begin(c) for side in SIDES for name, c in CONSTANTS.items()}}


def from_url(params):
    """(state, ignored, step): what a URL's parameters describe, and a sentence for each that is not understood."""
    state, ignored, step = defaults(), [], 0
    for side in SIDES:  # first, as they say which constants there are
        if params.get(side, state[side]) in ATTENTION:
            state[side] = params.get(side, state[side])
        else:
            ignored.append(f"{side} is {params[side]!r}; it must be one of {', '.join(ATTENTION)}.")
    for name, text in params.items():
        try:
            if name in SIDES:
                continue
            if name == "step":
                step = check_value(name, text, 0, {"low": 0, "high": 10**6})
            elif name == "backend":
                if text not in ("auto", *backends.NAMES):
                    raise ProblemError(f"backend is {text!r}; it must be one of auto, {', '.join(backends.NAMES)}.")
                state[name] = text
            elif name in PROBLEM:
                state[name] = check_value(name, text, PROBLEM[name].default, PROBLEM[name].metadata)
            elif name in PLACE:
                state[name] = check_value(name, text, 0, {"low": 0, "high": 10**6})
            elif name in state:
                state[name] = check_value(name, text, state[name], {"allowed": _values(state[name[0]], name[2:])})
            else:
                raise ProblemError(f"{name} is not a choice of this page.")
        except ProblemError as error:
            ignored.append(str(error))
    for name, high in limits(state).items():
        if state[name] > high:
            ignored.append(f"{name} is {state[name]}; here it can be 0 to {high}.")
            state[name] = 0
    return state, ignored, step


def _values(kernel, name):
    """What a constant may be: the kernel's own values, or those that any kernel allows where it has no such constant."""
    return next((c.values for c in ATTENTION[kernel].constants if c.name == name), CONSTANTS[name].values)


def limits(state):
    return {"at_batch": state["batch"] - 1, "at_head": state["heads"] - 1, "at_query": state["seq_len"] - 1}


def request(state, side, backend):
    """The Request of one side."""
    kernel = ATTENTION[state[side]]
    settings = {c.name: state[f"{side}_{c.name}"] for c in kernel.constants}
    return request_at(state, kernel, settings, state["at_query"] // settings["BLOCK_Q"], backend)


# ---- the sidebar ----


def sidebar(survey):
    """Draws the sidebar, keeps the URL in step, and returns the Pair."""
    if "compare" not in st.session_state:
        st.session_state.compare, st.session_state.ignored, st.session_state.first_step = from_url(st.query_params.to_dict())
    state = st.session_state.compare
    kept.restore("backend", state["backend"])
    with st.sidebar:
        for side in SIDES:
            _widget(state, side, st, f"Kernel {side.upper()}", list(ATTENTION), format_func=lambda name: f"{name[:2]} {ATTENTION[name].title}")
        backend = choose_backend(survey)
        state["backend"] = st.session_state.backend
        if backend == "recorded":
            _recorded(state)
        else:
            _constants(state)
            _problem(state)
        columns = st.columns(3)
        for column, (name, high) in zip(columns, limits(state).items()):
            _number(state, name, column, name[3:], 0, high, disabled=high == 0)
    own = {f"{side}_{c.name}" for side in SIDES for c in ATTENTION[state[side]].constants}
    write_url({name: value for name, value in state.items() if name[:2] not in ("a_", "b_") or name in own})
    return Pair(*(request(state, side, backend) for side in SIDES))


def _widget(state, name, where, label, options, **more):
    """A select box of one choice; what it cannot be any more becomes its first option, or a TILE."""
    if state[name] not in options:
        state[name] = TILE if TILE in options else options[0]
    key = kept.restore(PREFIX + name, state[name])
    st.session_state[key] = st.session_state[key] if st.session_state[key] in options else state[name]
    state[name] = where.selectbox(label, options, key=key, **more)


def _number(state, name, where, label, low, high, **more):
    key = kept.restore(PREFIX + name, state[name])
    value = st.session_state[key]
    st.session_state[key] = value if low <= value <= high else type(value)(low)
    state[name] = where.number_input(label, low, high, key=key, **more)


def _constants(state):
    """Each side's constants beside the other's; a what-if build is one of them."""
    for column, side in zip(st.columns(2), SIDES):
        for constant in ATTENTION[state[side]].constants:
            _widget(state, f"{side}_{constant.name}", column, f"{side.upper()} {constant.name}", list(constant.values), help=constant.meaning)


def _problem(state):
    left, right = st.columns(2)
    for n, (name, field) in enumerate(PROBLEM.items()):
        where, f = (left, right)[n % 2], field.metadata
        if isinstance(field.default, bool):
            state[name] = where.toggle(name, key=kept.restore(PREFIX + name, state[name]), help=f["meaning"])
        elif f["allowed"]:
            _widget(state, name, where, name, list(f["allowed"]), help=f["meaning"])
        else:
            _number(state, name, where, name, f["low"], f["high"], help=f["meaning"])


def _recorded(state):
    """A problem that both kernels are recorded on, and of each kernel one of its builds there."""
    entries = {side: recorded.of(ATTENTION[state[side]]) for side in SIDES}
    problems = [e["problem"] for e in entries["a"] if any(e["problem"] == other["problem"] for other in entries["b"])]
    problems = [p for n, p in enumerate(problems) if p not in problems[:n]]
    if not problems:
        st.warning("No problem is recorded of both kernels.")
        return
    now = {name: state[name] for name in PROBLEM}
    chosen = st.selectbox("Recorded problem", range(len(problems)), index=problems.index(now) if now in problems else 0,
                          format_func=lambda n: _said(problems[n], {name: f.default for name, f in PROBLEM.items()}) or "the default problem")
    state |= problems[chosen]
    for side in SIDES:
        builds = [e["settings"] for e in entries[side] if e["problem"] == problems[chosen]]
        now = {name: state[f"{side}_{name}"] for name in builds[0]}
        common = {name: begin(CONSTANTS[name]) for name in builds[0]}
        at = st.selectbox(f"Recorded build of {side.upper()}", range(len(builds)), index=builds.index(now) if now in builds else 0,
                          format_func=lambda n, builds=builds, common=common: _said(builds[n], common) or "as written, tiles of 16")
        state |= {f"{side}_{name}": value for name, value in builds[at].items()}
    for name in (*PROBLEM, *PLACE, *(name for name in state if name[:2] in ("a_", "b_"))):  # other widgets of these begin anew
        st.session_state.pop(PREFIX + name, None)


def _said(values, common):
    """Those that differ from the common ones."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value != common[name])
