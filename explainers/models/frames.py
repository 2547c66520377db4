"""The frames and metas of the views that several stories show: tensors, matrices, grid and threads."""

from typing import NotRequired, TypedDict

from explainers.story.frames import Frame, Number, Rect


class ShownTensor(TypedDict):
    """A tensor of global memory as a matrix: its last two axes, and one slice of the other axes.

    symbol: the name in the probes.
    rows, cols: of the drawn matrix, at most tensor_windows.MOST_SHOWN each.
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


class Touched(TypedDict):
    """A step's reads (kind load) or writes (kind store) of a tensor in global memory, as the smallest rectangle around
    its elements."""

    tensor: str
    kind: str
    rect: Rect


class Held(TypedDict):
    """A tensor's part in the block's shared memory.

    rects: one for each tile with known elements.
    bytes: as stored.
    """

    rects: list[Rect]
    bytes: int


class Used(TypedDict):
    """The elements of a step's reads of a tensor in shared memory."""

    tensor: str
    rect: Rect


class TilingFrame(Frame):
    """One step.

    touched: the tensors of the picture with reads or writes in global memory.
    resident: tensor -> its part in shared memory after the step.
    uses: the step's reads from shared memory.
    scores: its computed scores, or None.
    o: the place of O after the step in the column `o`, or -1.
    bytes: "K load" -> bytes of global memory so far, of every tensor.
    """

    touched: list[Touched]
    resident: dict[str, Held]
    uses: list[Used]
    scores: Rect | None
    o: int
    bytes: dict[str, int]


class MatricesMeta(TypedDict):
    """The fields of the view `matrices`.

    n, keys, d: queries, keys, and numbers of a query.
    row0, rows: the traced query tile.
    head: counted over the batch.
    causal, offset: query i sees no key beyond i + offset.
    traced: the tensors with counted bytes.
    places: tensor, with its name in the frames -> its part and its colour: Q, K, V, S, P or O. Other tensors have no
        part.
    blocks: [first row, last row, first column, last column, block] of each block's part of O.

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
    head: int
    traced: list[str]
    places: dict[str, str]
    blocks: list[list[int]]
    causal: bool
    frames: list[TilingFrame]


class GridFrame(Frame):
    """A moment with the start or end of blocks.

    at: on the axis of time.
    launch: the launch with cells in the picture.
    """

    at: float
    launch: int


class GridLaunch(TypedDict):
    """A launch's items as cells.

    rows, cols: the number of rows and columns.
    row_name: the kind of a row, for example sequence.
    row_names: the name of each row, its number without one.
    item: the name of a cell, empty if a cell is a block.
    per_item: blocks of a cell, side by side.
    blocks: all blocks.
    threads: of a block.
    """

    entry: str
    item: str
    blocks: int
    rows: int
    cols: int
    row_name: str
    row_names: list[str]
    per_item: int
    threads: int


class GridMeta(TypedDict):
    """The fields of the view.

    multiprocessors: SMs with a block.
    all: SMs of the GPU.
    unit: of time, µs or turn.
    end: of the last block.
    said: the source of the times.
    traced: the item of the other pictures, or -1.
    recorded: a problem and a build with recorded times, in words and as a link's choices, if this run has none.

    Columns, an entry for each block: launch, block, sm, start, end, low, high (its part of the lane), first, last
        (the steps of its start and end).
    """

    launches: list[GridLaunch]
    multiprocessors: int
    all: int
    unit: str
    end: float
    said: str
    gpu: str
    traced: int
    recorded: NotRequired[dict[str, object]]


class Plane(TypedDict):
    """A matrix.

    row, col: the axes of its rows and columns: row (of queries), key, token, dim, head or partition.
    """

    name: str
    row: str
    col: str


class Moment(TypedDict):
    """A step of the trace.

    parts: [plane, kind, first, number] of its rectangles in the columns.
    windows: axis -> the first and last drawn index.
    """

    launch: int
    block: int
    parts: list[list[int]]
    windows: dict[str, list[int]]


class ThreadsMeta(TypedDict):
    """The fields of the view.

    launches: entry, grid, block, threads, the expressions of both, item, blocks of an item, first and number of the
        traced blocks, and rows: queries of an item, items of a head, queries of a head, None unless items are query
        tiles.
    kinds: the uses of an element by a thread.
    of_frame: each frame's moment.
    lines: sets of FILE:LINE.
    threads: of the largest block.
    left_out: sentences on the parts left out for their size.

    Columns: thread, row0, row1, col0, col1 of each rectangle. ran [moments, threads]: a place in `lines`, or -1.
    """

    launches: list[dict]
    planes: list[Plane]
    kinds: list[str]
    moments: list[Moment]
    of_frame: list[int]
    lines: list[list[str]]
    threads: int
    left_out: list[str]
