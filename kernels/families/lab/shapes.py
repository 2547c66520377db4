"""Reads of a matrix in rows, tiles and columns, through a 2-D texture or from global memory (lab_shapes.cu)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.tensors import Role, Tensor
from kernels.families.lab.common import WARP, seed_field, small_numbers
from kernels.families.lab.patterns import PASSES, Pattern

WARPS, SIDE, ACROSS = 16, 32, 32  # of the block; rows and columns of an area; areas side by side
FEW, MANY = 32, 4096  # areas whose shapes fit L1, and areas whose shapes only L2 holds
TIMED_READS = 4096  # of a pass
COLUMNS = (32, 16, 8, 4, 2, 1)


@dataclass(frozen=True)
class ShapesProblem(Pattern):
    """Each of 16 warps reads 32 numbers of an area of 32 x 32, then 32 numbers of another area, and so on."""

    columns: int = problem_field(8, "columns of a warp's shape, which has 32 / columns rows", allowed=COLUMNS)
    areas: int = problem_field(FEW, "areas of 32 x 32 numbers, a shape in each", allowed=(FEW, 64, 128, MANY))
    reads: int = problem_field(32, "reads of a warp in a pass, in turns by the warps", low=1, high=2**16)
    passes: int = problem_field(1, "times that the reads are timed", low=1, high=4096)
    seed: int = seed_field()

    title = "Shapes of a warp's reads"
    remedy = "Choose fewer areas or reads."

    @classmethod
    def problems(cls) -> Iterable["ShapesProblem"]:
        """Every shape with areas in one and several rows, fewer and more reads than areas, with both memories each."""
        for n, areas in enumerate((FEW, 64, 128)):
            for columns in COLUMNS:
                for reads in (5, 48, 130):
                    for _memory in range(2):
                        yield cls(columns, areas, reads, 1 + reads % 2, n)

    def timed(self) -> "ShapesProblem":
        return replace(self, reads=TIMED_READS, passes=PASSES, seed=0)

    def cycles(self, clocks: np.ndarray) -> np.ndarray:
        """Of one read of a warp, while 16 warps read."""
        return clocks / self.reads

    @property
    def accesses(self) -> int:
        return WARP * self.reads * self.passes

    @property
    def size(self) -> str:
        return f"shapes of {WARP // self.columns} x {self.columns} in {self.areas} areas"

    def tensors(self) -> tuple[Tensor, ...]:
        """x: the matrix; o: a sum for each thread; clocks: the cycles of each pass."""
        shape = (self.areas // ACROSS * SIDE, ACROSS * SIDE)
        return (
            Tensor("x", shape, axes=("row", "column")),
            Tensor("o", (WARPS * WARP,), axes=("thread",), role=Role.OUTPUT),
            Tensor("clocks", (self.passes,), "int64", ("pass",), Role.SCRATCH),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """x [rows, 1024]."""
        return {"x": small_numbers(self.seed, self.areas // ACROSS * SIDE, ACROSS * SIDE)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [512]: a sum over the areas of each warp."""
        x = self.inputs()["x"].astype(np.float64).reshape(-1, SIDE, ACROSS, SIDE)
        shapes = x[:, : WARP // self.columns, :, : self.columns].swapaxes(1, 2).reshape(self.areas, WARP)
        sums = np.zeros((WARPS, WARP))
        for read in range(self.reads):
            sums[read % WARPS] += shapes[read % self.areas]
        return {"o": self.passes * sums.reshape(-1)}
