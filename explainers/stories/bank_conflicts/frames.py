"""The frames of bank conflicts, and the metas of the views `banks` and `tile_memory`."""

from typing import TypedDict

from explainers.story.frames import BankAccess, Frame


class BankFrame(Frame):
    """One step.

    access: its place in the list of each side's accesses.
    wavefront: its number in the access, from 0. A side with fewer wavefronts is done.
    """

    access: int
    wavefront: int


class BankSide(TypedDict):
    """The same accesses in one build.

    name: its constants, as PAD 1. Empty for a single side.
    words: the words of 4 bytes of the tensor.
    free: [first, end] runs of words without any access.
    """

    name: str
    accesses: list[BankAccess]
    words: int
    free: list[list[int]]


class BanksMeta(TypedDict):
    """The fields of the views `banks` and `tile_memory`: one side, or the plain and the padded or swizzled one."""

    sides: list[BankSide]
