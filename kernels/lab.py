"""The lab kernels' problems and plans: small copies and sums whose only interest is where they read and write.

All hold small whole numbers, so that sums are exact in any order: the smallest error is a miss.
"""

from dataclasses import dataclass

import numpy as np

from kernels.errors import ProblemError
from kernels.plan import Constant, Launch, Plan, ceil_div
from kernels.problem import Exact, check_fields, problem_field

ROWS = 32  # of a tile: one for each lane
TILE_CONSTANTS = (
    Constant("WIDTH", (4, 8, 16), 4, "bytes that a lane reads at once"),
    Constant("PAD", tuple(range(33)), 0, "floats left free after each row of the tile"),
    Constant("SWIZZLE", (0, 1), 0, "1: piece c of row r lies at c XOR r"),
    Constant("MATRICES", (0, 1, 2, 4), 0, "0: plain loads; else 8x8 matrices that one ldmatrix reads"),
)
LAYOUTS = ("row_major", "strided", "misaligned", "paged_split", "paged_whole")  # in the order of lab_global.cu
ACCESS_OPS = ("shared_load", "shared_store", "ldmatrix", "cp_async", "cp_async_l2", "global_load", "global_store")  # in the order of lab_access.cu
ACCESS_BYTES = 32768


class _LabProblem(Exact):
    """What the lab problems share."""

    outputs = {"o": np.float32}
    defines = {}
    __post_init__ = check_fields


def _small_numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def _seed():
    return problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)


@dataclass(frozen=True)
class ColumnsProblem(_LabProblem):
    """A tile of 32 rows: lane r walks row r from its first column to its last, `repeats` times, in each of `warps` warps."""

    stride: int = problem_field(32, "floats per row of the tile: the stride between neighbouring lanes", low=1, high=4096)
    repeats: int = problem_field(1, "how often the walk is done; more than once only to time it", low=1, high=1024)
    warps: int = problem_field(1, "warps that walk the tile, all alike", low=1, high=32)
    seed: int = _seed()

    item = "block"
    remedy = shared_remedy = "Choose a smaller stride or PAD."

    @property
    def input_bytes(self):
        return 4 * ROWS * self.stride

    @property
    def multiply_adds(self):
        return ROWS * self.stride * self.repeats * self.warps

    @property
    def size(self):
        return f"stride {self.stride}"

    def inputs(self):
        """x [32, stride]; clocks [warps, 2] int64, the cycle at which each warp's walk begins and ends (GPU only)."""
        return {"x": _small_numbers(self.seed, ROWS, self.stride), "clocks": np.zeros((self.warps, 2), np.int64)}

    def truth(self, on_gpu=False):
        """The sum of each row, for each warp."""
        return {"o": self.repeats * np.tile(self.inputs()["x"].astype(np.float64).sum(axis=1), self.warps)}


@dataclass(frozen=True)
class TransposeProblem(_LabProblem):
    """O = X^T, through tiles of 32 x 32."""

    rows: int = problem_field(32, "rows of X", low=1, high=8192)
    columns: int = problem_field(32, "columns of X", low=1, high=8192)
    seed: int = _seed()

    item = "tile"
    remedy = shared_remedy = "Choose fewer rows or columns."
    multiply_adds = 0

    @property
    def input_bytes(self):
        return 4 * self.rows * self.columns

    @property
    def size(self):
        return f"{self.rows} x {self.columns}"

    @property
    def tiles(self):
        return ceil_div(self.columns, ROWS), ceil_div(self.rows, ROWS)

    def inputs(self):
        """x [rows, columns]; clocks [blocks, warps, 2] int64 (GPU only)."""
        across, down = self.tiles
        return {"x": _small_numbers(self.seed, self.rows, self.columns), "clocks": np.zeros((across * down, 4, 2), np.int64)}

    def truth(self, on_gpu=False):
        return {"o": self.inputs()["x"].astype(np.float64).T}


