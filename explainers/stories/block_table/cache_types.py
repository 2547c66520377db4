"""The frames and metas of the views `pool` and `serving`."""

from typing import TypedDict

from explainers.story.frames import Frame


class PoolSequence(TypedDict):
    name: str
    length: int
    table: tuple[int, ...]
    colour: str


class PoolPage(TypedDict):
    """A page of the pool.

    fill: slots with a token.
    owners: the places of its sequences in the frame's list.
    entry: its place in their tables.
    """

    fill: int
    owners: list[int]
    entry: int


class HeldPages(TypedDict):
    """The content of a KV cache.

    pages: the pages in use.
    free: the free list. The first page is the next in use.
    counts: page -> its number of sequences.
    """

    sequences: list[PoolSequence]
    pages: dict[int, PoolPage]
    free: tuple[int, ...]
    counts: dict[int, int]


class PoolFrame(Frame, HeldPages):
    """The KV cache after an event.

    event: as it is written, empty before the first.
    new: slots written by the event.
    copied: (from, to), or None.
    released: pages freed by it.
    usage: slots used, held, of slack, reserved contiguously, empty, and tokens stored twice.
    waste: these in a sentence.
    """

    event: str
    new: list[int]
    copied: tuple[int, int] | None
    released: tuple[int, ...]
    usage: dict[str, int]
    waste: str


class PoolMeta(TypedDict):
    """The fields of the view.

    size: slots of a page.
    max_len: slots of a contiguous reservation.
    page_bytes: of a page and KV head, 0 without a kernel.
    """

    frames: list[PoolFrame]
    size: int
    max_len: int
    page_bytes: int
    kv_heads: int


class ServedVisit(TypedDict):
    """A served request, in steps of the scheduler.

    arrives, start, end, gone: its arrival, its admission, its last token and the free of its pages (None if it
        stays).
    prompt, answer: tokens.
    shared: tokens that it takes over from its parent.
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
    """The KV cache after a step of the scheduler. The first frame is before all steps.

    new: slots written.
    copied: (from, to) pages.
    released: pages freed.
    usage, waste: see PoolFrame.
    waiting: the requests before admission.
    """

    new: list[int]
    copied: list[tuple[int, int]]
    released: list[int]
    usage: dict[str, int]
    waste: str
    waiting: tuple[str, ...]


class ServingMeta(TypedDict):
    """The fields of the view.

    size: slots of a page.
    max_len: slots of a contiguous reservation.
    slot_bytes: K and V of a token, of all KV heads.
    """

    frames: list[ServingFrame]
    visits: list[ServedVisit]
    size: int
    max_len: int
    slot_bytes: int
