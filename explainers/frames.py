"""What goes to the browser: the shape of every frame and of every view's meta, field by field.

A frame is one step of a story. The clock counts frames; every view draws the frame of the clock's step. A meta is what
a view gets once, before any step. All of it is plain JSON (components.plain writes NaN and infinity as text); arrays go
beside it as columns of float32, row by row, and are named where the view's meta is described.
"""

from typing import NotRequired, TypedDict

Rect = list[int]  # [first row, last row, first column, last column] of elements, all inclusive
Lines = dict[
    str, int
]  # "FILE:LINE" of a line of code -> how many times the step ran it, over all threads that were traced
Number = float | int | str | None  # NaN and infinity are the texts nan, inf and -inf; None where nothing was logged


class Frame(TypedDict):
    """What the clock, the sentence and the code pane need of a step.

    tile: the number of the outer step, which Shift+Left and Shift+Right go by; -1 outside all tiles. title: a few words
    for the clock. phase: the mark that began the step, as the kernel names it. block: of the launch; the clock's outer
    step begins anew with it.
    """

    tile: int
    title: str
    sentence: str
    lines: NotRequired[Lines]
    phase: NotRequired[str]
    block: NotRequired[int]


# ---- tiling and compare: the view `matrices` ----


class Touched(TypedDict):
    """The elements that a step read (kind load) or wrote (kind store) in global memory, as the smallest rectangle that
    holds them."""

    tensor: str
    kind: str
    rect: Rect


class Held(TypedDict):
    """What of a tensor lies in the block's shared memory. rect: None where it is not known which elements they are.
    bytes: as stored."""

    rect: Rect | None
    bytes: int


class TilingFrame(Frame):
    """touched: of the tensors that have a place in the picture. resident: tensor -> what is held in shared memory after
    the step. uses: the tensors that the step reads from shared memory. scores: the scores that it computes, or None. o:
    which of the columns `o` shows O after the step, or -1. bytes: "K load" -> bytes of global memory so far, of every
    tensor."""

    touched: list[Touched]
    resident: dict[str, Held]
    uses: list[str]
    scores: Rect | None
    o: int
    bytes: dict[str, int]


class MatricesMeta(TypedDict):
    """n queries and keys; d numbers of a query; row0 and rows: the traced query tile; head: counted over the batch.
    traced: the tensors whose bytes are counted. places: tensor, as the frames name it -> its place in the picture and
    its colour: Q, K, V, S, P or O; a tensor that is not in it has none. blocks: [first row, last row, first column,
    last column, block] of each block's part of O.

    Columns: q, k, v [n, d] of the head; s [rows, n], NaN where no score was logged; o [states, rows, d]; o_final [rows,
    d].
    """

    n: int
    d: int
    row0: int
    rows: int
    head: int
    traced: list[str]
    places: dict[str, str]
    blocks: list[list[int]]
    frames: list[TilingFrame]


class AlignedFrame(TypedDict):
    """A common step of two kernels. phase: of the side that steps. title: it says which side steps alone."""

    tile: int
    title: str
    phase: str


# ---- online softmax: the view `row` ----


class RowFrame(Frame):
    """A step of one row. group: scores, max, rescale, weights, sum, output or final. m, l: after the step; m_before:
    the m before this one; None before the first. rescale: the factor of this step, or None. keys, weighed: how many
    keys have a score, a weight. o: which of the columns `o` shows O's row, or -1. m_true, l_true: float64 after the
    same keys. wrong: the step is off by more than rounding."""

    group: str
    m: Number
    l: Number
    m_before: Number
    rescale: Number
    keys: int
    weighed: int
    o: int
    m_true: float
    l_true: float
    wrong: bool


class RowMeta(TypedDict):
    """row: its number. ordinary: the kernel has one m and l for the whole row, no running ones. tile_of: each key's
    tile; block_kv: keys of a tile. error: the row's largest; total: m and l of the whole row in float64.

    Columns: scores, weights, weights_true [keys]; o [states, d]; o_true [d].
    """

    frames: list[RowFrame]
    row: int
    ordinary: bool
    tile_of: list[int]
    block_kv: int
    error: Number
    total: dict[str, float]


# ---- block table: the views `pool`, `events` and `walk` ----


class PoolSequence(TypedDict):
    name: str
    length: int
    table: tuple[int, ...]
    colour: str


