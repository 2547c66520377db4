"""The frames and metas of the views that several stories show: tensors, matrices, grid and threads."""

from typing import NotRequired, TypedDict

from explainers.story.frames import Frame, Number, Rect


class ShownTensor(TypedDict):
    """A tensor of global memory as a matrix: its last two axes, and one slice of the other axes.

    rows, cols: of the drawn matrix, at most generic.MOST_SHOWN each.
    row0, col0: its first row and column.
    of_rows, of_cols: of the whole slice.
    row_axis, col_axis: the names of the axes. row_axis is empty for a tensor of one dimension.
    shape, axes: of the whole tensor.

    Column tensor_<its place in the list>: its values [rows, cols] after the run, empty without kept values.
    """

    name: str
    symbol: str  # the name in the probes
    rows: int
    cols: int
    row0: int
    col0: int
    of_rows: int
    of_cols: int
    row_axis: str
    col_axis: str
    slice: str  # the slice in words, empty for a tensor of one slice
    dtype: str
    role: str  # input, output or scratch
    shape: list[int]
    axes: list[str]
    whole: bool  # false if the run keeps no values


class ShownValue(TypedDict):
    """A logged value as a matrix by its last two keys. The other keys have the values of the first record. A value with
    one key is a row, a value without keys one cell.

    rows, cols, row0, col0, row_key, col_key, slice: see ShownTensor.
    low, high: the range of its finite values, or None.

    Columns value_<its place>_step, value_<its place>_cell and value_<its place>: for each record in order the frame,
        the cell (row * cols + column in the matrix) and the value. A cell shows its last value up to the clock's
        frame.
    """

    event: str  # its name
    keys: list[str]  # all keys, in order
    rows: int
    cols: int
    row0: int
    col0: int
    row_key: str
    col_key: str
    slice: str
    count: int  # the number of its records, over all keys
    left_out: int  # the number of its records outside the matrix
    low: Number
    high: Number


class TouchedTensor(TypedDict):
    """The bytes of a tensor in global memory with one kind of access (load or store) in a step.

    rect: the smallest rectangle of the drawn matrix around the elements, in rows and columns of the whole slice. None
        without drawn elements.
    cells: [row, first column, last column] runs. None if they fill the rectangle, or if there are too many.
    """

    tensor: str
    kind: str
    bytes: int  # over all accesses
    rect: Rect | None
    cells: list[list[int]] | None
    elsewhere: int  # the number of elements outside the drawn part


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
    """One step."""

    launch: int  # 0 for the first
    role: str  # of the step's warps, empty for a kernel without roles
    touched: list[TouchedTensor]
    logged: list[Logged]


class TensorsMeta(TypedDict):
    """The fields of the view `tensors`: every tensor, value and step."""

    tensors: list[ShownTensor]
    values: list[ShownValue]
    frames: list[TensorsFrame]


class Touched(TypedDict):
    """A step's reads (kind load) or writes (kind store) of a tensor in global memory, as the smallest rectangle around
    its elements."""

    tensor: str
    kind: str
    rect: Rect


class Held(TypedDict):
    """A tensor's part in the block's shared memory."""

    rects: list[Rect]  # one for each tile with known elements
    bytes: int  # as stored


class Used(TypedDict):
    """The elements of a step's reads of a tensor in shared memory."""

    tensor: str
    rect: Rect


class TilingFrame(Frame):
    """One step."""

    launch: int  # of the kernel. Each launch counts its blocks from 0
    touched: list[Touched]  # the tensors of the picture with reads or writes in global memory
    resident: dict[str, Held]  # tensor -> its part in shared memory after the step
    uses: list[Used]  # the step's reads from shared memory
    scores: Rect | None  # its computed scores, or None
    o: int  # the place of O after the step in the column `o`, or -1
    bytes: dict[str, int]  # "K load" -> bytes of global memory so far, of every tensor
    reads: dict[str, float]  # tensor -> how often the step reads each byte of its part in shared memory


