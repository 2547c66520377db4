"""Which query tile of attention is traced, and which of its rows or which query is looked at: choices that the problem
and the tiles bound."""

from math import prod
from typing import Any

import streamlit as st

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from app.choices.page import Page
from explainers import axes, tiling
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError


def _number(begin: int, meaning: str) -> Choice:
    return Choice(begin, low=0, high=10**6, meaning=meaning)


_HEAD = {"at_batch": _number(0, "which sequence of the batch"), "at_head": _number(0, "which attention head")}
TILE = {
    **_HEAD,
    "at_tile": _number(0, "which query tile of that head"),
    "row": _number(6, "which of the tile's rows"),
}  # in row 6 the max moves twice
QUERY = {**_HEAD, "at_query": _number(0, "the query whose tile is traced")}


def limits(page: Asked, state: State) -> dict[str, int]:
    """name -> the largest that each choice of a place can be, with what else is chosen."""
    request = _request(page, state, page.sides[0])
    o = tiling.tensor_at(request, "O")
    outer = prod(o.shape[:-2])
    batch = axes.length(o, "batch") if "batch" in o.axes else 1
    found = {"at_batch": batch - 1, "at_head": outer // batch - 1}
    if "at_query" in page.own:
        return found | {"at_query": axes.length(o, "query") - 1}
    last = request.plan.items // outer - 1
    _, row0, row1 = tiling.query_rows(_request(page, state, page.sides[0], Scope(min(state["at_tile"], last))))
    return found | {"at_tile": last, "row": row1 - row0 - 1}


def settle(page: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what a smaller problem leaves out of range at its beginning, in place; (name, sentence) of each."""
    moved: list[tuple[str, str]] = []
    for name in (n for n in (*TILE, *QUERY) if n in page.own):  # the row's limit depends on the tile
        try:
            high = limits(page, state)[name]
        except ProblemError:
            return moved  # the page says what is wrong with the problem
        if state[name] > high:
            sentence = f"{name} is {state[name]}; here it can be 0 to {high}."
            state[name] = min(page.own[name].begin, high)
            if sentence not in [said for _, said in moved]:
                moved.append((name, sentence))
    return moved


def request(page: Page, backend: str, side: str | None = None) -> Request:
    """The Request of a side, its scope the query tile that is looked at. ProblemError."""
    state = page.state
    whole = _request(page, state, side)
    o = tiling.tensor_at(whole, "O")
    heads, tiles = limits(page, state)["at_head"] + 1, whole.plan.items // prod(o.shape[:-2])
    _, row0, row1 = tiling.query_rows(whole)
    tile = state["at_query"] // (row1 - row0) if "at_query" in state else state["at_tile"]
    first = (state["at_batch"] * heads + state["at_head"]) * tiles + tile
    return Request(whole.kernel, whole.problem, whole.settings, Scope(first), backend)


def choose(page: Page, with_row: bool = False) -> None:
    """The widgets of the place, in the sidebar. with_row: the row too."""
    with st.sidebar:
        st.markdown("**Traced query tile**")
        for column, name in zip(st.columns(3), (n for n in page.own if n.startswith("at_"))):
            _bounded(page, name, column, name.removeprefix("at_"))
        _, row0, row1 = tiling.query_rows(request(page, "cpu", page.sides[0]))
        st.caption(f"Queries {row0} to {row1 - 1}.")
        if with_row:
            _bounded(page, "row", st, "Row of the tile", help=f"The query looked at: {row0} + this.")
        page.settle(page, page.state)


def _bounded(page: Page, name: str, where: Any, label: str, **more: Any) -> None:
    high = limits(page, page.state)[name]
    page.widget(name, where, label, high=high, disabled=high == 0, **more)


def _request(page: Asked, state: State, side: str | None, scope: Scope | None = None) -> Request:
    settings = tuple(page.settings_of(state, side).items())
    return Request(page.spec_of(state, side), page.problem_of(state), settings, scope or Scope())