class PoolPage(TypedDict):
    """fill: slots that hold a token. owners: the places of its sequences in the frame's list. entry: its place in their
    tables."""

    fill: int
    owners: list[int]
    entry: int


class PoolFrame(Frame):
    """The KV cache after an event. event: as it is written, empty before the first. pages: of those that are held.
    free: the free list, the next to be taken first. counts: page -> sequences that hold it. new: slots written by the
    event. copied: (from, to), or None. released: pages freed by it. usage: slots used, held, of slack, reserved
    contiguously, empty, and tokens stored twice."""

    event: str
    sequences: list[PoolSequence]
    pages: dict[int, PoolPage]
    free: tuple[int, ...]
    counts: dict[int, int]
    new: list[int]
    copied: tuple[int, int] | None
    released: tuple[int, ...]
    usage: dict[str, int]


class PoolMeta(TypedDict):
    """size: slots of a page. run: what the frames belong to. moment: the event that is shown. max_len: slots reserved
    contiguously. page_bytes: of a page and KV head, 0 where no kernel can run."""

    frames: list[PoolFrame]
    size: int
    run: str
    moment: int
    max_len: int
    page_bytes: int
    kv_heads: int


class WalkFrame(Frame):
    """A step of a walk through a block table. Of a page: logical (the entry), page, entry_offset (byte in the block
    tables), base (the byte of the cache at which the KV head's part of the page begins), warp, tokens [first, last],
    tensor (the cache read), role (k or v), request (byte offset of each lane's first load, None where it is idle), low,
    bytes. Of a softmax: tokens, m, l. Of a combination: m, l. Of a write: written."""

    logical: NotRequired[int]
    page: NotRequired[int]
    entry_offset: NotRequired[int]
    base: NotRequired[int]
    warp: NotRequired[int]
    tokens: NotRequired[list[int]]
    tensor: NotRequired[str]
    role: NotRequired[str]
    request: NotRequired[list[int | None]]
    low: NotRequired[int]
    bytes: NotRequired[int]
    m: NotRequired[Number]
    l: NotRequired[Number]
    written: NotRequired[bool]


class WalkMeta(TypedDict):
    """name, colour: of the sequence. table: its pages; length: its tokens; size: slots of a page; pages: of the pool;
    others: page -> slots filled by other sequences. kv_head, kv_heads, head: which are read, how many there are.
    page_bytes: of a page and KV head; item: bytes of an element; head_dim; x: elements of a piece of K. partitioned:
    the context is cut.

    Columns: scores, weights [length]; o [head_dim].
    """

    frames: list[WalkFrame]
    name: str
    colour: str
    table: list[int]
    length: int
    size: int
    pages: int
    others: dict[int, int]
    kv_head: int
    kv_heads: int
    page_bytes: int
    item: int
    head_dim: int
    x: int
    head: int
    partitioned: bool


# ---- partitions ----


class Lane(TypedDict):
    """What a block has done by the end of a step. phase: what it does, or done. first, end: its tokens; k, v: up to
    which token it has walked each; state: its m and l are known."""

    phase: str
    first: int
    end: int
    k: int
    v: int
    state: bool


class PartitionsFrame(Frame):
    """A step of both kernels. v1: the one block of the kernel that walks the whole context; v2: those of the one that
    cuts it. reduce: what the second launch does, None before it, or done. lines_v1, lines_v2: as Frame.lines, of each
    kernel."""

    v1: Lane
    v2: list[Lane]
    reduce: str | None
    lines_v1: Lines
    lines_v2: Lines


class Part(TypedDict):
    """A partition as logged: its tokens first to end, m, l, and weight, which is e^(m_i - m)."""

    partition: int
    first: int
    end: int
    m: float
    l: float
    weight: float


class PartitionsMeta(TypedDict):
    """length: tokens of the context. v1, v2: {"m", "l"} of the whole context by each kernel. name: of the sequence;
    head: the query head."""

    frames: list[PartitionsFrame]
    length: int
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    name: str
    head: int


# ---- bank conflicts and coalescing ----


class BankFrame(Frame):
    """access: its place in the meta's list. wavefront: which of it the step shows, from 0."""

    access: int
    wavefront: int


