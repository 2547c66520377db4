"""The frames and the meta of the view `ranges`."""

from typing import NotRequired, TypedDict

from explainers.story.frames import Frame, Number


class RangesFrame(Frame):
    """A step of decoding over a work list.

    read: the step's bytes from global memory.
    unit: its place in RangesMeta.units, or -1.
    page, entry, bytes: of a copied page.
    tokens, warp: of a tile, with first and last token.
    m, l: after a tile, a unit or the merge.
    written: the step writes O.
    merged: the step merges partial results.
    """

    read: int
    unit: int
    page: NotRequired[int]
    entry: NotRequired[int]
    bytes: NotRequired[int]
    tokens: NotRequired[list[int]]
    warp: NotRequired[int]
    m: NotRequired[Number]
    l: NotRequired[Number]
    written: NotRequired[bool]
    merged: NotRequired[bool]


class RangesTile(TypedDict):
    """Tokens first to end of one warp, and its m and l after them.

    since: the step with the first m and l.
    """

    first: int
    end: int
    warp: int
    m: float
    l: float
    since: int


class RangesUnit(TypedDict):
    """A piece of the followed sequence.

    list: its launch.
    number: its row in the work list.
    entries, tokens: [first, end).
    pages: {entry, page, stage, slot, since} of its copies.
    since: the step with the first values.
    m, l: of the unit.
    weight: e^(m_i - m), if there is a merge.
    """

    list: int
    number: int
    range: int
    block: int
    entries: list[int]
    tokens: list[int]
    partition: int
    pages: list[dict[str, int]]
    tiles: list[RangesTile]
    since: int
    m: NotRequired[float]
    l: NotRequired[float]
    weight: NotRequired[float]


class RangesList(TypedDict):
    """A work list end to end.

    shared: a list of prefixes.
    cells: [sequence, entry, page] each.
    units: [number, range, first cell, cells] each.
    sharers: the sequences of each unit.
    """

    shared: bool
    ranges: int
    cells: list[list[int]]
    units: list[list[int]]
    sharers: dict[int, list[int]]


class RangesMeta(TypedDict):
    """The fields of the view.

    names, colours: of the sequences.
    sequence, head, kv_head: the followed ones.
    length: tokens.
    size: slots of a page.
    units: of the sequence.
    stages, stage_pages: of the ring in shared memory.
    warps: the number of warps with products.
    merged: m and l of the sequence.

    Columns: scores [length], NaN without a score. o [head_dim]. errors [length]: the error of each score from a cache
        of 8 bits.
    """

    frames: list[RangesFrame]
    names: list[str]
    colours: list[str]
    sequence: int
    head: int
    kv_head: int
    length: int
    size: int
    lists: list[RangesList]
    units: list[RangesUnit]
    stages: int
    stage_pages: int
    warps: int
    merged: dict[str, float]
