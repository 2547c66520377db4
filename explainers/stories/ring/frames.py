"""The types of a ring's frames and of its picture."""

from typing import TypedDict

from explainers.stories.ring.figures import Figure
from explainers.stories.ring.orders import ShownOrder
from explainers.story.frames import Frame, Number

SHOWN = 16  # dims of O in the picture, at most


class Device(TypedDict):
    """A device in a step.

    part: of the keys it holds.
    cells: [row piece, key piece] of the pairs.
    """

    part: int
    pairs: int
    cells: list[list[int]]


class Merged(TypedDict):
    """The values of a row: before, of this step, after.

    before, own, after: the first dims of O, not divided by l. before, after: as logged.
    own: of this step, derived from both. Empty if its factor is below LEAST.
    output: the same dims of the output, at the last merge.
    """

    m: list[Number]
    l: list[Number]
    shares: list[float]
    before: list[float]
    own: list[float]
    after: list[float]
    output: list[float]


class RingFrame(Frame):
    """One frame.

    step: of the ring.
    kind: figures, products, merge, or gain (figures in place of the ring).
    devices: of the step.
    moves: [source, target, part] of its copies. A merge has those of its step.
    merged: the followed row, or None.
    figures: of the first and the last frame.
    """

    step: int
    kind: str
    devices: list[Device]
    moves: list[list[int]]
    merged: Merged | None
    figures: list[Figure]


class ShownCells(TypedDict):
    """Another order of the same work. devices: of each round."""

    name: str
    pieces: list[list[int]]
    devices: list[list[Device]]


class RingMeta(TypedDict):
    """The facts of a ring before its first step.

    pieces: of the sequence on each device. size: rows of a piece. bytes: of all copies between two devices in a step.
    device, row: of the followed row. place: this row in the whole sequence.
    heads: whether the devices have whole heads.
    gpus: their number, whether they are virtual, and their order, or "" for one.
    label: what a GPU has in its memory.
    masked: whether a query meets no later key.
    dims, shown: the numbers of a row of O, and of them in the picture.
    orders: the pairs of each order, the run's own first. other: the cells of the second one, or None.
    """

    pieces: list[list[int]]
    size: int
    bytes: int
    device: int
    row: int
    place: int
    heads: bool
    gpus: str
    label: str
    masked: bool
    dims: int
    shown: int
    orders: list[ShownOrder]
    other: ShownCells | None
    frames: list[RingFrame]
