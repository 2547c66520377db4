"""The frames and the meta of the view `ranges`."""

from typing import NotRequired, TypedDict

from explainers.story.frames import Frame, Number


class RangesFrame(Frame):
    """A step of decoding over a work list.

    read: bytes that the step reads from global memory.
    unit: which of RangesMeta.units, or -1. Of a page that is brought: page, entry, bytes. Of a tile: tokens
        [first, last], warp, and the warp's m and l after it; of a unit's result and of the merge: m, l.
    written: O is.
    merged: partial results are.
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
    """Tokens first to end by one warp, and its m and l after them.

    since: the step after which they are there.
    """

    first: int
    end: int
    warp: int
    m: float
    l: float
    since: int


class RangesUnit(TypedDict):
    """A piece of the followed sequence.

    list: the launch whose work list it is of.
    number: its row there.
    entries, tokens: [first, end).
    pages: {entry, page, stage, slot, since} as they are brought.
    since: the step after which something is there.
    m, l: of the unit.
    weight: e^(m_i - m), where there is a merge.
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

    shared: of prefixes.
    cells: [sequence, entry, page] each.
    units: [number, range, first cell, cells] each.
    sharers: whose pages each unit has.
    """

    shared: bool
    ranges: int
    cells: list[list[int]]
    units: list[list[int]]
    sharers: dict[int, list[int]]


class RangesMeta(TypedDict):
    """The fields that the view draws.

    names, colours: of the sequences.
    sequence, head, kv_head: which are followed.
    length: tokens.
    size: slots of a page.
    units: of the sequence.
    stages, stage_pages: of the ring in shared memory.
    warps: that multiply.
    merged: m and l of the sequence.

    Columns: scores [length], NaN where there is none; o [head_dim]; errors [length], how far a score is off, of a
    cache of 8 bits alone.
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
