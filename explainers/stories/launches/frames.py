"""The frames of the story of launches, and the meta of the view `launches`."""

from typing import Literal, TypedDict

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

    entry: of a launch, else "".
    row: of its stream, or of the children of a stream's kernels.
    lane: its part of the row, 0 unless it starts before the end of an earlier one.
    start, end: ns.
    copy: whether it is a copy from host memory.
    bytes: of a copy, else 0.
    """

    name: str
    entry: str
    row: int
    lane: int
    start: float
    end: float
    copy: bool
    bytes: int


class Gap(TypedDict):
    """A time on a row before the start of a bar.

    start, end: ns. The end is the start of the later bar.
    since: the end of the earlier bar, or the start of a parent.
    before, after: the places of the earlier and the later bar.
    """

    row: int
    start: float
    end: float
    before: int
    after: int
    since: Literal["end", "start"]


class Panel(TypedDict):
    """One run.

    calls, host: the host's calls in words, and their ns.
    rows: the names of its rows.
    lanes: the parts of each row.
    idle, total: ns without any launch or copy, and of the whole run.
    """

    title: str
    calls: str
    host: float
    rows: list[str]
    lanes: list[int]
    bars: list[Bar]
    gaps: list[Gap]
    idle: float
    total: float


class LaunchMeta(TypedDict):
    """The fields of the view.

    purposes: the entry of a kernel -> its work in words.
    window: ns of the axis.
    lead: the host's calls against the start of the run.
    note: the source of the times, and the problem.
    label: measured or recorded, and the GPU.
    """

    panels: list[Panel]
    frames: list[LaunchFrame]
    purposes: dict[str, str]
    window: float
    lead: str
    note: str
    label: str
