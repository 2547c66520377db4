"""The frames of the story of launches, and the meta of the view `launches`."""

from typing import TypedDict

from explainers.story.frames import Frame


class LaunchFrame(Frame):
    """The start of a launch or a copy.

    panel, bar: of the picture. The last frame has no bar: -1.
    at: ns of the start, from the first start of its run.
    """

    panel: int
    bar: int
    at: float


class Bar(TypedDict):
    """A launch or a copy.

    row: of its stream.
    lane: its part of the row, 0 unless it starts before the end of an earlier one.
    start, end: ns.
    copy: whether it is a copy from host memory.
    bytes: of a copy, else 0.
    """

    name: str
    row: int
    lane: int
    start: float
    end: float
    copy: bool
    bytes: int


class Gap(TypedDict):
    """The time between two neighbours of a row. before: the place of the earlier bar."""

    row: int
    start: float
    end: float
    before: int


class Calls(TypedDict):
    """The host's calls of a run: their length in ns, and in words. Their place on the time line is unknown."""

    ns: float
    said: str


class Panel(TypedDict):
    """One run. rows: the names of its streams. lanes: the parts of each row."""

    title: str
    host: Calls
    rows: list[str]
    lanes: list[int]
    bars: list[Bar]
    gaps: list[Gap]
    total: float


class LaunchMeta(TypedDict):
    """The fields of the view. window: ns of the axis. label: measured or recorded, and the GPU."""

    panels: list[Panel]
    frames: list[LaunchFrame]
    window: float
    label: str
