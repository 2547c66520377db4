"""The frames of the backward, and the metas of its views `backward` and `sums`."""

from typing import TypedDict

from explainers.story.frames import Frame

Span = list[int]  # first and last row of a tensor, both included


class TouchedRows(TypedDict):
    """The reads (kind load) or writes (kind store) of a tensor in global memory in a step.

    part: of the picture.
    rows: queries or keys.
    label: empty for a logged access, else that the page derived it.
    """

    part: str
    kind: str
    rows: Span
    label: str


class Fact(TypedDict):
    """A sentence of the panel.

    of: the parts whose steps it belongs to.
    """

    said: str
    of: list[str]


class _Drawn(TypedDict):
    head: int
    made: list[str]
    done: list[str]
    holds: list[str]
    queries: Span | None
    keys: Span | None
    touched: list[TouchedRows]
    state: dict[str, int]
    ready: str
    flying: list[str]
    whole: bool


class DrawnFrame(_Drawn):
    """The fields of a BackwardFrame that its picture reads."""

    launch: int
    block: int


class BackwardFrame(Frame, _Drawn):
    """One step.

    launch: 0 for the first.
    head: the query head in work, from 0 among the heads that share K and V.
    made: the parts computed in the step, in the order of the formula.
    done: the parts of the tile in work computed so far.
    holds: the tensors read by the block so far.
    queries, keys: of the tile in work, None before it is known.
    touched: the reads and writes of global memory.
    state: part -> its place in BackwardMeta.states, or -1.
    ready: the part that the step waits for, or an empty text.
    flying: the parts whose products have started, and no step has waited for them yet.
    whole: whether it is the opening: a whole tile, before the first step.
    bytes: "Q load" -> bytes of global memory so far.
    unread: whether it starts a product that no step reads.
    """

    launch: int
    unread: bool
    bytes: dict[str, int]


class BackwardMeta(TypedDict):
    """The fields of the view `backward`.

    n, keys, d: queries, keys, and numbers of a query.
    group: the query heads that share K and V.
    head: the first head of the group, counted over the batch.
    adds: whether blocks add their parts of dQ in global memory.
    launches: the name of each launch for people.
    blocks: the number of blocks of each launch.
    places: for each launch, where the four columns of the picture live.
    parts: the tensors of the picture.
    facts: the panel.
    states: part -> for each of its states the first row, last row, first column and last column, and the place of its
        first number in the part's column. S, P, dP and dS have a state for each tile, the gradients one after each
        step with new values.

    Columns: Q, O, dO [group * n, d]. K, V [keys, d]. LSE, delta [group * n]. The other parts as in states.
    """

    n: int
    keys: int
    d: int
    group: int
    head: int
    adds: bool
    launches: list[str]
    blocks: list[int]
    places: list[list[str]]
    parts: list[str]
    facts: list[Fact]
    states: dict[str, list[list[int]]]
    frames: list[DrawnFrame]


class SumsMeta(TypedDict):
    """The fields of the view `sums`: dQ of a head, and the terms of its sums.

    n, d: queries and numbers of a query.
    head: counted over the batch.
    adds: whether blocks add their parts of dQ in global memory. Then `terms` are the blocks' parts, else the sum after
        each key tile.
    tiles: the numbers of the key tiles, in their order.
    second: how the second run differs from the first.
    first: [query, dim] of the shown number.
    changed: how many numbers have other bits in the second run.

    Columns: once, again [n, d]: dQ of the two runs. bits [n, d]: how many bits differ. terms [tiles, n, d], empty
        without a trace of all blocks, and if blocks add, forward and back (sums.in_both_orders).
    """

    n: int
    d: int
    head: int
    adds: bool
    tiles: list[int]
    second: str
    first: list[int]
    changed: int


def drawn(frame: BackwardFrame) -> DrawnFrame:
    """The part of a frame for its picture. The sentences of a stage come once."""
    return {
        "launch": frame["launch"],
        "block": frame["block"],
        "head": frame["head"],
        "made": frame["made"],
        "done": frame["done"],
        "holds": frame["holds"],
        "queries": frame["queries"],
        "keys": frame["keys"],
        "touched": frame["touched"],
        "state": frame["state"],
        "ready": frame["ready"],
        "flying": frame["flying"],
        "whole": frame["whole"],
    }
