"""The frames of the pipeline story, and the meta of the view `pipeline`."""

from typing import TypedDict

from explainers.story.frames import Frame


class PipelineFrame(Frame):
    """A tile of the first computing writer.

    span: start and end, in ns from the start of the block.
    copied: the writer of its copy and the time of that copy, then the writer of its scores and their time. Empty
        without a copy.
    """

    span: list[float]
    copied: list[float]


class PipelineMeta(TypedDict):
    """The fields of the view.

    rows: name, kernel, whether the row shows products in flight, and its writer.
    events: name, title, short (shorter titles) and kind (a colour: Q, K, S, P, O, wait or other).
    mhz: cycles of a microsecond.
    row_of: writer -> its row, for the kernel of the steps.
    tile: the noun of a tile, such as key tile.
    legend: kind -> its meaning.

    Columns, an entry for each bar, by row and time: start, end (ns), row, event (their numbers), tile (-1 for none).
    """

    rows: list[dict[str, object]]
    events: list[dict[str, object]]
    mhz: float
    frames: list[PipelineFrame]
    row_of: dict[int, int]
    tile: str
    legend: dict[str, str]
