"""The frames that all stories share. The other frames and the metas of views have a module next to their story.

A frame is one step of a story. The clock counts frames, and each view draws the frame of the clock's step. A view gets
its meta once, before any step. Both are plain JSON. NaN and infinity are text (`stage.plain`). A view gets its arrays
apart from the meta, as columns of float32, row by row.
"""

from typing import NotRequired, TypedDict

# The first row, last row, first column and last column of elements, all included.
Rect = list[int]
# "FILE:LINE" of a line of code -> how many times the traced threads ran it in the step.
Lines = dict[str, int]
# NaN and infinity are the texts nan, inf and -inf. None if nothing was logged.
Number = float | int | str | None


class Frame(TypedDict):
    """The fields of a step for the clock, the sentence and the code pane.

    tile: the number of the outer step of Shift+Left and Shift+Right; -1 outside all tiles.
    title: a few words for the clock.
    sentence: the step in words.
    details: its exact rows and bytes, on hover.
    summary: in place of the stage's, if this step shows another run.
    lines: the lines of code of the step.
    phase: the mark at the start of the step, with the kernel's name for it.
    block: the block of the launch. Each block has outer steps of its own.
    marks: the entries of marks.MARKS that are true of the step.
    before: whether the frame is before the first step, so the clock counts from 0.
    """

    tile: int
    title: str
    sentence: str
    details: NotRequired[str]
    summary: NotRequired[str]
    lines: NotRequired[Lines]
    phase: NotRequired[str]
    block: NotRequired[int]
    marks: NotRequired[list[str]]
    before: NotRequired[bool]


class BankAccess(TypedDict):
    """A warp's access of shared memory.

    file, line: of the probe.
    kind: in words.
    bytes: of a lane.
    active: lanes.
    cells: [lane, bank, wavefront, word, lanes that share the word, pass]. wavefronts = ideal + conflicts.
    parts: [first wavefront, end] of each pass.
    number: its place among the warp's accesses of the probe, from 0.
    alike: how many of these want the same of the banks, up to which banks they are, itself among them.
    """

    file: str
    line: int
    kind: str
    bytes: int
    tensor: str
    active: int
    cells: list[list[int]]
    wavefronts: int
    ideal: int
    conflicts: int
    parts: list[list[int]]
    number: int
    alike: int


class SectorRequest(TypedDict):
    """A warp's request of global memory.

    offsets: each lane's byte offset, -1 where it is idle.
    bytes: of a lane.
    kind: the probe's event.
    sectors, lines: how many it touches.
    used: distinct bytes asked for.
    active: lanes.
    number: its place among the warp's requests of the probe, from 0.
    alike: how many of these touch the same bytes of their lines, itself among them.
    """

    offsets: list[int]
    bytes: int
    tensor: str
    kind: str
    sectors: int
    lines: int
    used: int
    active: int
    number: int
    alike: int
