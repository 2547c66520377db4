"""The frames of the pipeline story, and the meta of the view `pipeline`."""

from typing import Any, TypedDict

from explainers.story.frames import Frame


class PipelineFrame(Frame):
    """A key tile of the first writer that computes.

    span: from when to when, in ns from the block's beginning on.
    copied: which writer turned to its copy, and when; and which one began with its scores, and when; or nothing.
    """

    span: list[float]
    copied: list[float]


class PipelineMeta(TypedDict):
    """The fields of the view.

    rows: name, kernel and whether it shows what is in flight.
    events: name, title and kind (what colours it: Q, K, S, P, O, wait or other).
    mhz: cycles of a microsecond.
    row_of: writer -> its row, of the kernel whose steps it is.

    Columns, of every bar, row by row and by time: start, end (ns), row, event (their numbers), tile (-1: of
    none).
    """

    rows: list[dict[str, Any]]
    events: list[dict[str, str]]
    mhz: float
    frames: list[PipelineFrame]
    row_of: dict[int, int]
