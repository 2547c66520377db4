"""The frames of a row's softmax, and the meta of the view `row`."""

from typing import TypedDict

from explainers.story.frames import Frame, Number


class RowFrame(Frame):
    """A step of one row.

    moment: the step of the trace.
    group: scores, max, rescale, weights, sum, output or final.
    m, l: after the step.
    l_factor: the factor of l since its record.
    m_before: the m before this one, None before the first.
    rescale: the factor of this step, or None.
    keys, weighed: the number of keys with a score and with a weight.
    o: the place of O's row in the column `o`, or -1.
    m_true, l_true: float64 after the same keys.
    wrong: whether the error of the step is larger than rounding.
    """

    moment: int
    group: str
    m: Number
    l: Number
    l_factor: float
    m_before: Number
    rescale: Number
    keys: int
    weighed: int
    o: int
    m_true: float
    l_true: float
    wrong: bool


class RowMeta(TypedDict):
    """The fields of the view.

    row: its number.
    ordinary: the kernel has one m and l for the whole row, no running ones.
    m_name: the name of its m.
    keys: the number of each key.
    tile_of: each key's tile.
    block_kv: keys of a tile.
    error: the row's largest error.
    weight_top: the largest weight that the picture has room for.
    o_true: float64, of each dim.

    Columns: scores, weights [keys], o [states, d], and those of `counted`.
    """

    frames: list[RowFrame]
    row: int
    ordinary: bool
    m_name: str
    keys: list[int]
    tile_of: list[int]
    block_kv: int
    error: Number
    weight_top: float
    o_true: list[float]
