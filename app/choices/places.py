"""Which query tile of attention is traced, and which of its rows or which query is looked at: choices that the problem
and the tiles bound."""

from functools import lru_cache
from typing import Any, NamedTuple

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from explainers.story import axes, picture
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError


def _number(begin: int, meaning: str) -> Choice:
    return Choice(begin, low=0, high=10**6, meaning=meaning)


_HEAD = {"at_batch": _number(0, "which sequence of the batch"), "at_head": _number(0, "which attention head")}
WHOLE_TILE = {**_HEAD, "at_tile": _number(0, "which query tile of that head")}
TILE = {**WHOLE_TILE, "row": _number(6, "which of the tile's rows")}  # in row 6 the max moves twice
QUERY = {**_HEAD, "at_query": _number(0, "the query whose tile is traced")}


def limits(asked: Asked, state: State) -> dict[str, int]:
    """name -> the largest that each choice of a place can be, with what else is chosen."""
    size = room(asked.request_of(state))
    found = {"at_batch": size.batches - 1, "at_head": size.heads - 1}
    if "at_query" in asked.own:
        return found | {"at_query": size.queries - 1}
    tile = min(state["at_tile"], size.tiles - 1)
    last_row = min(size.queries, (tile + 1) * size.rows) - tile * size.rows - 1
    return found | {"at_tile": size.tiles - 1, "row": last_row}


def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what a smaller problem leaves out of range at its beginning, in place; (name, sentence) of each."""
    moved: list[tuple[str, str]] = []
    try:
        high = limits(asked, state)
        for name in (n for n in (*TILE, *QUERY) if n in asked.own):  # the row's limit depends on the tile
            if state[name] <= high[name]:
                continue
            sentence = f"{name} is {state[name]}; here it can be 0 to {high[name]}."
            state[name] = min(asked.own[name].begin, high[name])
            high = limits(asked, state)
            if sentence not in [said for _, said in moved]:
                moved.append((name, sentence))
    except ProblemError:
        pass  # the page says what is wrong with the problem
    return moved


def request(asked: Asked, state: State, backend: str, side: str | None = None) -> Request:
    """The Request of a side, its scope the query tile that is looked at. ProblemError."""
    whole = asked.request_of(state, side)
    size, (batch, head, query) = room(whole), traced(asked, state, side)
    first = (batch * size.heads + head) * size.tiles + query // size.rows
    return Request(whole.kernel, whole.problem, whole.settings, Scope(first), backend)


def traced(asked: Asked, state: State, side: str | None = None) -> tuple[int, int, int]:
    """Batch, head and a query of the tile that a state looks at, by whatever name. ProblemError."""
    size = room(asked.request_of(state, side))
    if "at_item" in asked.own and "at_query" not in asked.own:
        item, tile = divmod(state["at_item"], size.tiles)
        return *divmod(item, size.heads), tile * size.rows
    query = state["at_query"] if "at_query" in asked.own else state["at_tile"] * size.rows
    return state["at_batch"], state["at_head"], query


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """How far each choice of a place can go, and what it is called."""
    found: dict[str, dict[str, Any]] = {}
    for name, high in limits(asked, state).items():
        if name not in asked.own:
            continue
        label = "row of the tile" if name == "row" else name.removeprefix("at_").replace("_", " ")
        found[name] = {"high": high, "label": label, "disabled": "" if high else "there is only one"}
    return found


class Room(NamedTuple):
    """How many there are of each: heads of a batch, tiles of a head, rows of a full tile, queries of a head."""

    batches: int
    heads: int
    tiles: int
    rows: int
    queries: int


@lru_cache(maxsize=1024)
def room(request: Request) -> Room:
    """Of attention whose items are query tiles."""
    o = picture.tensor_at(request, "O")
    outer, batches = axes.heads(o), axes.length(o, "batch") if "batch" in o.axes else 1
    _, row0, row1 = picture.query_rows(request)
    return Room(batches, outer // batches, picture.tiles_of(request)[1], row1 - row0, axes.length(o, "query"))
