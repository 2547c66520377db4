"""The frames of the walk of a mask, and the meta of the view `sparsity`."""

from typing import TypedDict

from explainers.story.frames import Frame


class SparsityFrame(Frame):
    """An entry of a query block's list. The first and the last frame have entry -1.

    column: of the block.
    kind: partial or full.
    seen: its keys in sight of the row.
    m_before, l_before, m, l: of the row, as logged.
    rescale, tile_max: of the block, None without a record.
    loaded: bytes of K and V so far.
    """

    entry: int
    column: int
    kind: str
    seen: int
    m_before: float
    l_before: float
    m: float
    l: float
    rescale: float | None
    tile_max: float | None
    loaded: int


class Drawing(TypedDict):
    """A mask drawn by hand: rows by columns of blocks of block x block elements.

    drawn: for each row its visible columns.
    """

    block: int
    rows: int
    columns: int
    drawn: list[list[int]]


class SparsityMeta(TypedDict):
    """The mask of a head, counted over the batch, in blocks of block_q queries and block_kv keys.

    tile: the followed query block.
    row: the row of the head with scores in the picture.
    entries: [column, kind] in the order of the walk.
    row_bytes: of K and V of a key.
    elements: whether there is a column `seen`.
    drawing: None unless the mask is drawn by hand.

    Columns: kinds [query blocks, key blocks]: 0 skipped, 1 partial, 2 full. scores [keys] of the row. seen [queries,
        words], 16 elements in each number.
    """

    frames: list[SparsityFrame]
    queries: int
    keys: int
    block_q: int
    block_kv: int
    tile: int
    row: int
    head: int
    entries: list[list[int]]
    row_bytes: int
    elements: bool
    drawing: Drawing | None
