"""The frames of any kernel, and the meta of the view `tensors`."""

from typing import TypedDict

from explainers.story.frames import Frame, Number, Rect


class ShownTensor(TypedDict):
    """A tensor of global memory as a matrix: its last two axes, and one slice of the other axes.

    symbol: the name in the probes.
    rows, cols: of the drawn matrix, at most windows.MOST_SHOWN each.
    row0, col0: its first row and column.
    of_rows, of_cols: of the whole slice.
    row_axis, col_axis: the names of the axes. row_axis is empty for a tensor of one dimension.
    slice: the slice in words, empty for a tensor of one slice.
    role: input, output or scratch.
    shape, axes: of the whole tensor.
    whole: false if the run keeps no values.

    Column tensor_<its place in the list>: its values [rows, cols] after the run, empty without kept values.
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
    """A logged value as a matrix by its last two keys. The other keys have the values of the first record. A value with
    one key is a row, a value without keys one cell.

    event: its name.
    keys: all keys, in order.
    rows, cols, row0, col0, row_key, col_key, slice: see ShownTensor.
    count: the number of its records, over all keys.
    left_out: the number of its records outside the matrix.
    low, high: the range of its finite values, or None.

    Columns value_<its place>_step, value_<its place>_cell and value_<its place>: for each record in order the frame,
        the cell (row * cols + column in the matrix) and the value. A cell shows its last value up to the clock's
        frame.
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
    """The bytes of a tensor in global memory with one kind of access (load or store) in a step.

    bytes: over all accesses.
    rect: the smallest rectangle of the drawn matrix around the elements, in rows and columns of the whole slice. None
        without drawn elements.
    cells: [row, first column, last column] runs. None if they fill the rectangle, or if there are too many.
    elsewhere: the number of elements outside the drawn part.
    """

    tensor: str
    kind: str
    bytes: int
    rect: Rect | None
    cells: list[list[int]] | None
    elsewhere: int


class Logged(TypedDict):
    """The number of records of an event in a step, and their range.

    low, high: of the finite values, or None.
    nan, inf: the numbers of NaN and infinite values.
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
    role: of the step's warps, empty for a kernel without roles.
    """

    launch: int
    role: str
    touched: list[TouchedTensor]
    logged: list[Logged]


class TensorsMeta(TypedDict):
    """The fields of the view `tensors`: every tensor, value and step."""

    tensors: list[ShownTensor]
    values: list[ShownValue]
    frames: list[TensorsFrame]
