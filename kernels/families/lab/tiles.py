"""A tile of 32 rows in shared memory, walked down its columns: the problems of lab_columns.cu and lab_transpose.cu."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kernels.core.expressions import ceil_div
from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case
from kernels.core.tensors import Role, Tensor
from kernels.families.lab.common import LabProblem, tiled

ROWS = 32  # of a tile: one for each lane
TRANSPOSE_WARPS = 4  # of a block of lab_transpose.cu
TILES = tuple(
    {"WIDTH": width, "PAD": pad, "SWIZZLE": swizzle, "MATRICES": matrices}
    for width, swizzle, matrices, pads in (
        (4, 0, 0, (0, 1, 2)),
        (4, 1, 0, (0,)),
        (8, 0, 0, (0, 2)),
        (8, 1, 0, (0,)),
        (16, 0, 0, (0, 4)),
        (16, 1, 0, (0,)),
        (16, 0, 1, (0, 4)),
        (16, 0, 2, (0, 4)),
        (16, 0, 4, (0, 4)),
        (16, 1, 4, (0,)),
    )
    for pad in pads
)
"""The lab's ways to read a tile: every width, plain, padded just enough, swizzled, and by ldmatrix."""
SHOWN_TRANSPOSES = (*TILES[:4], *TILES[-3:])  # the recorded ways: plain, padded, swizzled, and by ldmatrix


@dataclass(frozen=True)
class ColumnsProblem(LabProblem):
    """A tile of 32 rows: lane r walks row r from its first column to its last, `repeats` times, in each of `warps`
    warps."""

    stride: int = problem_field(
        32, "floats per row of the tile: the stride between neighbouring lanes", low=1, high=4096
    )
    repeats: int = problem_field(1, "repetitions of the walk, more than one only for times", low=1, high=1024)
    warps: int = problem_field(1, "warps that walk the tile, all alike", low=1, high=32)
    seed: int = seed_field()

    title = "Columns of a tile"
    remedy = "Choose a smaller stride or PAD."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        strides = (32, 4, 64, 16, 128)
        for n, tile in enumerate(TILES):
            yield tiled(cls(strides[n % 5], 1 + n % 3, 1 + n % 4, n), tile)
        yield from (Case(cls(1)), Case(cls(33)))
        yield Case(cls(36), (("WIDTH", 16),))
        yield Case(cls(30, seed=1), (("WIDTH", 8), ("PAD", 4)))

    @classmethod
    def recorded(cls) -> Iterable[Case]:
        return [tiled(cls(), tile) for tile in TILES]

    @classmethod
    def counted(cls) -> Iterable[Case]:
        return cls.recorded()

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        strides = {f"Rows of {stride} floats": {"stride": stride} for stride in (16, 24, 33, 64)}
        return {"Rows of 32 floats": {}, **strides}

    @property
    def accesses(self) -> int:
        """Each number is read and stored once to fill the tile, and read in each walk."""
        return ROWS * self.stride * (2 + self.repeats * self.warps)

    @property
    def size(self) -> str:
        return f"stride {self.stride}"

    def tensors(self) -> tuple[Tensor, ...]:
        """x: the tile; o: a sum for each lane of each warp; clocks: the cycle at which each warp's walk begins and
        ends."""
        return (
            Tensor("x", (ROWS, self.stride), axes=("row", "column")),
            Tensor("o", (ROWS * self.warps,), axes=("thread",), role=Role.OUTPUT),
            Tensor("clocks", (self.warps, 2), "int64", ("warp", "moment"), Role.SCRATCH),
        )

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return {"o": self.repeats * np.tile(self.x.sum(axis=1), self.warps)}


@dataclass(frozen=True)
class TransposeProblem(LabProblem):
    """O = X^T, through tiles of 32 x 32."""

    rows: int = problem_field(32, "rows of X", low=1, high=8192)
    columns: int = problem_field(32, "columns of X", low=1, high=8192)
    seed: int = seed_field()

    title = "Matrix transpose"
    remedy = "Choose fewer rows or columns."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        sizes = ((32, 32), (64, 96), (1, 4), (33, 36), (40, 28))
        for n, tile in enumerate(TILES):
            yield tiled(cls(*sizes[n % 5], n), tile)
        yield from (Case(cls(1, 1)), Case(cls(31, 65)))
        yield Case(cls(100, 3), (("PAD", 1),))

    @classmethod
    def recorded(cls) -> Iterable[Case]:
        return [tiled(cls(), tile) for tile in SHOWN_TRANSPOSES]

    @classmethod
    def counted(cls) -> Iterable[Case]:
        return [tiled(cls(96, 64), tile) for tile in TILES]

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "One tile": {},
            "Six tiles": {"rows": 64, "columns": 96},
            "Tiles that do not fit": {"rows": 40, "columns": 36},
        }

    @property
    def accesses(self) -> int:
        """Each number is read and written in global memory, and written and read in shared memory."""
        return 4 * self.rows * self.columns

    @property
    def size(self) -> str:
        return f"{self.rows} x {self.columns}"

    def tensors(self) -> tuple[Tensor, ...]:
        """x: the matrix; o: its transpose; clocks: the cycle at which each warp of each block begins and ends."""
        tiles = ceil_div(self.rows, ROWS) * ceil_div(self.columns, ROWS)
        return (
            Tensor("x", (self.rows, self.columns), axes=("row", "column")),
            Tensor("o", (self.columns, self.rows), axes=("column", "row"), role=Role.OUTPUT),
            Tensor("clocks", (tiles, TRANSPOSE_WARPS, 2), "int64", ("block", "warp", "moment"), Role.SCRATCH),
        )

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return {"o": self.x.T}
