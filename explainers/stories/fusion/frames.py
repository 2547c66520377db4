"""The frames of the story of fusion, and the meta of its picture."""

from typing import TypedDict

from explainers.story.frames import Frame, Lines


class MoveFrame(Frame):
    """One tensor between memory and chip: in one of the separate launches, and in the fused one.

    tensor: its place among the tensors, -1 in the last step.
    cells: the columns of the step.
    so_far: bytes of the separate and of the fused kernel up to this step.
    timed: whether the step is about the recorded time.
    separate_lines, fused_lines: the lines of code of each side.
    """

    tensor: int
    cells: list[int]
    so_far: list[int]
    timed: bool
    separate_lines: Lines
    fused_lines: Lines


class ShownMove(TypedDict):
    """A bar of the picture.

    column: its launch. tensor: its row. kind: load (from memory) or store. step: from 0.
    bytes: touched, each once. requested: of all accesses. sectors: of 32 bytes.
    """

    column: int
    tensor: int
    kind: str
    step: int
    bytes: int
    requested: int
    sectors: int


class ShownTensor(TypedDict):
    """A row of the picture.

    bytes: the size of the tensor. shape: with its type. part: its meaning, or input, output or between launches.
    kept: why the fused kernel moves fewer bytes: never (the tensor stays on the chip), once (not read again), or "".
    passed: [column that writes it, column that reads it] of the separate launches, or [].
    """

    name: str
    bytes: int
    kept: str
    shape: str
    part: str
    passed: list[int]


class ShownLaunch(TypedDict):
    """A column of the picture. side: 0 separate, 1 fused. bytes: of the launch."""

    side: int
    entry: str
    bytes: int


class ShownTime(TypedDict):
    """The recorded times.

    names, us, texts: of the separate launches, a rival if there is one, and the fused kernel. A text has its unit.
    spans: [start, end] of each of their launches in us, as far as recorded.
    pieces: [us of the launch, us of the gap after it] of each launch, as texts.
    said: where, and of which problem. note: the same at another size.
    """

    names: list[str]
    us: list[float]
    texts: list[str]
    spans: list[list[list[float]]]
    pieces: list[list[list[str]]]
    said: str
    note: str


class FusionMeta(TypedDict):
    """The ledger.

    totals: bytes of each side.
    kernels, ideas: of both sides.
    place: where the fused kernel keeps a tensor.
    time: None without a recording.
    """

    tensors: list[ShownTensor]
    launches: list[ShownLaunch]
    moves: list[ShownMove]
    kernels: list[str]
    ideas: list[str]
    place: str
    totals: list[int]
    time: ShownTime | None
    frames: list[MoveFrame]
