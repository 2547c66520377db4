"""What goes to the browser: the shape of every frame and of every view's meta, field by field.

A frame is one step of a story. The clock counts frames; every view draws the frame of the clock's step. A meta is what
a view gets once, before any step. All of it is plain JSON (components.plain writes NaN and infinity as text); arrays go
beside it as columns of float32, row by row, and are named where the view's meta is described.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

Rect = list[int]  # [first row, last row, first column, last column] of elements, all inclusive
Lines = dict[
    str, int
]  # "FILE:LINE" of a line of code -> how many times the step ran it, over all threads that were traced
Number = float | int | str | None  # NaN and infinity are the texts nan, inf and -inf; None where nothing was logged


class Frame(TypedDict):
    """What the clock, the sentence and the code pane need of a step.

    tile: the number of the outer step, which Shift+Left and Shift+Right go by; -1 outside all tiles. title: a few words
    for the clock. phase: the mark that began the step, as the kernel names it. block: of the launch; the clock's outer
    step begins anew with it. marks: what of marks.MARKS the step is; none where it is nothing of it.
    """

    tile: int
    title: str
    sentence: str
    lines: NotRequired[Lines]
    phase: NotRequired[str]
    block: NotRequired[int]
    marks: NotRequired[list[str]]


# ---- tiling and compare: the view `matrices` ----


class Touched(TypedDict):
    """The elements that a step read (kind load) or wrote (kind store) in global memory, as the smallest rectangle that
    holds them."""

    tensor: str
    kind: str
    rect: Rect


class Held(TypedDict):
    """What of a tensor lies in the block's shared memory. rects: one of each tile that is there, none of those whose
    elements are not known. bytes: as stored."""

    rects: list[Rect]
    bytes: int


class Used(TypedDict):
    """The elements of a tensor in shared memory that a step reads there."""

    tensor: str
    rect: Rect


class TilingFrame(Frame):
    """touched: of the tensors that have a place in the picture. resident: tensor -> what is held in shared memory after
    the step. uses: what the step reads from shared memory. scores: the scores that it computes, or None. o:
    which of the columns `o` shows O after the step, or -1. bytes: "K load" -> bytes of global memory so far, of every
    tensor."""

    touched: list[Touched]
    resident: dict[str, Held]
    uses: list[Used]
    scores: Rect | None
    o: int
    bytes: dict[str, int]


class MatricesMeta(TypedDict):
    """n queries, and keys; d numbers of a query; row0 and rows: the traced query tile; head: counted over the batch.
    causal: query i sees no key beyond i + offset. traced: the tensors whose bytes are counted. places: tensor, as the
    frames name it -> its place in the picture and its colour: Q, K, V, S, P or O; a tensor that is not in it has none.
    blocks: [first row, last row, first column, last column, block] of each block's part of O.

    Columns: q [n, d], k, v [keys, d] of the head; s [rows, keys]; s_logged [rows, keys]: 1 where a score was logged; o
    [states, rows, d]; o_since [rows, d]: the first state that has the element; o_final [rows, d].
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


class AlignedFrame(Frame):
    """A common step of two kernels. phase: of the side that steps. title: it says which side steps alone. sentences: of
    each side; `sentence` is empty. lines_a, lines_b: the lines that each side ran; none where it waits."""

    sentences: list[str]
    lines_a: Lines
    lines_b: Lines


# ---- tensor cores: the view `fragments` ----


class ProductFrame(Frame):
    """One instruction that multiplies. c: S or O, which says what A and B are. at_tile: its place among the key tiles
    shown. rows, cols: of C; k: what is added up; each [first, end). a, b: the fetches that brought A and B, -1 where
    there is none. last: nothing more is added to this part of C in this tile. phase: c."""

    c: str
    at_tile: int
    rows: list[int]
    cols: list[int]
    k: list[int]
    a: int
    b: int
    last: bool


class FragmentsMeta(TypedDict):
    """instruction: mma.sync or wgmma. scale: what S is multiplied with to be the scores. sum_bits: of the numbers in
    which products are added up, 32 or 16. dtype: of A and B. matrices: name -> [first row,
    first column, rows, columns] as far as it is shown. fetches: place, wavefronts and ideal of each ldmatrix.
    bases: Q, K, V -> [first element of this head, elements from row to row, from dim to dim, bytes of one], in global
    memory. symbols: Q, K, V -> what the kernel calls it.

    Columns, of each matrix NAME: NAME_value, and those of NAME_lane, NAME_register, NAME_half, NAME_byte, NAME_fetch,
    NAME_by that it has (tensor_cores.Matrix), [rows, columns]; O_before, O_after [key tiles, rows, columns].
    """

    instruction: str
    scale: float
    sum_bits: int
    dtype: str
    matrices: dict[str, list[int]]
    fetches: list[dict[str, Any]]
    bases: dict[str, list[int]]
    symbols: dict[str, str]
    frames: list[ProductFrame]


