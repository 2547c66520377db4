"""The frames and metas of the views `grid` and `multiprocessor`."""

from typing import Any, NotRequired, TypedDict

from explainers.story.frames import Frame


class GridFrame(Frame):
    """A moment at which blocks begin or end.

    at: on the axis of time.
    launch: which one's blocks are shown as cells.
    """

    at: float
    launch: int


class GridLaunch(TypedDict):
    """A launch's items as cells.

    rows, cols: of them.
    row_name: what a row is.
    item: what a cell is, nothing where it is a block.
    per_item: blocks of a cell, side by side.
    blocks: all of them.
    threads: of a block.
    """

    entry: str
    item: str
    blocks: int
    rows: int
    cols: int
    row_name: str
    per_item: int
    threads: int


class GridMeta(TypedDict):
    """The fields that the view draws.

    multiprocessors: that had a block.
    all: of the GPU.
    unit: of time, µs or turn.
    end: of the last block.
    said: where it is from.
    traced: the item that the other pictures show, or -1.
    recorded: a problem and a build of which the times of all blocks are recorded, in words and as a link's
        choices, where this one's are not.

    Columns, an entry for each block: launch, block, sm, start, end, low, high (its stretch of the lane), first
    (the step in which it begins), last (in which it has ended).
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
    """One step.

    launch: whose blocks fill the multiprocessor.
    shown: how many of its resources have been counted; all of them, and once more: what they leave together.
    """

    launch: int
    shown: int


class Resource(TypedDict):
    """Of a launch: what one block takes of a resource and how much there is, in `unit`.

    blocks: that it allows.
    limit: whether none allows fewer.
    """

    name: str
    each: int
    of: int
    unit: str
    blocks: int
    limit: bool


class ResourceLaunch(TypedDict):
    """One entry.

    warps: of a block.
    blocks: that fit at once.
    """

    entry: str
    warps: int
    blocks: int
    resources: list[Resource]


class MultiprocessorMeta(TypedDict):
    """What the view `multiprocessor` draws beside the stage's frames."""

    gpu: str
    launches: list[ResourceLaunch]
