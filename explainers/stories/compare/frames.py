"""The frames of a comparison of two kernels."""

from explainers.story.frames import Frame, Lines


class AlignedFrame(Frame):
    """A common step of two kernels. phase: of the side that steps. title: it says which side steps alone.

    sentences: of each side; `sentence` is empty.
    lines_a, lines_b: the lines that each side ran; none where it waits.
    """

    sentences: list[str]
    lines_a: Lines
    lines_b: Lines