# ---- precision: the view `rounding` ----


class RoundingFrame(Frame):
    """A stage of rounding.STAGES. part: by how much it moves O, so_far: O's error after it, both as root mean square.
    share: what it brings of the squared error in the end, by covariance. phase: the stage."""

    part: float
    so_far: float
    share: float


class RoundingRun(TypedDict):
    """A type's replay. label: the type. rows: [first, end) of those replayed. parts: by how much each stage moves O,
    error: O's in the end, as root mean square. chosen: it is the page's."""

    label: str
    kernel: str
    chosen: bool
    rows: list[int]
    parts: list[float]
    error: float


class RoundingMeta(TypedDict):
    """row0: the query tile's first row. block: keys of a key tile. at: S, P, l, O -> for each stage which of that
    column's matrices holds the errors so far. stages: their titles. absent: [type, why it is not beside].

    Columns: S, P [n, rows, keys], l [n, rows, tiles], O [n, rows, dims], errors so far as in rounding.Replay; NaN where
    there is nothing.
    """

    row0: int
    rows: int
    keys: int
    dims: int
    tiles: int
    block: int
    at: dict[str, list[int]]
    stages: list[str]
    runs: list[RoundingRun]
    absent: list[list[str]]
    frames: list[RoundingFrame]


# ---- pipelines: the view `pipeline` ----


class PipelineFrame(Frame):
    """A key tile of the first writer that computes. span: from when to when, in ns from the block's beginning on.
    copied: which writer turned to its copy, and when; and which one began with its scores, and when; or nothing."""

    span: list[float]
    copied: list[float]


class PipelineMeta(TypedDict):
    """rows: name, kernel and whether it shows what is in flight. events: name, title and kind (what colours it: Q, K,
    S, P, O, wait or other). mhz: cycles of a microsecond. row_of: writer -> its row, of the kernel whose steps it is.

    Columns, of every bar, row by row and by time: start, end (ns), row, event (their numbers), tile (-1: of none).
    """

    rows: list[dict[str, Any]]
    events: list[dict[str, str]]
    mhz: float
    frames: list[PipelineFrame]
    row_of: dict[int, int]


# ---- which thread touches what: the view `threads` ----


class Plane(TypedDict):
    """A matrix. row, col: what its rows and columns count: row (of queries), key, token, dim, head or partition."""

    name: str
    row: str
    col: str


class Moment(TypedDict):
    """A step of the trace. parts: [plane, kind, first, how many] of the rectangles in the columns. windows: axis -> the
    first and last index that is drawn."""

    launch: int
    block: int
    parts: list[list[int]]
    windows: dict[str, list[int]]


class ThreadsMeta(TypedDict):
    """launches: entry, grid, block, threads, the expressions of both, item, blocks of an item, first and number of the
    traced blocks, and rows: queries of an item, items of a head, queries of a head, None where items are no query
    tiles. kinds: what a thread does with an element. of_frame: each frame's moment. lines: sets of
    FILE:LINE. threads: of the largest block. left_out: sentences on what was too much to show.

    Columns: thread, row0, row1, col0, col1 of each rectangle; ran [moments, threads], which of `lines`, or -1.
    """

    launches: list[dict]
    planes: list[Plane]
    kinds: list[str]
    moments: list[Moment]
    of_frame: list[int]
    lines: list[list[str]]
    threads: int
    left_out: list[str]


# ---- why the query goes to shared memory: the view `reuse` ----


