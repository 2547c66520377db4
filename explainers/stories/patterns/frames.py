"""The frames of Patterns, and the meta of the view `patterns`."""

from typing import TypedDict

from explainers.story.frames import Frame

FREE, FULL, READ, WRITTEN, COMING, HELD = "012345"
"""The states of a place: free, with a number, read now, written now, on its way, in a register."""


class Move(TypedDict):
    """One step of a way.

    title: in a few words.
    threads: a 1 for each thread that works, else 0.
    places: the state of each place.
    working: number of threads that work.
    wavefronts: of shared memory, in this step.
    lines: FILE:LINE of its accesses and values.
    tile: its tile, or -1.
    coming: whether its copies land later.
    pairs: of an addition, the place of the other number and of the sum, one pair after another.
    bytes: of shared memory, in this step.
    """

    title: str
    threads: str
    places: str
    working: int
    wavefronts: int
    lines: list[str]
    tile: int
    coming: bool
    pairs: list[int]
    bytes: int


class Way(TypedDict):
    """One way of a pattern.

    name: its title.
    chosen: whether the page shows its code.
    moves: its steps.
    counts: its derived figures, such as 24 wavefronts.
    why: the reason for its cycles, in a sentence.
    cycles: in words.
    time: the cycles, or 0 if they are not known.
    done: the words after its last step.
    """

    name: str
    chosen: bool
    moves: list[Move]
    counts: list[str]
    why: str
    cycles: str
    time: float
    done: str


class PatternsMeta(TypedDict):
    """The fields of the view.

    ways: side by side.
    note: the source of the cycles and counts.
    words: the state of a place -> its words for the legend.
    """

    ways: list[Way]
    note: str
    words: dict[str, str]


class PatternFrame(Frame):
    """One step of all ways. A way with fewer steps is done.

    move: the number of the step, from 0.
    """

    move: int
