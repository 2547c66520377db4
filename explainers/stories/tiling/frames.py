"""The frames of the tiling story, and the metas of its views `matrices` and `reuse`."""

from typing import TypedDict

from explainers.story.frames import Frame, Rect


class Touched(TypedDict):
    """A step's reads (kind load) or writes (kind store) of a tensor in global memory, as the smallest rectangle around
    its elements."""

    tensor: str
    kind: str
    rect: Rect


class Held(TypedDict):
    """A tensor's part in the block's shared memory.

    rects: one for each tile with known elements.
    bytes: as stored.
    """

    rects: list[Rect]
    bytes: int


class Used(TypedDict):
    """The elements of a step's reads of a tensor in shared memory."""

    tensor: str
    rect: Rect


class TilingFrame(Frame):
    """One step.

    touched: the tensors of the picture with reads or writes in global memory.
    resident: tensor -> its part in shared memory after the step.
    uses: the step's reads from shared memory.
    scores: its computed scores, or None.
    o: the place of O after the step in the column `o`, or -1.
    bytes: "K load" -> bytes of global memory so far, of every tensor.
    """

    touched: list[Touched]
    resident: dict[str, Held]
    uses: list[Used]
    scores: Rect | None
    o: int
    bytes: dict[str, int]


class MatricesMeta(TypedDict):
    """The fields of the view `matrices`.

    n, keys, d: queries, keys, and numbers of a query.
    row0, rows: the traced query tile.
    head: counted over the batch.
    causal, offset: query i sees no key beyond i + offset.
    traced: the tensors with counted bytes.
    places: tensor, with its name in the frames -> its part and its colour: Q, K, V, S, P or O. Other tensors have no
        part.
    blocks: [first row, last row, first column, last column, block] of each block's part of O.

    Columns: q [n, d], k, v [keys, d] of the head. s [rows, keys]. s_logged [rows, keys]: 1 for a logged score. o
        [states, rows, d]. o_since [rows, d]: the first state with the element. o_final [rows, d].
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
