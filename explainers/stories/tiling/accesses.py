"""The logged accesses of each step, summed by tensor and space."""

from typing import NamedTuple

import numpy as np

from explainers.story import picture
from explainers.story.frames import Rect
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.trace.kinds import READS
from kernels.trace.probes import Sites
from kernels.trace.steps import Steps
from kernels.trace.trace import Trace


class Access(NamedTuple):
    """The accesses of one step to one tensor in one space.

    kind: load or store for global memory, the event for shared memory.
    accesses, bytes: their number and their bytes.
    rect: the smallest rectangle of the touched elements. None for shared memory and for a tensor outside the picture.
    span: the first and last byte touched.
    """

    tensor: str
    space: str
    kind: str
    accesses: int
    bytes: int
    rect: Rect | None
    span: tuple[int, int]


class _Group(NamedTuple):
    """The probes with the same tensor, space, event and bytes of an access."""

    tensor: str
    space: str
    event: str
    bytes: int


class _Layout(NamedTuple):
    """The layout of a tensor in memory.

    item: bytes of an element.
    row_step, col_step: elements from row to row and from column to column.
    rows, cols: of the tensor.
    box_rows, box_cols: of a box of the copy engine, or 1 and 0.
    """

    item: int = 1
    row_step: int = 1
    col_step: int = 1
    rows: int = 1
    cols: int = 1
    box_rows: int = 1
    box_cols: int = 0

    @classmethod
    def of(cls, tensor: Tensor, box: tuple[int, ...] | None) -> "_Layout":
        row, col = (tensor.axes.index(axis) for axis in picture.plane(tensor))
        row_step, col_step = (int(np.prod(tensor.shape[axis + 1 :])) for axis in (row, col))
        found = cls(tensor.itemsize, row_step, col_step, tensor.shape[row], tensor.shape[col])
        return found._replace(box_rows=box[row], box_cols=box[col]) if box else found


class _Touched(NamedTuple):
    """An entry for each access: its first and end row, column and byte, and its bytes within the tensor."""

    low: tuple[np.ndarray, np.ndarray, np.ndarray]
    high: tuple[np.ndarray, np.ndarray, np.ndarray]
    bytes: np.ndarray


def accesses_of(
    request: Request, trace: Trace, steps: Steps, sites: Sites, drawn: dict[str, Tensor]
) -> list[list[Access]]:
    """A list of Access for each step.

    drawn: the tensors with a place in the picture.
    """
    per_step: list[list[Access]] = [[] for _ in range(len(steps.table))]
    of_site = [_Group(s.tensor or "", s.space or "", s.event, s.bytes) if s.kind == "access" else None for s in sites]
    groups = sorted({group for group in of_site if group})
    if not groups:
        return per_step
    number_of_site = np.array([groups.index(group) if group else -1 for group in of_site])
    group = number_of_site[sites.index(trace.table)]
    keep = np.flatnonzero((steps.of_record >= 0) & (group >= 0))
    code = steps.of_record[keep] * len(groups) + group[keep]
    order = np.argsort(code, kind="stable")
    code, group = code[order], group[keep][order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    if not len(starts):
        return per_step
    offset = trace.table["offset"].fill_null(0).to_numpy()[keep][order]
    layouts = [_layout_of(request, one, drawn) for one in groups]
    touched = _touched(offset, group, groups, layouts)
    low = [np.minimum.reduceat(values, starts) for values in touched.low]
    high = [np.maximum.reduceat(values, starts) for values in touched.high]
    counts, total = np.diff(starts, append=len(code)), np.add.reduceat(touched.bytes, starts)
    for n, (first, count) in enumerate(zip(starts, counts)):
        step, number = divmod(int(code[first]), len(groups))
        tensor, space, event, _ = groups[number]
        row0, col0, from_byte, row1, col1, to_byte = (int(values[n]) for values in (*low, *high))
        rect = [row0, row1 - 1, col0, col1 - 1] if layouts[number] else None
        kind = event if space == "shared" else "load" if event in READS else "store"
        per_step[step].append(Access(tensor, space, kind, int(count), int(total[n]), rect, (from_byte, to_byte - 1)))
    return per_step


def _layout_of(request: Request, group: _Group, drawn: dict[str, Tensor]) -> _Layout | None:
    """The layout of a group's tensor in global memory, or None outside the picture."""
    known = drawn.get(group.tensor) if group.space == "global" else None
    if known is None:
        return None
    return _Layout.of(known, request.plan.box_of(known) if group.event == "tma" else None)


def _touched(offset: np.ndarray, group: np.ndarray, groups: list[_Group], layouts: list[_Layout | None]) -> _Touched:
    """The elements of each access.

    Rule: element = offset / the tensor's bytes per element. Its row and column are its indices along the axes of the
    picture. A box of the copy engine counts only as far as it is inside the tensor. The rest of the box is zeros.
    """
    columns = np.array([layout or _Layout() for layout in layouts])[group].T
    item, row_step, col_step, rows, cols, box_rows, box_cols = columns
    size = np.array([one.bytes for one in groups])[group]
    element = offset // item
    row, col = element // row_step % rows, element // col_step % cols
    in_box = box_cols > 0
    across = np.where(in_box, box_cols, np.maximum(1, size // item))
    down, across = np.minimum(box_rows, rows - row), np.minimum(across, cols - col)
    moved = np.where(in_box, down * across * item, size)
    return _Touched((row, col, offset), (row + down, col + across, offset + size), moved)
