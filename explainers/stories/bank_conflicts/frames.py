"""The frames of bank conflicts, and the metas of the views `banks` and `tile_memory`."""

from typing import TypedDict

from explainers.story.frames import BankAccess, Frame


class BankFrame(Frame):
    """One step.

    access: its place in the list of each side's accesses.
    wavefront: which of it the step shows, from 0; a side that takes fewer is done.
    """

    access: int
    wavefront: int


class BankSide(TypedDict):
    """The same accesses in one build.

    name: its constants, as PAD 1; empty if there is one side.
    words: of the memory that the accesses' tensor takes, in words of 4 bytes.
    free: [first, end] runs of its words that no lane ever touches.
    """

    name: str
    accesses: list[BankAccess]
    words: int
    free: list[list[int]]


class BanksMeta(TypedDict):
    """What the views `banks` and `tile_memory` draw beside the stage's frames: one side, or the plain one and the
    one that is padded or swizzled."""

    sides: list[BankSide]
