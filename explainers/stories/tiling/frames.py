"""The meta of the view `reuse`."""

from typing import TypedDict


class ReuseMeta(TypedDict):
    """The fields of the view `reuse`.

    space: the memory of the reads, shared or global.
    row0, rows: of the query tile.
    tiles: numbers of the key tiles.
    steps: the steps with reads of Q.
    tile_of: the place in tiles of each of these steps.
    read: elements read by the lanes, after each step.
    fetched: bytes of Q loaded from global memory, after each step.
    said: both in a sentence.
    itemsize: of an element.

    Columns, [steps with reads, rows]: least, most: the reads of the row's least and most read element in the step.
        so_far_least, so_far_most: the reads up to the step.
    """

    space: str
    row0: int
    rows: int
    tiles: list[int]
    steps: list[int]
    tile_of: list[int]
    read: list[int]
    fetched: list[int]
    itemsize: int
    said: list[str]
