"""The frames of a comparison of two kernels."""

from explainers.story.frames import Frame, Lines


class AlignedFrame(Frame):
    """A common step of two kernels.

    sentences: of each side. `sentence` is empty.
    lines_a, lines_b: the lines of each side, none for a side without the step.
    """

    sentences: list[str]
    lines_a: Lines
    lines_b: Lines
