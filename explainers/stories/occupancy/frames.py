"""The frames and metas of the views `grid` and `multiprocessor`."""

from typing import NotRequired, TypedDict

from explainers.story.frames import Frame


class GridFrame(Frame):
    """A moment with the start or end of blocks.

    at: on the axis of time.
    launch: the launch with cells in the picture.
    """

    at: float
    launch: int


class GridLaunch(TypedDict):
    """A launch's items as cells.

    rows, cols: the number of rows and columns.
    row_name: the kind of a row, for example sequence.
    row_names: the name of each row, its number without one.
    item: the name of a cell, empty if a cell is a block.
    per_item: blocks of a cell, side by side.
    blocks: all blocks.
    threads: of a block.
    """

    entry: str
    item: str
    blocks: int
    rows: int
    cols: int
    row_name: str
    row_names: list[str]
    per_item: int
    threads: int


class GridMeta(TypedDict):
    """The fields of the view.

    multiprocessors: SMs with a block.
    all: SMs of the GPU.
    unit: of time, µs or turn.
    end: of the last block.
    said: the source of the times.
    traced: the item of the other pictures, or -1.
    recorded: a problem and a build with recorded times, in words and as a link's choices, if this run has none.

    Columns, an entry for each block: launch, block, sm, start, end, low, high (its part of the lane), first, last
        (the steps of its start and end).
    """

    launches: list[GridLaunch]
    multiprocessors: int
    all: int
    unit: str
    end: float
    said: str
    gpu: str
    traced: int
    recorded: NotRequired[dict[str, object]]


class ResourceFrame(Frame):
    """One step.

    launch: the launch of the SM's blocks.
    shown: the number of counted resources. One step more shows the common limit.
    """

    launch: int
    shown: int


class Resource(TypedDict):
    """A resource of a launch: the amount for one block and the whole amount, in `unit`.

    blocks: the number of blocks within this resource.
    limit: whether this resource allows the fewest blocks.
    """

    name: str
    each: int
    of: int
    unit: str
    blocks: int
    limit: bool


class ResourceLaunch(TypedDict):
    """A launch.

    what_if: the difference from the present build, empty for none.
    warps: of a block.
    blocks: on an SM at once.
    """

    entry: str
    what_if: str
    warps: int
    blocks: int
    resources: list[Resource]


class MultiprocessorMeta(TypedDict):
    """The fields of the view `multiprocessor`, apart from the stage's frames."""

    gpu: str
    launches: list[ResourceLaunch]
