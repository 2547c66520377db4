"""The frames of any kernel, and the meta of the view `tensors`."""

from typing import TypedDict

from explainers.story.frames import Frame, Number, Rect


class ShownTensor(TypedDict):
    """A tensor of global memory as a matrix: its last two axes, of a slice of the others.

    name: the tensor's.
    symbol: what the probes call it.
    rows, cols: of the matrix that is drawn, at most generic.MOST_SHOWN each.
    row0, col0: its first row and column.
    of_rows, of_cols: of the whole slice.
    row_axis, col_axis: what the axes are called; row_axis is empty for a tensor of one dimension.
    slice: which one, in words, empty if there is but one. dtype.
    role: input, output or scratch.
    shape, axes: of the whole tensor.
    whole: false where no values are kept. Column tensor_<its place in the list>: its values [rows, cols], after
        the run; empty where none are kept.
    """

    name: str
    symbol: str
    rows: int
    cols: int
    row0: int
    col0: int
    of_rows: int
    of_cols: int
    row_axis: str
    col_axis: str
    slice: str
    dtype: str
    role: str
    shape: list[int]
    axes: list[str]
    whole: bool


class ShownValue(TypedDict):
    """A logged value as a matrix by its keys: the last two, the others held at what was logged first; of one key
    a row; of none one cell.

    event: its name.
    keys: all of them, in order.
    rows, cols, row0, col0, row_key, col_key, slice: as those of ShownTensor.
    count: how often it was logged, over all keys.
    left_out: of these, how many lie outside the matrix.
    low, high: over all that are finite, or None.

    Columns value_<its place>_step, value_<its place>_cell and value_<its place>: what was logged, in order: in
    which frame, in which cell (row * cols + column, from the matrix' first), and the value. A cell shows the last
    value of the frames up to the clock's.
    """

    event: str
    keys: list[str]
    rows: int
    cols: int
    row0: int
    col0: int
    row_key: str
    col_key: str
    slice: str
    count: int
    left_out: int
    low: Number
    high: Number


class TouchedTensor(TypedDict):
    """What a step read (kind load) or wrote (kind store) of a tensor in global memory.

    tensor: its name.
    bytes: over all accesses.
    rect: the smallest rectangle of the drawn matrix that holds the elements, counted from the whole slice's row 0
        and column 0; None where none of them is drawn.
    cells: [row, first column, last column] runs, if they do not fill the rectangle; None if they do, or are too
        many.
    elsewhere: elements that are not drawn: of other slices, or outside the part that is.
    """

    tensor: str
    kind: str
    bytes: int
    rect: Rect | None
    cells: list[list[int]] | None
    elsewhere: int


class Logged(TypedDict):
    """How often an event was logged in a step, and from where to where.

    low and high: None if none is finite.
    nan, inf: how many are NaN, or infinite.
    """

    event: str
    count: int
    low: Number
    high: Number
    nan: int
    inf: int


class TensorsFrame(Frame):
    """One step.

    launch: 0 for the first.
    role: of the warps that took the step, empty where the kernel has none.
    """

    launch: int
    role: str
    touched: list[TouchedTensor]
    logged: list[Logged]


class TensorsMeta(TypedDict):
    """What the view `tensors` draws: every tensor, every value, every step."""

    tensors: list[ShownTensor]
    values: list[ShownValue]
    frames: list[TensorsFrame]
