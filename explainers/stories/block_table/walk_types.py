"""The frames and metas of the views `walk`, `partitions`, `heads` and `page_reads`."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from explainers.story.frames import Frame, Lines, Number


class WalkFrame(Frame):
    """A step of a walk through a block table.

    logical, page: the entry of the block table and its page.
    entry_offset: the byte of the entry in the block tables.
    base: the first byte of the page's part of the KV head.
    warp, tokens: the warp, and the first and last token.
    tensor, role: the cache, and k or v.
    request, low, bytes: byte offset of each lane's first load (None for an idle lane), the lowest byte, and all
        bytes.
    m, l: of a softmax or a combination.
    written: the step writes O.
    read: the step's bytes from global memory.
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
    """The fields of the view.

    name, colour: of the sequence.
    table: its pages.
    length: its tokens.
    size: slots of a page.
    pages: of the pool.
    others: page -> slots with tokens of other sequences.
    head, kv_head, kv_heads: the query head, its KV head, and the number of KV heads.
    page_bytes: of a page and KV head.
    item: bytes of an element.
    x: elements of a piece of K.
    partitioned: the kernel cuts the context.

    Columns: scores, weights [length], o [head_dim].
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
    """The progress of a block at the end of a step.

    phase: the current phase, or done.
    first, end: its tokens.
    k, v: the tokens of K and V so far.
    state: whether its m and l are there.
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
    v1: the one block of the kernel without partitions.
    v2: the blocks of the kernel with partitions.
    reduce: the phase of the second launch, None before it, or done.
    lines_v1, lines_v2: Frame.lines of each kernel.
    """

    sentences: list[str]
    v1: Lane
    v2: list[Lane]
    reduce: str | None
    lines_v1: Lines
    lines_v2: Lines


class Part(TypedDict):
    """A logged partition: tokens first to end, m, l, and weight e^(m_i - m)."""

    partition: int
    first: int
    end: int
    m: float
    l: float
    weight: float


class PartitionsMeta(TypedDict):
    """The fields of the view.

    length: tokens of the context.
    v1, v2: {"m", "l"} of the whole context by each kernel.
    name: of the sequence.
    head: the query head.
    multiprocessors: SMs of the GPU.
    """

    frames: list[PartitionsFrame]
    length: int
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    name: str
    head: int
    multiprocessors: int


class HeadsFrame(Frame):
    """The reads of one query head."""

    head: int


class HeadsPanel(TypedDict):
    """A ratio of heads.

    links: [query head, KV head] as logged.
    held: bytes of K and V with tokens.
    """

    title: str
    kv_heads: int
    links: list[tuple[int, int]]
    held: int


class HeadsMeta(TypedDict):
    """The fields of the view.

    types: a type's name -> its bytes, for the calculator below the picture.
    """

    frames: list[HeadsFrame]
    num_heads: int
    types: dict[str, int]
    panels: list[HeadsPanel]


class PageReadsFrame(Frame):
    """A kernel at a ratio of heads.

    row: its place in the list of rows.
    """

    row: int


class PageReadsRow(TypedDict):
    """The reads of each page by a kernel at a ratio of heads.

    colour: the kernel's.
    readers: names of the readers.
    asked, distinct: bytes of K and V, by page.
    least, most: reads of a byte of the page.
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
    """The fields of the view.

    holders, colours: of each page, its sequences and their colours.
    absent: kernels without counts, with the reason.

    Columns, row by row, reader by reader, with an entry for each page: asked, distinct (bytes of this reader), blocks
        (thread blocks of this reader).
    """

    frames: list[PageReadsFrame]
    rows: list[PageReadsRow]
    holders: Sequence[Sequence[str]]
    colours: Sequence[Sequence[str]]
    absent: Sequence[str]
