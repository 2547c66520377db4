"""The metas of the views `threads` and `lanes`. The stage of the page has their frames."""

from typing import Any, TypedDict


class Plane(TypedDict):
    """A matrix.

    row, col: the axes of its rows and columns: row (of queries), key, token, dim, head or partition.
    """

    name: str
    row: str
    col: str


class Moment(TypedDict):
    """A step of the trace.

    parts: [plane, kind, first, number] of its rectangles in the columns.
    windows: axis -> the first and last drawn index.
    """

    launch: int
    block: int
    parts: list[list[int]]
    windows: dict[str, list[int]]


class ThreadsMeta(TypedDict):
    """The fields of the view.

    launches: entry, grid, block, threads, the expressions of both, item, blocks of an item, first and number of the
        traced blocks, and rows: queries of an item, items of a head, queries of a head, None unless items are query
        tiles.
    kinds: the uses of an element by a thread.
    of_frame: each frame's moment.
    lines: sets of FILE:LINE.
    threads: of the largest block.
    left_out: sentences on the parts left out for their size.

    Columns: thread, row0, row1, col0, col1 of each rectangle. ran [moments, threads]: a place in `lines`, or -1.
    """

    launches: list[dict[str, Any]]
    planes: list[Plane]
    kinds: list[str]
    moments: list[Moment]
    of_frame: list[int]
    lines: list[list[str]]
    threads: int
    left_out: list[str]


class LanesMeta(TypedDict):
    """The fields of the view `lanes`.

    row: the chosen row.
    row0, rows, keys: of the query tile.
    tiles: first and last key of each key tile.
    shown: the place in `tiles` of each frame.
    summed: for each tile, the step with the row's max and sum.

    Columns, [rows, keys]: thread of each score, or -1. scored, weighed: the step with the score and the weight, or -1.
        s, p: both as logged. [tiles, rows]: m, l after each tile.
    """

    row: int
    row0: int
    rows: int
    keys: int
    tiles: list[list[int]]
    shown: list[int]
    summed: list[int]
