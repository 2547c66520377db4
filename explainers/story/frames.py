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
    """The fields of a step for the clock, the sentence and the code pane."""

    tile: int  # the number of the outer step of Shift+Left and Shift+Right; -1 outside all tiles
    title: str  # a few words for the clock
    sentence: str  # the step in words
    head: NotRequired[str]  # the step in at most 12 words, in large type where the reader is guided
    details: NotRequired[str]  # its exact rows and bytes, on hover
    summary: NotRequired[str]  # in place of the stage's, if this step shows another run
    lines: NotRequired[Lines]  # the lines of code of the step
    phase: NotRequired[str]  # the mark at the start of the step, with the kernel's name for it
    block: NotRequired[int]  # the block of the launch. Each block has outer steps of its own.
    marks: NotRequired[list[str]]  # the entries of marks.MARKS that are true of the step
    before: NotRequired[bool]  # whether the frame is before the first step, so the clock counts from 0


class BankAccess(TypedDict):
    """A warp's access of shared memory.

    file, line: of the probe.
    cells: [lane, bank, wavefront, word, lanes that share the word, pass]. wavefronts = ideal + conflicts.
    """

    file: str
    line: int
    kind: str  # in words
    bytes: int  # of a lane
    tensor: str
    active: int  # lanes
    cells: list[list[int]]
    wavefronts: int
    ideal: int
    conflicts: int
    parts: list[list[int]]  # [first wavefront, end] of each pass
    number: int  # its place among the warp's accesses of the probe, from 0
    alike: int  # how many of these want the same of the banks, up to which banks they are, itself among them


class SectorRequest(TypedDict):
    """A warp's request of global memory.

    sectors, lines: how many it touches.
    """

    offsets: list[int]  # each lane's byte offset, -1 where it is idle
    bytes: int  # of a lane
    tensor: str
    kind: str  # the probe's event
    sectors: int
    lines: int
    used: int  # distinct bytes asked for
    active: int  # lanes
    number: int  # its place among the warp's requests of the probe, from 0
    alike: int  # how many of these touch the same bytes of their lines, itself among them
