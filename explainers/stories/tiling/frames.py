"""The frames of the tiling story, and the metas of its views `matrices` and `reuse`."""

from typing import TypedDict

from explainers.story.frames import Frame, Rect


class Touched(TypedDict):
    """The elements that a step read (kind load) or wrote (kind store) in global memory, as the smallest rectangle
    that holds them."""

    tensor: str
    kind: str
    rect: Rect


class Held(TypedDict):
    """The part of a tensor that the block's shared memory holds.

    rects: one of each tile that is there, none of those whose elements are not known.
    bytes: as stored.
    """

    rects: list[Rect]
    bytes: int


class Used(TypedDict):
    """The elements of a tensor in shared memory that a step reads there."""

    tensor: str
    rect: Rect


class TilingFrame(Frame):
    """One step.

    touched: of the tensors that have a place in the picture.
    resident: tensor -> what is held in shared memory after the step.
    uses: what the step reads from shared memory.
    scores: the scores that it computes, or None.
    o: which of the columns `o` shows O after the step, or -1.
    bytes: "K load" -> bytes of global memory so far, of every tensor.
    """

    touched: list[Touched]
    resident: dict[str, Held]
    uses: list[Used]
    scores: Rect | None
    o: int
    bytes: dict[str, int]


class MatricesMeta(TypedDict):
    """n queries, and keys; d numbers of a query.

    row0 and rows: the traced query tile.
    head: counted over the batch.
    causal: query i sees no key beyond i + offset.
    traced: the tensors whose bytes are counted.
    places: tensor, as the frames name it -> its place in the picture and its colour: Q, K, V, S, P or O; a tensor
        that is not in it has none.
    blocks: [first row, last row, first column, last column, block] of each block's part of O.

    Columns: q [n, d], k, v [keys, d] of the head; s [rows, keys]; s_logged [rows, keys]: 1 where a score was
    logged; o [states, rows, d]; o_since [rows, d]: the first state that has the element; o_final [rows, d].
    """

    n: int
    keys: int
    offset: int
    d: int
    row0: int
    rows: int
    head: int
    traced: list[str]
    places: dict[str, str]
    blocks: list[list[int]]
    causal: bool
    frames: list[TilingFrame]


class ReuseMeta(TypedDict):
    """The fields of the view.

    space: that Q's elements are read from, shared or global.
    row0, rows: of the query tile.
    tiles: numbers of the key tiles.
    steps: those that read Q.
    tile_of: the place in tiles of each. After each step: read: how many elements the lanes have read.
    fetched: bytes of Q loaded from global memory.
    said: both in a sentence.
    itemsize: of an element.

    Columns, [steps that read, rows]: least, most: how often the step reads an element of the row, the least and
    the most read one; so_far_least, so_far_most: the same of all steps up to it.
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
