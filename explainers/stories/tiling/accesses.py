"""The logged accesses of each step, summed by tensor and space."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from explainers.story import picture
from explainers.story.frames import Rect
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.trace.kinds import READS
from kernels.trace.probes import Sites
from kernels.trace.steps import Steps


class Access(NamedTuple):
    """The accesses of one step to one tensor in one space: how many, their bytes, and the smallest rectangle of
    elements touched, None for shared memory and for a tensor that has no place in the picture.

    kind: of global memory load or store, whatever made it; of shared memory the event. span: in shared memory, the
    first and last byte touched.
    """

    tensor: str
    space: str
    kind: str
    accesses: int
    bytes: int
    rect: Rect | None
    span: tuple[int, int]


@dataclass(frozen=True)
class _Layout:
    """How a tensor's elements lie: bytes of one, elements from row to row and from column to column, rows, columns;
    and of a box that the copy engine brings the rows and columns, 1 and 0 where it brings none."""

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
        return replace(found, box_rows=box[row], box_cols=box[col]) if box else found


def accesses_of(
    request: Request, trace: Any, steps: Steps, sites: Sites, drawn: dict[str, Tensor]
) -> list[list[Access]]:
    """A list of Access for each step; drawn: the tensors that have a place in the picture.

    Rule: element = offset / the tensor's bytes per element; row and column are its indices along the axes that the
    picture draws. Of a box by TMA only what lies in the tensor is counted: the rest comes from nowhere, as zeros.
    """
    kind_of = [(s.tensor or "", s.space or "", s.event, s.bytes) if s.kind == "access" else None for s in sites]
    groups = sorted({kind for kind in kind_of if kind})
    group_of_site = np.array([groups.index(kind) if kind else -1 for kind in kind_of] or [-1])
    group = group_of_site[sites.index(trace.table)]
    keep = np.flatnonzero((steps.of_record >= 0) & (group >= 0))
    code = steps.of_record[keep] * max(1, len(groups)) + group[keep]
    order = np.argsort(code, kind="stable")
    code, group = code[order], group[keep][order]
    offset = trace.table["offset"].fill_null(0).to_numpy()[keep][order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    per_step: list[list[Access]] = [[] for _ in range(len(steps.table))]
    if not len(starts):
        return per_step

    def layout_of(tensor: str, space: str, event: str, size: int) -> _Layout | None:
        known = drawn.get(tensor) if space == "global" else None
        return None if known is None else _Layout.of(known, request.plan.box_of(known) if event == "tma" else None)

    layouts = [layout_of(*g) for g in groups]
    at = {
        name: np.array([getattr(found or _Layout(), name) for found in layouts])[group]
        for name in ("item", "row_step", "col_step", "rows", "cols", "box_rows", "box_cols")
    }
    size = np.array([g[3] for g in groups])[group]
    element = offset // at["item"]
    row, col = element // at["row_step"] % at["rows"], element // at["col_step"] % at["cols"]
    across = np.where(at["box_cols"] > 0, at["box_cols"], np.maximum(1, size // at["item"]))
    down, across = np.minimum(at["box_rows"], at["rows"] - row), np.minimum(across, at["cols"] - col)
    moved = np.where(at["box_cols"] > 0, down * across * at["item"], size)
    counts, total = np.diff(starts, append=len(code)), np.add.reduceat(moved, starts)
    low, high = (
        [function.reduceat(values, starts) for values in parts]
        for function, parts in (
            (np.minimum, (row, col, offset)),
            (np.maximum, (row + down, col + across, offset + size)),
        )
    )
    for n, (first, count) in enumerate(zip(starts, counts)):
        step, g = divmod(int(code[first]), len(groups))
        tensor, space, event, _ = groups[g]
        row0, col0, from_byte, row1, col1, to_byte = (int(values[n]) for values in (*low, *high))
        rect = [row0, row1 - 1, col0, col1 - 1] if layouts[g] else None
        kind = event if space == "shared" else "load" if event in READS else "store"
        per_step[step].append(Access(tensor, space, kind, int(count), int(total[n]), rect, (from_byte, to_byte - 1)))
    return per_step
