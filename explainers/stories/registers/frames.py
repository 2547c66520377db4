"""The meta of the view `lanes`. The stage of the page has its frames."""

from typing import TypedDict


class LanesMeta(TypedDict):
    """The fields of the view `lanes`.

    row0, rows, keys: of the query tile.

    Columns, [rows, keys]: thread of each score, or -1. scored, weighed: the step with the score and the weight, or -1.
        s, p: both as logged. [tiles, rows]: m, l after each tile.
    """

    row: int  # the chosen row
    row0: int
    rows: int
    keys: int
    tiles: list[list[int]]  # first and last key of each key tile
    shown: list[int]  # the place in `tiles` of each frame
    summed: list[int]  # for each tile, the step with the row's max and sum