class Heights(TypedDict):
    """Heights of a query tile, for the reader's hand.

    name: of the choice.
    now: its value.
    said: the reads of K in the whole head, in a sentence, or "".
    since: the step that shows them.
    """

    name: str
    values: list[int]
    now: int
    said: str
    since: int


class MatricesMeta(TypedDict):
    """The fields of the view `matrices`.

    n, keys, d: queries, keys, and numbers of a query.
    row0, rows: the traced query tile.
    causal, offset: query i sees no key beyond i + offset.
    places: tensor, with its name in the frames -> its part and its colour: Q, K, V, S, P or O. Other tensors have no
        part.

    Columns: q [n, d], k, v [keys, d] of the head. s [rows, keys]. s_logged [rows, keys]: 1 for a logged score. p
        [rows, keys]: a weight over its row's largest. o [states, rows, d]. o_since [rows, d]: the first state
        with the element. o_final [rows, d].
    """

    n: int
    keys: int
    offset: int
    d: int
    row0: int
    rows: int
    head: int  # counted over the batch
    traced: list[str]  # the tensors with counted bytes
    places: dict[str, str]
    blocks: list[list[int]]  # [first row, last row, first column, last column, block] of each block's part of O
    causal: bool
    frames: list[TilingFrame]
    heights: NotRequired[Heights]


class GridFrame(Frame):
    """A moment with the start or end of blocks."""

    at: float  # on the axis of time
    launch: int  # the launch with cells in the picture


class GridLaunch(TypedDict):
    """A launch's items as cells.

    rows, cols: the number of rows and columns.
    """

    entry: str
    item: str  # the name of a cell, empty if a cell is a block
    blocks: int  # all blocks
    rows: int
    cols: int
    row_name: str  # the kind of a row, for example sequence
    row_names: list[str]  # the name of each row, its number without one
    per_item: int  # blocks of a cell, side by side
    threads: int  # of a block


class GridMeta(TypedDict):
    """The fields of the view.

    recorded: a problem and a build with recorded times, in words and as a link's choices, if this run has none.

    Columns, an entry for each block: launch, block, sm, start, end, low, high (its part of the lane), first, last
        (the steps of its start and end).
    """

    launches: list[GridLaunch]
    multiprocessors: int  # SMs with a block
    all: int  # SMs of the GPU
    unit: str  # of time, µs or turn
    end: float  # of the last block
    said: str  # the source of the times
    gpu: str
    traced: int  # the item of the other pictures, or -1
    recorded: NotRequired[dict[str, object]]


class Plane(TypedDict):
    """A matrix.

    row, col: the axes of its rows and columns: row (of queries), key, token, dim, head or partition, or a tensor's own.
    windows: the window of its rows and of its columns, a key of Moment.windows. Matrices of attention share windows.
    """

    name: str
    row: str
    col: str
    windows: list[str]


class Moment(TypedDict):
    """A step of the trace."""

    launch: int
    block: int
    parts: list[list[int]]  # [plane, kind, first, number] of its rectangles in the columns
    windows: dict[str, list[int]]  # window -> the first and last drawn index


class ThreadsMeta(TypedDict):
    """The fields of the view.

    launches: entry, grid, block, threads, the expressions of both, item, blocks of an item, first and number of the
        traced blocks, and rows: queries of an item, items of a head, queries of a head, None unless items are query
        tiles.

    Columns: thread, row0, row1, col0, col1 of each rectangle. ran [moments, threads]: a place in `lines`, or -1.
    """

    launches: list[dict]
    planes: list[Plane]
    kinds: list[str]  # the uses of an element by a thread
    moments: list[Moment]
    of_frame: list[int]  # each frame's moment
    lines: list[list[str]]  # sets of FILE:LINE
    threads: int  # of the largest block
    left_out: list[str]  # sentences on the parts left out for their size
