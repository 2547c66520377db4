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
    wavefronts, accesses: of shared memory, in this step. An access is of a warp.
    ideal: the wavefronts if no two words shared a bank.
    longest: the most wavefronts of one warp.
    lines: FILE:LINE of its accesses and values.
    tile: its tile, or -1.
    coming: whether its copies land later.
    pairs: of an addition, the place of the other number and of the sum, one pair after another.
    bytes: of shared memory, in this step.
    said: the first of its additions in numbers, or "".
    """

    title: str
    threads: str
    places: str
    working: int
    wavefronts: int
    accesses: int
    ideal: int
    longest: int
    lines: list[str]
    tile: int
    coming: bool
    pairs: list[int]
    bytes: int
    said: str


class Way(TypedDict):
    """One way of a pattern.

    name: its title.
    build: the constants of its build, or "".
    moves: its steps.
    counts: its derived figures, such as 24 and wavefronts in turn, each with its meaning.
    waits: its main wait, in a word or two.
    heads: over its threads and over its places.
    why: the reason for its cycles, in a sentence.
    cycles: in words.
    time: the cycles, or 0 if they are not known.
    rate: sums per microsecond of a full GPU, in words, or "".
    sum: the place of the whole sum after the last step, or -1.
    """

    name: str
    build: str
    moves: list[Move]
    counts: list[tuple[str, str, str]]
    heads: tuple[str, str]
    waits: str
    why: str
    cycles: str
    time: float
    rate: str
    sum: int


class PatternFrame(Frame):
    """One step of one way. The ways follow one another.

    way, move: the numbers of the way and of its step, from 0.
    """

    way: int
    move: int


class PatternsMeta(TypedDict):
    """The fields of the view.

    ways: in order.
    frames: the way and the step of each frame.
    note: the source of the cycles and counts.
    words: the state of a place -> its words for the legend.
    """

    ways: list[Way]
    frames: list[PatternFrame]
    note: str
    words: dict[str, str]
