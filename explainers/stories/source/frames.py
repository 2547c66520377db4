"""The meta of the view `source`."""

from typing import TypedDict

from explainers.stories.source.stalls import LineStalls
from explainers.story.stage import File


class MachineLines(TypedDict):
    """Lines of PTX or SASS. Each list has an entry for each line.

    source: "FILE:LINE" of our code, or empty.
    entry: the kernel.
    labels: in front of the line.
    target: the label of a branch.
    address: in bytes.
    live: registers.
    """

    text: list[str]
    source: list[str]
    entry: list[str]
    labels: list[list[str]]
    target: list[str]
    address: list[int]
    live: list[int]


class SourceMeta(TypedDict):
    """The fields of the view.

    files: the .cu and its headers with instructions (stage.File).
    held: the lines with instructions, as "FILE:LINE".
    registers: kernel -> registers of a thread.
    most_live: kernel -> the most live registers.
    stalls: "FILE:LINE" -> its samples in an opened report, and {} without one.
    """

    files: list[File]
    held: list[str]
    ptx: MachineLines
    sass: MachineLines
    registers: dict[str, int]
    most_live: dict[str, int]
    stalls: dict[str, LineStalls]
