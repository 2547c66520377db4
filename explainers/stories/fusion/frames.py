"""The frames of the story of fusion, and the meta of its picture."""

from typing import TypedDict

from explainers.story.frames import Frame, Lines


class MoveFrame(Frame):
    """One tensor between memory and chip, in one launch.

    launch: its place among the launches of both sides, -1 in the last step.
    tensor: its place among the tensors, -1 in the last step.
    kind: load (from memory) or store, "" if nothing moves.
    bytes: of this step.
    so_far: bytes of the separate and of the fused kernel up to this step.
    separate_lines, fused_lines: the lines of code of the step, of its side only.
    """

    launch: int
    tensor: int
    kind: str
    bytes: int
    so_far: list[int]
    separate_lines: Lines
    fused_lines: Lines


class ShownTensor(TypedDict):
    """A row of the picture.

    bytes: the size of the tensor. shape: with its type and its part.
    kept: why the fused kernel moves fewer bytes: never (the tensor stays on the chip), once (not read again), or "".
    """

    name: str
    bytes: int
    kept: str
    shape: str


class ShownLaunch(TypedDict):
    """A column of the picture. side: 0 separate, 1 fused. bytes: of the launch."""

    side: int
    entry: str
    bytes: int


class FusionMeta(TypedDict):
    """The ledger. totals: bytes of each side. kernels: their names."""

    tensors: list[ShownTensor]
    launches: list[ShownLaunch]
    kernels: list[str]
    totals: list[int]
    frames: list[MoveFrame]
