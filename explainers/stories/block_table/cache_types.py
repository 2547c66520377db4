"""The frames and metas of the views `pool` and `serving`."""

from typing import TypedDict

from explainers.story.frames import Frame


class PoolSequence(TypedDict):
    name: str
    length: int
    table: tuple[int, ...]
    colour: str


class PoolPage(TypedDict):
    """One entry.

    fill: slots that hold a token.
    owners: the places of its sequences in the frame's list.
    entry: its place in their tables.
    """

    fill: int
    owners: list[int]
    entry: int


class HeldPages(TypedDict):
    """What a KV cache holds.

    pages: of those that are held.
    free: the free list, the next to be taken first.
    counts: page -> sequences that hold it.
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
    """The fields that the view draws.

    size: slots of a page.
    max_len: slots reserved contiguously.
    page_bytes: of a page and KV head, 0 where no kernel can run.
    """

    frames: list[PoolFrame]
    size: int
    max_len: int
    page_bytes: int
    kv_heads: int


class ServedVisit(TypedDict):
    """A request that is served, by the scheduler's steps. arrives.

    start: it is admitted.
    end: it writes its last token.
    gone: it is freed, None if it stays.
    prompt, answer: tokens.
    shared: those of its parent that it begins with.
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
    """The KV cache after a step of the scheduler; the first is before all steps.

    new: slots written.
    copied: (from, to) pages.
    released: pages freed.
    usage, waste: as of a PoolFrame.
    waiting: who has come and is not admitted.
    """

    new: list[int]
    copied: list[tuple[int, int]]
    released: list[int]
    usage: dict[str, int]
    waste: str
    waiting: tuple[str, ...]


class ServingMeta(TypedDict):
    """The fields that the view draws.

    size: slots of a page.
    max_len: slots reserved contiguously.
    slot_bytes: K and V of a token, of all KV heads.
    """

    frames: list[ServingFrame]
    visits: list[ServedVisit]
    size: int
    max_len: int
    slot_bytes: int
