"""Single elements as rectangles, for a picture of many elements."""

import numpy as np
import pandas as pd

from kernels.core.distinct import distinct

RECTANGLE = ("step", "plane", "kind", "thread", "row0", "row1", "col0", "col1")


def rectangles(
    step: np.ndarray, plane: np.ndarray, kind: np.ndarray, thread: np.ndarray, row: np.ndarray, col: np.ndarray
) -> pd.DataFrame:
    """Elements as rectangles: first runs along a row, then equal runs in neighbouring rows. plane, kind: as numbers."""
    sizes = [int(column.max()) + 1 for column in (step, plane, kind, thread, row, col)]
    code = np.zeros(len(step), np.int64)
    for column, size in zip((step, plane, kind, thread, row, col), sizes):
        code = code * size + column
    code = distinct(code)
    starts = np.flatnonzero(np.r_[True, (np.diff(code) != 1) | (code[1:] % sizes[5] == 0)])  # runs along a row
    rest, first = np.divmod(code[starts], sizes[5])
    last = code[np.r_[starts[1:], len(code)] - 1] % sizes[5]
    group, row = np.divmod(rest, sizes[4])
    order = np.lexsort((row, last, first, group))
    group, row, first, last = (column[order] for column in (group, row, first, last))
    same = (np.diff(group) == 0) & (np.diff(first) == 0) & (np.diff(last) == 0) & (np.diff(row) == 1)
    starts = np.flatnonzero(np.r_[True, ~same])
    ends = np.r_[starts[1:], len(row)] - 1
    named: list[np.ndarray] = []
    left = group[starts]
    for size in reversed(sizes[:4]):
        left, column = np.divmod(left, size)
        named.insert(0, column)
    return pd.DataFrame(dict(zip(RECTANGLE, (*named, row[starts], row[ends], first[starts], last[starts]))))
