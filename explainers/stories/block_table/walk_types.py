"""The frames and metas of the views `walk`, `partitions`, `heads` and `page_reads`."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from explainers.story.frames import Frame, Lines, Number


class WalkFrame(Frame):
    """A step of a walk through a block table. Of a page: logical (the entry), page, entry_offset (byte in the
    block tables), base (the byte of the cache at which the KV head's part of the page begins), warp, tokens
    [first, last], tensor (the cache read), role (k or v), request (byte offset of each lane's first load, None
    where it is idle), low, bytes. Of a softmax: tokens, m, l. Of a combination: m, l. Of a write: written.

    read: bytes that the step reads from global memory.
    """

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
    """The fields that the view draws.

    name, colour: of the sequence.
    table: its pages.
    length: its tokens.
    size: slots of a page.
    pages: of the pool.
    others: page -> slots filled by other sequences.
    kv_head, kv_heads, head: which are read, how many there are.
    page_bytes: of a page and KV head.
    item: bytes of an element; head_dim.
    x: elements of a piece of K.
    partitioned: the context is cut.

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


class Lane(TypedDict):
    """What a block has done by the end of a step.

    phase: what it does, or done.
    first, end: its tokens.
    k, v: up to which token it has walked each.
    state: its m and l are known.
    """

    phase: str
    first: int
    end: int
    k: int
    v: int
    state: bool


class PartitionsFrame(Frame):
    """A step of both kernels.

    sentences: of each.
    v1: the one block of the kernel that walks the whole context.
    v2: those of the one that cuts it.
    reduce: what the second launch does, None before it, or done.
    lines_v1, lines_v2: as Frame.lines, of each kernel.
    """

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
    """The fields that the view draws.

    length: tokens of the context.
    v1, v2: {"m", "l"} of the whole context by each kernel.
    name: of the sequence.
    head: the query head.
    """

    frames: list[PartitionsFrame]
    length: int
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    name: str
    head: int


class HeadsFrame(Frame):
    """What one query head reads."""

    head: int


class HeadsPanel(TypedDict):
    """A ratio of heads.

    links: [query head, KV head] as logged.
    held: bytes of K and V that tokens fill.
    """

    title: str
    kv_heads: int
    links: list[tuple[int, int]]
    held: int


class HeadsMeta(TypedDict):
    frames: list[HeadsFrame]
    num_heads: int
    panels: list[HeadsPanel]


class PageReadsFrame(Frame):
    """A kernel at a ratio of heads.

    row: its place in the list of rows.
    """

    row: int


class PageReadsRow(TypedDict):
    """What a kernel reads of each page at a ratio of heads.

    colour: the kernel's.
    readers: who reads, by name.
    asked, distinct: bytes of K and V, by page.
    least, most: how often a byte of the page is read.
    """

    kernel: str
    heads: str
    colour: str
    readers: list[str]
    asked: list[int]
    distinct: list[int]
    least: list[int]
    most: list[int]


class PageReadsMeta(TypedDict):
    """The fields that the view draws.

    holders, colours: of each page, the sequences that hold it and their colours.
    absent: which kernels are not there, and why.

    Columns, row by row and in each row reader by reader, an entry for each page: asked, distinct (bytes, of this
    reader), blocks (thread blocks of the reader that read there).
    """

    frames: list[PageReadsFrame]
    rows: list[PageReadsRow]
    holders: Sequence[Sequence[str]]
    colours: Sequence[Sequence[str]]
    absent: Sequence[str]
