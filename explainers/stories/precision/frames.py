"""The frames of the stages of rounding, and the meta of the view `rounding`."""

from typing import TypedDict

from explainers.story.frames import Frame


class RoundingFrame(Frame):
    """A stage of rounding.STAGES.

    part: its change of O, as root mean square.
    so_far: O's error after it, as root mean square.
    share: its share of the final squared error, by covariance.
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
    at: S, P, l, O -> for each stage, the matrix of that column with its errors.
    stages: their titles.
    absent: [type, the reason of its absence].

    Columns: S, P [n, rows, keys], l [n, rows, tiles], O [n, rows, dims], errors so far as in replay.Replay, NaN
        without a value.
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