class BankAccess(TypedDict):
    """A warp's access of shared memory. file, line: of the probe. kind: in words. bytes: of a lane. active: lanes.
    cells: [lane, bank, wavefront, word, lanes that share the word, pass]. wavefronts = ideal + conflicts. parts: [first
    wavefront, end] of each pass."""

    file: str
    line: int
    kind: str
    bytes: int
    tensor: str
    active: int
    cells: list[list[int]]
    wavefronts: int
    ideal: int
    conflicts: int
    parts: list[list[int]]


class BanksMeta(TypedDict):
    frames: list[BankFrame]
    accesses: list[BankAccess]


class SectorRequest(TypedDict):
    """A warp's request of global memory. offsets: each lane's byte offset, -1 where it is idle. bytes: of a lane. kind:
    the probe's event. sectors, lines: how many it touches; used: distinct bytes asked for; active: lanes."""

    offsets: list[int]
    bytes: int
    tensor: str
    kind: str
    sectors: int
    lines: int
    used: int
    active: int


class SectorsMeta(TypedDict):
    """One frame for each request."""

    frames: list[Frame]
    requests: list[SectorRequest]


# ---- any kernel: the view `tensors` ----


class ShownTensor(TypedDict):
    """A tensor of global memory as a matrix: its last two axes, of a slice of the others. name: the tensor's. symbol:
    what the probes call it. rows, cols: of the matrix that is drawn, at most generic.MOST_SHOWN each; row0, col0: its
    first row and column; of_rows, of_cols: of the whole slice. row_axis, col_axis: what the axes are called; row_axis
    is empty for a tensor of one dimension. slice: which one, in words, empty if there is but one. dtype; role: input,
    output or scratch. shape, axes: of the whole tensor. whole: false where no values are kept.

    Column tensor_<its place in the list>: its values [rows, cols], after the run; empty where none are kept.
    """

    name: str
    symbol: str
    rows: int
    cols: int
    row0: int
    col0: int
    of_rows: int
    of_cols: int
    row_axis: str
    col_axis: str
    slice: str
    dtype: str
    role: str
    shape: list[int]
    axes: list[str]
    whole: bool


class ShownValue(TypedDict):
    """A logged value as a matrix by its keys: the last two, the others held at what was logged first; of one key a row;
    of none one cell. event: its name; keys: all of them, in order. rows, cols, row0, col0, row_key, col_key, slice: as
    those of ShownTensor. count: how often it was logged, over all keys; left_out: of these, how many lie outside the
    matrix. low, high: over all that are finite, or None.

    Columns value_<its place>_step, value_<its place>_cell and value_<its place>: what was logged, in order: in which
    frame, in which cell (row * cols + column, from the matrix' first), and the value. A cell shows the last value of
    the frames up to the clock's.
    """

    event: str
    keys: list[str]
    rows: int
    cols: int
    row0: int
    col0: int
    row_key: str
    col_key: str
    slice: str
    count: int
    left_out: int
    low: Number
    high: Number


class TouchedTensor(TypedDict):
    """What a step read (kind load) or wrote (kind store) of a tensor in global memory. tensor: its name. bytes: over
    all accesses. rect: the smallest rectangle of the drawn matrix that holds the elements, counted from the whole
    slice's row 0 and column 0; None where none of them is drawn. cells: [row, first column, last column] runs, if they
    do not fill the rectangle; None if they do, or are too many. elsewhere: elements that are not drawn: of other
    slices, or outside the part that is."""

    tensor: str
    kind: str
    bytes: int
    rect: Rect | None
    cells: list[list[int]] | None
    elsewhere: int


class Logged(TypedDict):
    """How often an event was logged in a step, and from where to where; low and high: None if none is finite."""

    event: str
    count: int
    low: Number
    high: Number


class TensorsFrame(Frame):
    """launch: 0 for the first. role: of the warps that took the step, empty where the kernel has none."""

    launch: int
    role: str
    touched: list[TouchedTensor]
    logged: list[Logged]


class TensorsMeta(TypedDict):
    """What the view `tensors` draws: every tensor, every value, every step."""

    tensors: list[ShownTensor]
    values: list[ShownValue]
    frames: list[TensorsFrame]


# ---- the palette ----


class Palette(TypedDict):
    """What palette.for_browser gives: colours by role; see palette.py."""

    tensors: dict[str, str]
    sign: dict[str, str]
    kernels: list[str]
    peers: list[str]
    sequences: list[str]
    wavefronts: dict[str, str]
    marks: dict[str, str]
    magnitude: list[str]
    wrong: str
    axis: str
