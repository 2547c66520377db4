"""The frames of a row's softmax, and the meta of the view `row`."""

from typing import TypedDict

from explainers.story.frames import Frame, Number


class RowFrame(Frame):
    """A step of one row.

    moment: the step of the trace.
    group: scores, max, rescale, weights, sum, output or final.
    m, l: after the step.
    m_before: the m before this one; None before the first.
    rescale: the factor of this step, or None.
    keys, weighed: how many keys have a score, a weight.
    o: which of the columns `o` shows O's row, or -1.
    m_true, l_true: float64 after the same keys.
    wrong: the step is off by more than rounding.
    """

    moment: int
    group: str
    m: Number
    l: Number
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
    m_name: what its m is called.
    tile_of: each key's tile.
    block_kv: keys of a tile.
    error: the row's largest. In float64, which a column is not: total: m and l of the whole row.
    scores_true: of each key.
    o_true: of each dim.

    Columns: scores, weights [keys]; o [states, d].
    """

    frames: list[RowFrame]
    row: int
    ordinary: bool
    m_name: str
    tile_of: list[int]
    block_kv: int
    error: Number
    total: dict[str, float]
    scores_true: list[float]
    o_true: list[float]