@dataclass(frozen=True)
class GlobalProblem(_LabProblem):
    """One warp reads 32 elements a step under a layout of lab_global.cu."""

    layout: str = problem_field("row_major", "where element n lies", allowed=LAYOUTS)
    width: int = problem_field(4, "bytes per element: what a lane reads at once", allowed=(4, 8, 16))
    steps: int = problem_field(8, "accesses of the warp", low=1, high=64)
    stride: int = problem_field(8, "elements from lane to lane in the strided layout", low=1, high=256)
    shift: int = problem_field(1, "elements by which the misaligned layout begins late", low=0, high=31)
    block_size: int = problem_field(32, "tokens per page in the paged layouts", allowed=(8, 16, 32))
    seed: int = _seed()

    item = "block"
    remedy = shared_remedy = "Choose fewer steps."
    multiply_adds = 0

    def __post_init__(self):
        check_fields(self)
        if self.layout.startswith("paged") and self.width != 16:
            raise ProblemError(f"width is {self.width}; the paged K cache is split in pieces of 16 bytes. Choose width 16, or another layout.")

    @property
    def defines(self):
        return {"LAYOUT": LAYOUTS.index(self.layout), "WIDTH": self.width}

    @property
    def elements(self):
        count = 32 * self.steps
        return {"strided": count * self.stride, "misaligned": count + self.shift}.get(self.layout, count)

    @property
    def input_bytes(self):
        return self.width * self.elements

    @property
    def size(self):
        return f"{self.layout}, {self.steps} steps"

    def places(self):
        """The element that each lane reads at each step, [steps, 32]."""
        n = np.arange(32 * self.steps)
        token, piece, pieces = n % self.block_size, n // self.block_size, 32 * self.steps // self.block_size
        return {"row_major": n, "strided": n * self.stride, "misaligned": n + self.shift, "paged_split": piece * self.block_size + token,
                "paged_whole": token * pieces + piece}[self.layout].reshape(self.steps, 32)

    def inputs(self):
        """x [elements, width / 4] floats."""
        return {"x": _small_numbers(self.seed, self.elements, self.width // 4)}

    def truth(self, on_gpu=False):
        """The sum of what each lane reads, [32]."""
        return {"o": self.inputs()["x"].astype(np.float64).sum(axis=1)[self.places()].sum(axis=0)}


@dataclass(frozen=True)
class AccessProblem(_LabProblem):
    """One access of one warp: a byte offset for each lane, -1 for a lane that stays out."""

    op: str = problem_field("shared_load", "what kind of access", allowed=ACCESS_OPS)
    width: int = problem_field(4, "bytes per lane", allowed=(1, 2, 4, 8, 16))
    matrices: int = problem_field(4, "of an ldmatrix: 8x8 matrices", allowed=(1, 2, 4))
    offsets: tuple = problem_field(tuple(range(0, 512, 16)), "byte offset of each lane, or -1", low=-1, high=ACCESS_BYTES - 1)

    item = "block"
    remedy = shared_remedy = "Choose smaller offsets."
    multiply_adds = 0
    input_bytes = 2 * ACCESS_BYTES

    def __post_init__(self):
        check_fields(self)
        if len(self.offsets) != 32:
            raise ProblemError(f"offsets has {len(self.offsets)} entries; a warp has 32 lanes (-1 for a lane that stays out).")
        allowed = {"ldmatrix": (16,), "cp_async": (4, 8, 16), "cp_async_l2": (16,)}.get(self.op, (1, 2, 4, 8, 16))
        if self.width not in allowed:
            raise ProblemError(f"width is {self.width}; for {self.op} it must be one of {', '.join(map(str, allowed))}.")
        for lane, offset in enumerate(self.offsets):
            if offset % self.width and offset != -1:
                raise ProblemError(f"offsets[{lane}] is {offset}, not a multiple of the width, {self.width}: the hardware would refuse the access.")
            if offset == -1 and self.op == "ldmatrix" and lane < 8 * self.matrices:
                raise ProblemError(f"offsets[{lane}] is -1; an ldmatrix of {self.matrices} matrices needs the rows of lanes 0 to {8 * self.matrices - 1}.")

    @property
    def outputs(self):
        return {"y": np.uint8} if self.op == "global_store" else {"o": np.float32}

    @property
    def defines(self):
        return {"OP": ACCESS_OPS.index(self.op), "WIDTH": self.width, "MATRICES": self.matrices}

    @property
    def size(self):
        return f"{self.op} of {self.width} bytes"

    def inputs(self):
        """x [BYTES] bytes, whose 32-bit word w is w; y [BYTES], where a global store goes; o [32]."""
        x = np.arange(ACCESS_BYTES // 4, dtype=np.int32).view(np.uint8)
        stores = self.op == "global_store"
        return {"x": x, "y": np.zeros(ACCESS_BYTES, np.uint8), **({"o": np.zeros(32, np.float32)} if stores else {})}

    def truth(self, on_gpu=False):
        offsets, x = np.array(self.offsets), self.inputs()["x"]
        if self.op == "ldmatrix":
            words, lanes = x.view(np.int32), np.arange(32)
            return {"o": sum(words[offsets[8 * i + lanes // 4] // 4 + lanes % 4] for i in range(self.matrices)).astype(np.float64)}
        on, width = offsets >= 0, self.width
        if self.op in ("shared_store", "global_store"):
            x = np.zeros(ACCESS_BYTES, np.uint8)
            for at in offsets[on]:
                x[at:at + width] = np.arange(at // 4, at // 4 + width // 4, dtype=np.int32).view(np.uint8) if width >= 4 else \
                    np.array([at % 251], f"<u{width}").view(np.uint8)
            if self.op == "global_store":
                return {"y": x.astype(np.float64)}
        items = x.view(f"<u{min(width, 4)}").astype(np.float64)
        first = np.where(on, offsets, 0) // min(width, 4)
        return {"o": np.where(on, sum(items[first + i] for i in range(max(1, width // 4))), 0.0)}


# ---- plans ----


def _check_tile(columns, c):
    """ProblemError where a tile's rows of that many floats cannot be read as the constants ask."""
    width, floats = c["WIDTH"], c["WIDTH"] // 4
    if c["MATRICES"] and width != 16:
        raise ProblemError(f"WIDTH is {width}; an ldmatrix reads rows of 16 bytes. Choose WIDTH 16, or MATRICES 0.")
    if columns % floats or (columns + c["PAD"]) % floats:
        raise ProblemError(f"A row of {columns} floats and PAD {c['PAD']} is {4 * (columns + c['PAD'])} bytes; an access of {width} bytes must begin at "
                           f"a multiple of {width}. Choose a stride and a PAD that are multiples of {floats}.")
    pieces = columns // floats
    if c["SWIZZLE"] and pieces & (pieces - 1):
        raise ProblemError(f"A row of {columns} floats holds {pieces} pieces of {width} bytes; the XOR swizzle needs a power of two. "
                           "Choose another stride or WIDTH.")


def columns_plan(problem, c):
    _check_tile(problem.stride, c)
    launch = Launch("lab_columns", (1, 1, 1), (32 * problem.warps, 1, 1), 4 * ROWS * (problem.stride + c["PAD"]),
                    ("x", "o", "clocks", np.int32(problem.stride), np.int32(problem.repeats)), 1)
    return Plan((launch,), {"o": (32 * problem.warps,), "clocks": (problem.warps, 2)}, 1)


def transpose_plan(problem, c):
    _check_tile(ROWS, c)
    if problem.columns % (c["WIDTH"] // 4):
        raise ProblemError(f"columns is {problem.columns}; rows read in pieces of {c['WIDTH']} bytes need a multiple of {c['WIDTH'] // 4}.")
    across, down = problem.tiles
    launch = Launch("lab_transpose", (across, down, 1), (128, 1, 1), 4 * ROWS * (ROWS + c["PAD"]),
                    ("x", "o", "clocks", np.int32(problem.rows), np.int32(problem.columns)), 1)
    return Plan((launch,), {"o": (problem.columns, problem.rows), "clocks": (across * down, 4, 2)}, across * down)


def global_plan(problem, c):
    launch = Launch("lab_global", (1, 1, 1), (32, 1, 1), 0, ("x", "o", *map(np.int32, (problem.steps, problem.stride, problem.shift, problem.block_size))), 1)
    return Plan((launch,), {"o": (32,)}, 1)


def access_plan(problem, c):
    offsets = np.array(problem.offsets, np.int32).view("V128")[0]
    launch = Launch("lab_access", (1, 1, 1), (32, 1, 1), ACCESS_BYTES, ("x", "y", "o", offsets), 1)
    return Plan((launch,), {"y": (ACCESS_BYTES,)} if problem.op == "global_store" else {"o": (32,)}, 1)
