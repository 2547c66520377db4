"""The frames of the story of launches, and the meta of the view `launches`."""

from typing import Literal, TypedDict

from explainers.story.frames import Frame


class LaunchFrame(Frame):
    """The start of a launch or a copy.

    scene: the place of the picture that shows it.
    panel, bar: of all panels. The last frame has no bar: -1.
    at: ns of the start, from the start of its run.
    """

    scene: int
    panel: int
    bar: int
    at: float


class Bar(TypedDict):
    """A launch, a copy, or a call of the host.

    entry: of a launch, else "".
    row: of the host, of its stream, or of the children of a stream's kernels.
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
    late: ns of the end of the later kernel's call, if it ends after the earlier kernel. Else 0.
    before, after: the places of the earlier and the later bar.
    """

    row: int
    start: float
    end: float
    before: int
    after: int
    since: Literal["end", "start"]
    late: float


class Panel(TypedDict):
    """One run.

    scene: the place of its picture.
    said: its time in words, which a question may hide.
    rows: the names of its rows.
    lanes: the parts of each row.
    """

    scene: int
    title: str
    said: str
    rows: list[str]
    lanes: list[int]
    bars: list[Bar]
    gaps: list[Gap]


class LaunchMeta(TypedDict):
    """The fields of the view.

    purposes: the entry of a kernel -> its work in words.
    windows: ns of the axis of each scene.
    notes: of each scene, what its run is and where its times come from.
    label: measured or recorded, and the GPU.
    """

    panels: list[Panel]
    frames: list[LaunchFrame]
    purposes: dict[str, str]
    windows: list[float]
    notes: list[str]
    label: str