class ReuseMeta(TypedDict):
    """space: that Q's elements are read from, shared or global. row0, rows: of the query tile. tiles: numbers of the
    key tiles. steps: those that read Q; tile_of: the place in tiles of each. After each step: read: how many elements
    the lanes have read; fetched: bytes of Q loaded from global memory; said: both in a sentence. itemsize: of an
    element.

    Columns, [steps that read, rows]: least, most: how often the step reads an element of the row, the least and the
    most read one; so_far_least, so_far_most: the same of all steps up to it.
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


# ---- online softmax: the view `row` ----


class RowFrame(Frame):
    """A step of one row. moment: the step of the trace. group: scores, max, rescale, weights, sum, output or final. m,
    l: after the step; m_before: the m before this one; None before the first. rescale: the factor of this step, or
    None. keys, weighed: how many keys have a score, a weight. o: which of the columns `o` shows O's row, or -1. m_true,
    l_true: float64 after the same keys. wrong: the step is off by more than rounding."""

    moment: int
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
    """row: its number. ordinary: the kernel has one m and l for the whole row, no running ones. m_name: what its m is
    called. tile_of: each key's
    tile; block_kv: keys of a tile. error: the row's largest. In float64, which a column is not: total: m and l of the
    whole row; scores_true: of each key; o_true: of each dim.

    Columns: scores, weights [keys]; o [states, d].
    """

    frames: list[RowFrame]
    row: int
    ordinary: bool
    m_name: str
    tile_of: list[int]
    block_kv: int
    error: Number
    total: dict[str, float]
    scores_true: list[float]
    o_true: list[float]


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


class HeldPages(TypedDict):
    """What a KV cache holds. pages: of those that are held. free: the free list, the next to be taken first. counts:
    page -> sequences that hold it."""

    sequences: list[PoolSequence]
    pages: dict[int, PoolPage]
    free: tuple[int, ...]
    counts: dict[int, int]


class PoolFrame(Frame, HeldPages):
    """The KV cache after an event. event: as it is written, empty before the first. new: slots written by the event.
    copied: (from, to), or None. released: pages freed by it. usage: slots used, held, of slack, reserved contiguously,
    empty, and tokens stored twice; waste: these in a sentence."""

    event: str
    new: list[int]
    copied: tuple[int, int] | None
    released: tuple[int, ...]
    usage: dict[str, int]
    waste: str


class PoolMeta(TypedDict):
    """size: slots of a page. max_len: slots reserved contiguously. page_bytes: of a page and KV head, 0 where no kernel
    can run."""

    frames: list[PoolFrame]
    size: int
    max_len: int
    page_bytes: int
    kv_heads: int


class ServedVisit(TypedDict):
    """A request that is served, by the scheduler's steps. arrives; start: it is admitted; end: it writes its last
    token; gone: it is freed, None if it stays. prompt, answer: tokens; shared: those of its parent that it begins with.
    """

    name: str
    colour: str
    arrives: int
    start: int
    end: int
    gone: int | None
    prompt: int
    answer: int
    shared: int
    parent: str


class ServingFrame(Frame, HeldPages):
    """The KV cache after a step of the scheduler; the first is before all steps. new: slots written; copied: (from, to)
    pages; released: pages freed; usage, waste: as of a PoolFrame. waiting: who has come and is not admitted."""

    new: list[int]
    copied: list[tuple[int, int]]
    released: list[int]
    usage: dict[str, int]
    waste: str
    waiting: tuple[str, ...]


class ServingMeta(TypedDict):
    """size: slots of a page. max_len: slots reserved contiguously. slot_bytes: K and V of a token, of all KV heads."""

    frames: list[ServingFrame]
    visits: list[ServedVisit]
    size: int
    max_len: int
    slot_bytes: int


class WalkFrame(Frame):
    """A step of a walk through a block table. Of a page: logical (the entry), page, entry_offset (byte in the block
    tables), base (the byte of the cache at which the KV head's part of the page begins), warp, tokens [first, last],
    tensor (the cache read), role (k or v), request (byte offset of each lane's first load, None where it is idle), low,
    bytes. Of a softmax: tokens, m, l. Of a combination: m, l. Of a write: written. read: bytes that the step reads from
    global memory."""

    read: int
    moment: int  # the step of the trace

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


# ---- ranges ----


class RangesFrame(Frame):
    """A step of decoding over a work list. read: bytes that the step reads from global memory. unit: which of
    RangesMeta.units, or -1. Of a page that is brought: page, entry, bytes. Of a tile: tokens [first, last], warp, and
    the warp's m and l after it; of a unit's result and of the merge: m, l. written: O is; merged: partial results
    are."""

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
    """Tokens first to end by one warp, and its m and l after them. since: the step after which they are there."""

    first: int
    end: int
    warp: int
    m: float
    l: float
    since: int


class RangesUnit(TypedDict):
    """A piece of the followed sequence. list: the launch whose work list it is of; number: its row there. entries,
    tokens: [first, end). pages: {entry, page, stage, slot, since} as they are brought. since: the step after which
    something is there. m, l: of the unit; weight: e^(m_i - m), where there is a merge."""

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
    """A work list end to end. shared: of prefixes. cells: [sequence, entry, page] each; units: [number, range, first
    cell, cells] each; sharers: whose pages each unit has."""

    shared: bool
    ranges: int
    cells: list[list[int]]
    units: list[list[int]]
    sharers: dict[int, list[int]]


class RangesMeta(TypedDict):
    """names, colours: of the sequences. sequence, head, kv_head: which are followed; length: tokens; size: slots of a
    page. units: of the sequence. stages, stage_pages: of the ring in shared memory; warps: that multiply. merged: m and
    l of the sequence.

    Columns: scores [length], NaN where there is none; o [head_dim]; errors [length], how far a score is off, of a cache
    of 8 bits alone.
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
    """A step of both kernels. sentences: of each. v1: the one block of the kernel that walks the whole context; v2:
    those of the one that cuts it. reduce: what the second launch does, None before it, or done. lines_v1, lines_v2: as
    Frame.lines, of each kernel."""

    sentences: list[str]
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


# ---- heads: the view `heads` ----


class HeadsFrame(Frame):
    """What one query head reads."""

    head: int


class HeadsPanel(TypedDict):
    """A ratio of heads. links: [query head, KV head] as logged; held: bytes of K and V that tokens fill."""

    title: str
    kv_heads: int
    links: list[tuple[int, int]]
    held: int


class HeadsMeta(TypedDict):
    frames: list[HeadsFrame]
    num_heads: int
    panels: list[HeadsPanel]


# ---- who reads a page: the view `page_reads` ----


class PageReadsFrame(Frame):
    """A kernel at a ratio of heads. row: its place in the list of rows."""

    row: int


class PageReadsRow(TypedDict):
    """What a kernel reads of each page at a ratio of heads. colour: the kernel's. readers: who reads, by name. asked,
    distinct: bytes of K and V, by page; least, most: how often a byte of the page is read."""

    kernel: str
    heads: str
    colour: str
    readers: list[str]
    asked: list[int]
    distinct: list[int]
    least: list[int]
    most: list[int]


class PageReadsMeta(TypedDict):
    """holders, colours: of each page, the sequences that hold it and their colours. absent: which kernels are not
    there, and why.

    Columns, row by row and in each row reader by reader, an entry for each page: asked, distinct (bytes, of this
    reader), blocks (thread blocks of the reader that read there).
    """

    frames: list[PageReadsFrame]
    rows: list[PageReadsRow]
    holders: Sequence[Sequence[str]]
    colours: Sequence[Sequence[str]]
    absent: Sequence[str]


# ---- bank conflicts and coalescing ----


class BankFrame(Frame):
    """access: its place in the list of each side's accesses. wavefront: which of it the step shows, from 0; a side that
    takes fewer is done."""

    access: int
    wavefront: int


class BankAccess(TypedDict):
    """A warp's access of shared memory. file, line: of the probe. kind: in words. bytes: of a lane. active: lanes.
    cells: [lane, bank, wavefront, word, lanes that share the word, pass]. wavefronts = ideal + conflicts. parts: [first
    wavefront, end] of each pass. number: its place among the warp's accesses of the probe, from 0. alike: how many of
    these want the same of the banks, up to which banks they are, itself among them."""

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
    number: int
    alike: int


class BankSide(TypedDict):
    """The same accesses in one build. name: its constants, as PAD 1; empty if there is one side. words: of the memory
    that the accesses' tensor takes, in words of 4 bytes. free: [first, end] runs of its words that no lane ever
    touches."""

    name: str
    accesses: list[BankAccess]
    words: int
    free: list[list[int]]


class BanksMeta(TypedDict):
    """What the views `banks` and `tile_memory` draw beside the stage's frames: one side, or the plain one and the one
    that is padded or swizzled."""

    sides: list[BankSide]


class SectorRequest(TypedDict):
    """A warp's request of global memory. offsets: each lane's byte offset, -1 where it is idle. bytes: of a lane. kind:
    the probe's event. sectors, lines: how many it touches; used: distinct bytes asked for; active: lanes. number: its
    place among the warp's requests of the probe, from 0. alike: how many of these touch the same bytes of their lines,
    itself among them."""

    offsets: list[int]
    bytes: int
    tensor: str
    kind: str
    sectors: int
    lines: int
    used: int
    active: int
    number: int
    alike: int


class SectorSide(TypedDict):
    """The requests of one layout: one for each of the stage's frames. name: of the layout; empty if there is one."""

    name: str
    requests: list[SectorRequest]


class SectorsMeta(TypedDict):
    """What the view `sectors` draws beside the stage's frames. chosen: the name of the side that is marked."""

    sides: list[SectorSide]
    chosen: NotRequired[str]


# ---- the whole grid: the view `grid`; occupancy: the view `multiprocessor` ----


class GridFrame(Frame):
    """A moment at which blocks begin or end. at: on the axis of time. launch: which one's blocks are shown as cells."""

    at: float
    launch: int


class GridLaunch(TypedDict):
    """A launch's items as cells. rows, cols: of them; row_name: what a row is; item: what a cell is, nothing where it
    is a block. per_item: blocks of a cell, side by side. blocks: all of them; threads: of a block."""

    entry: str
    item: str
    blocks: int
    rows: int
    cols: int
    row_name: str
    per_item: int
    threads: int


class GridMeta(TypedDict):
    """multiprocessors: that had a block; all: of the GPU. unit: of time, µs or turn; end: of the last block. said:
    where it is from. traced: the item that the other pictures show, or -1. recorded: a problem and a build of which the
    times of all blocks are recorded, in words and as a link's choices, where this one's are not.

    Columns, an entry for each block: launch, block, sm, start, end, low, high (its stretch of the lane), first (the
    step in which it begins), last (in which it has ended).
    """

    launches: list[GridLaunch]
    multiprocessors: int
    all: int
    unit: str
    end: float
    said: str
    gpu: str
    traced: int
    recorded: NotRequired[dict[str, Any]]


class ResourceFrame(Frame):
    """launch: whose blocks fill the multiprocessor. shown: how many of its resources have been counted; all of them,
    and once more: what they leave together."""

    launch: int
    shown: int


class Resource(TypedDict):
    """Of a launch: what one block takes of a resource and how much there is, in `unit`; blocks: that it allows. limit:
    whether none allows fewer."""

    name: str
    each: int
    of: int
    unit: str
    blocks: int
    limit: bool


class ResourceLaunch(TypedDict):
    """warps: of a block; blocks: that fit at once."""

    entry: str
    warps: int
    blocks: int
    resources: list[Resource]


class MultiprocessorMeta(TypedDict):
    """What the view `multiprocessor` draws beside the stage's frames."""

    gpu: str
    launches: list[ResourceLaunch]


# ---- source: the view `source` ----


class MachineLines(TypedDict):
    """Lines of PTX or SASS, an entry for each in every list. source: "FILE:LINE" of ours, or nothing. entry: the
    kernel. labels: that stand before it; target: the label that it branches to. address: in bytes; live: registers."""

    text: list[str]
    source: list[str]
    entry: list[str]
    labels: list[list[str]]
    target: list[str]
    address: list[int]
    live: list[int]


class SourceMeta(TypedDict):
    """files: the .cu and those of its headers that have instructions (stage.File). held: the places, "FILE:LINE", that
    have. registers: kernel -> of a thread; most_live: kernel -> the most that are live at once."""

    files: list[Any]
    held: list[str]
    ptx: MachineLines
    sass: MachineLines
    registers: dict[str, int]
    most_live: dict[str, int]


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
    """How often an event was logged in a step, and from where to where; low and high: None if none is finite. nan, inf:
    how many are NaN, or infinite."""

    event: str
    count: int
    low: Number
    high: Number
    nan: int
    inf: int


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


# ---- sparsity: the view `sparsity` ----


class SparsityFrame(Frame):
    """An entry of a query block's list, or what stands before and after them (entry -1). column: of the block; kind:
    partial or full. seen: its keys that the row sees. m_before, l_before, m, l: of the row, as logged. rescale,
    tile_max: of the block, None where not logged. loaded: bytes of K and V so far."""

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
    """A mask that is drawn by hand: rows by columns of blocks of block x block elements; drawn: for each row the
    columns that are seen."""

    block: int
    rows: int
    columns: int
    drawn: list[list[int]]


class SparsityMeta(TypedDict):
    """The mask of a head, counted over the batch, in blocks of block_q queries and block_kv keys. tile: the query block
    that is walked; row: of the head, whose scores are shown. entries: [column, kind] in the order of the walk.
    row_bytes: of K and V of a key. elements: whether the column `seen` is there. drawing: None unless the mask is drawn
    by hand.

    Columns: kinds [query blocks, key blocks]: 0 skipped, 1 partial, 2 full; scores [keys] of the row; seen [queries,
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
    phases: dict[str, str]
    wrong: str
    axis: str
