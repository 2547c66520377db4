"""The frames of the stages of rounding, and the meta of the view `rounding`."""

from typing import TypedDict

from explainers.story.frames import Frame


class RoundingFrame(Frame):
    """A stage of rounding.STAGES.

    part: by how much it moves O, so_far: O's error after it, both as root mean square.
    share: what it brings of the squared error in the end, by covariance. phase: the stage.
    """

    part: float
    so_far: float
    share: float


class RoundingRun(TypedDict):
    """A type's replay.

    label: the type.
    rows: [first, end) of those replayed.
    parts: by how much each stage moves O, error: O's in the end, as root mean square.
    chosen: it is the page's.
    """

    label: str
    kernel: str
    chosen: bool
    rows: list[int]
    parts: list[float]
    error: float


class RoundingMeta(TypedDict):
    """The fields of the view.

    row0: the query tile's first row.
    block: keys of a key tile.
    at: S, P, l, O -> for each stage which of that column's matrices holds the errors so far.
    stages: their titles.
    absent: [type, why it is not beside].

    Columns: S, P [n, rows, keys], l [n, rows, tiles], O [n, rows, dims], errors so far as in rounding.Replay; NaN
    where there is nothing.
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
