"""The traced query tile of attention, and a row or a query of it. The problem and the tiles limit them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State, put
from explainers.story import axes, picture
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError


def number(meaning: str, default: int = 0) -> Choice:
    """The choice of a place: the page knows its limit."""
    return Choice(default, low=0, high=10**6, meaning=meaning)


_HEAD = {"at_batch": number("which sequence of the batch"), "at_head": number("which attention head")}
WHOLE_TILE = {**_HEAD, "at_tile": number("which query tile of that head")}
TILE = {**WHOLE_TILE, "row": number("which of the tile's rows", 6)}  # in row 6 the max moves twice
QUERY = {**_HEAD, "at_query": number("the query whose tile is traced")}


def limits(page: Page, state: State) -> dict[str, int]:
    """name -> the largest value of each choice of a place."""
    size = room(page.request_of(state))
    found = {"at_batch": size.batches - 1, "at_head": size.heads - 1}
    if "at_query" in page.own:
        return found | {"at_query": size.queries - 1}
    tile = min(state["at_tile"], size.tiles - 1)
    last_row = min(size.queries, (tile + 1) * size.rows) - tile * size.rows - 1
    return found | {"at_tile": size.tiles - 1, "row": last_row}


def correct(page: Page, state: State, limits: Callable[[Page, State], Mapping[str, int]] = limits) -> list[Correction]:
    """Replaces places that a smaller problem does not have by their defaults, in place."""
    corrections: list[Correction] = []
    try:
        for name in (name for name in limits(page, state) if name in page.own):
            default, high = page.own[name].default, limits(page, state)[name]  # the row's limit depends on the tile
            if state[name] > high:
                chosen = state[name] != default
                correction = put(state, name, min(default, high), f"Here it can be 0 to {high}.")
                corrections += [correction] if chosen else []
    except ProblemError:
        pass  # the page reports the error of the problem
    return corrections


def request(page: Page, state: State, backend: str, side: str | None = None) -> Request:
    """The Request of a side, its scope the query tile that is looked at, or everything if its items are no query tiles.
    ProblemError."""
    whole = page.request_of(state, side)
    if not picture.by_tiles(whole):
        return replace(whole, scope=Scope.everything(whole.plan), backend=backend)
    size, (batch, head, query) = room(whole), traced(page, state, side)
    first = (batch * size.heads + head) * size.tiles + query // size.rows
    return Request(whole.kernel, whole.problem, whole.settings, Scope(first), backend)


def traced(page: Page, state: State, side: str | None = None) -> tuple[int, int, int]:
    """Batch, head and a query of the tile that a state looks at, by whatever name. ProblemError."""
    size = room(page.request_of(state, side))
    if "at_item" in page.own and "at_query" not in page.own:
        item, tile = divmod(state["at_item"], size.tiles)
        return *divmod(item, size.heads), tile * size.rows
    query = state["at_query"] if "at_query" in page.own else state["at_tile"] * size.rows
    return state["at_batch"], state["at_head"], query


LABELS = {"at_batch": "batch", "at_head": "head", "at_tile": "tile", "at_query": "query", "row": "row of the tile"}


def describe(
    page: Page,
    state: State,
    limits: Callable[[Page, State], Mapping[str, int]] = limits,
    labels: Mapping[str, str] = LABELS,
) -> Descriptions:
    return {
        name: {"high": high, "label": labels[name], "disabled": "" if high else "there is only one"}
        for name, high in limits(page, state).items()
        if name in page.own
    }


class Room(NamedTuple):
    """How many there are of each: heads of a batch, tiles of a head, rows of a full tile, queries of a head."""

    batches: int
    heads: int
    tiles: int
    rows: int
    queries: int


@lru_cache(maxsize=1024)
def room(request: Request) -> Room:
    """The room of attention. Without query tiles as items, a head has one tile with all its queries."""
    o = picture.tensor_at(request, "O")
    outer = axes.heads(o)
    batches = next((n for axis, n in zip(o.axes, o.shape) if axis in ("batch", "sequence")), 1)
    if not picture.by_tiles(request):
        rows = axes.length(o, "query") if "query" in o.axes else 1
        return Room(batches, outer // batches, 1, rows, rows)
    _, row0, row1 = picture.query_rows(request)
    return Room(batches, outer // batches, picture.tiles_of(request)[1], row1 - row0, axes.length(o, "query"))
