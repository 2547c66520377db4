"""The meta of the view `source`."""

from typing import Any, TypedDict


class MachineLines(TypedDict):
    """Lines of PTX or SASS, an entry for each in every list.

    source: "FILE:LINE" of ours, or nothing.
    entry: the kernel.
    labels: that stand before it.
    target: the label that it branches to.
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

    files: the .cu and those of its headers that have instructions (stage.File).
    held: the places, "FILE:LINE", that have.
    registers: kernel -> of a thread.
    most_live: kernel -> the most that are live at once.
    """

    files: list[Any]
    held: list[str]
    ptx: MachineLines
    sass: MachineLines
    registers: dict[str, int]
    most_live: dict[str, int]
