"""Patterns of a block: numbers added to one sum, tiles brought into shared memory, lanes that read one address or many,
reads of a matrix in rows, tiles and columns, and warps with different roles."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kernels.core.cases import traced
from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role, Tensor
from kernels.families.lab.common import WARP, LabProblem

THREADS = 128  # of the block of lab_tiles_*.cu
LINKS = 16  # of a pass of lab_reads.cu
PASSES = 101  # of a timed run
MOST_BLOCKS, MOST_THREADS = 32, 2048  # of an SM
WARPS, SIDE, ACROSS = 16, 32, 32  # of the block of lab_shapes.cu; rows and columns of an area; areas side by side
FEW, MANY = 32, 4096  # areas whose shapes fit L1, and areas whose shapes only L2 holds
TIMED_READS = 4096  # of a pass
COLUMNS = (32, 16, 8, 4, 2, 1)


class Pattern(LabProblem):
    """A problem whose kernels are the ways of one pattern. Every named value of a constant is a way."""

    @classmethod
    def problems(cls) -> Iterable[Self]:
        """The problems that are compared with float64."""
        raise NotImplementedError

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Each problem with one of the ways, in turns."""
        ways = settings_of(kernel)
        return [Case(problem, ways[n % len(ways)]) for n, problem in enumerate(cls.problems())]

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        return traced(kernel, [Case(cls(), settings) for settings in settings_of(kernel)])

    def timed(self) -> Self:
        """The same problem with enough passes or tiles for a median."""
        raise NotImplementedError

    def cycles(self, clocks: np.ndarray) -> np.ndarray:
        """The cycles of each pass or tile, from the tensor clocks of a timed build."""
        raise NotImplementedError

    def filled(self, passes: int) -> tuple[Self, int] | None:
        """The problem with so many passes, and the blocks that fill an SM. None for a pattern without a rate."""
        return None


def settings_of(kernel: KernelSpec) -> list[tuple[tuple[str, int], ...]]:
    """The settings of each way of a kernel."""
    named = [constant for constant in kernel.constants if constant.names]
    return [((constant.name, value),) for constant in named for value in constant.values] or [()]


@dataclass(frozen=True)
class ReduceProblem(Pattern):
    """One block adds `numbers` numbers, one for each of its threads, `repeats` times."""

    numbers: int = problem_field(256, "numbers to add, one for each thread", allowed=(32, 64, 128, 256, 512, 1024))
    repeats: int = problem_field(1, "repetitions of the sum, more than one only for times", low=1, high=4096)
    seed: int = seed_field()

    title = "Reductions"
    remedy = "Choose fewer numbers."

    @classmethod
    def problems(cls) -> Iterable[Self]:
        for seed in range(4):
            for numbers in (32, 64, 128, 256, 512, 1024):
                for repeats in (1, 2, 3):
                    yield cls(numbers, repeats, 100 * seed + repeats)

    @property
    def accesses(self) -> int:
        """Each number is stored once and read once, and a tree reads and stores as many partial sums again."""
        return 5 * self.numbers * self.repeats

    @property
    def size(self) -> str:
        return f"{self.numbers} numbers"

    def timed(self) -> Self:
        return replace(self, repeats=PASSES, seed=0)

    def filled(self, passes: int) -> tuple[Self, int]:
        return replace(self, repeats=passes, seed=0), min(MOST_BLOCKS, MOST_THREADS // self.numbers)

    def cycles(self, clocks: np.ndarray) -> np.ndarray:
        """From numbers in shared memory to their sum."""
        return clocks

    def tensors(self) -> tuple[Tensor, ...]:
        """x: the numbers; o: their sum, zero at first; clocks: the cycles of each pass."""
        return (
            Tensor("x", (self.numbers,), axes=("thread",)),
            Tensor("o", (1,), axes=("sum",), role=Role.OUTPUT, initial=Initial.ZERO),
            Tensor("clocks", (self.repeats,), "int64", ("pass",), Role.SCRATCH),
        )

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return {"o": self.repeats * self.x.sum(keepdims=True)}


@dataclass(frozen=True)
class TilesProblem(Pattern):
    """A block of 128 threads brings tiles into shared memory. Thread t adds the elements t, t + 128, ... of each tile,
    `rounds` times."""

    tiles: int = problem_field(4, "tiles, one after another", low=1, high=4096)
    tile_size: int = problem_field(1024, "floats of a tile", allowed=(512, 1024, 2048))
    rounds: int = problem_field(1, "passes over each tile in shared memory", low=1, high=64)
    seed: int = seed_field()

    remedy = "Choose fewer tiles."

    @classmethod
    def problems(cls) -> Iterable[Self]:
        for seed in range(3):
            for tiles in (1, 2, 3, 4, 5, 8, 13):
                for tile_size in (512, 1024, 2048):
                    yield cls(tiles, tile_size, 1 + (tiles + seed) % 3, seed)

    @property
    def defines(self) -> dict[str, int]:
        return {"TILE": self.tile_size}

    @property
    def accesses(self) -> int:
        """Each number is read and stored once, and read in each pass."""
        return (2 + self.rounds) * self.tiles * self.tile_size

    @property
    def size(self) -> str:
        return f"{self.tiles} tiles of {self.tile_size} floats"

    def timed(self) -> Self:
        return replace(self, tiles=PASSES, seed=0)

    def cycles(self, clocks: np.ndarray) -> np.ndarray:
        """From the end of one tile to the end of the next."""
        return np.diff(clocks)

    def tensors(self) -> tuple[Tensor, ...]:
        """x: the tiles; o: a sum for each thread; clocks: the cycle at the start and after each tile."""
        return (
            Tensor("x", (self.tiles, self.tile_size), axes=("tile", "element")),
            Tensor("o", (THREADS,), axes=("thread",), role=Role.OUTPUT),
            Tensor("clocks", (self.tiles + 1,), "int64", ("moment",), Role.SCRATCH),
        )

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        x = self.x.reshape(-1, THREADS)
        return {"o": self.rounds * x.sum(axis=0)}


@dataclass(frozen=True)
class LoadProblem(TilesProblem):
    """The tiles, one after another: only the copies differ."""

    title = "Cooperative loading"


@dataclass(frozen=True)
class StagesProblem(TilesProblem):
    """The tiles, and the copies of the next ones at the same time."""

    rounds: int = problem_field(4, "passes over each tile in shared memory", low=1, high=64)

    title = "Double buffering"


@dataclass(frozen=True)
class ReadsProblem(Pattern):
    """One warp reads `different` words at once: lane l the word l % different, again and again."""

    different: int = problem_field(1, "different words that the 32 lanes read at once", low=1, high=WARP)
    passes: int = problem_field(1, f"times that {LINKS} reads are timed", low=1, high=4096)

    title = "Reads of one address or many"
    remedy = "Choose fewer passes."

    @classmethod
    def problems(cls) -> Iterable[Self]:
        for different in range(1, WARP + 1):
            for _memory in range(2):
                yield cls(different, 1 + different % 3)

    def timed(self) -> Self:
        return replace(self, passes=PASSES)

    def cycles(self, clocks: np.ndarray) -> np.ndarray:
        """The cycles of one read."""
        return clocks / LINKS

    @property
    def defines(self) -> dict[str, int]:
        return {"LINKS": LINKS}

    @property
    def accesses(self) -> int:
        return WARP * LINKS * self.passes

    @property
    def size(self) -> str:
        return f"{self.different} different words"

    def tensors(self) -> tuple[Tensor, ...]:
        """n: word w holds w; o: the word of each lane; clocks: the cycles of each pass."""
        return (
            Tensor("n", (1024,), "int32", ("word",)),
            Tensor("o", (WARP,), axes=("lane",), role=Role.OUTPUT),
            Tensor("clocks", (self.passes,), "int64", ("pass",), Role.SCRATCH),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        return {"n": np.arange(1024, dtype=np.int32)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return {"o": (np.arange(WARP) % self.different).astype(np.float64)}


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
    def problems(cls) -> Iterable[Self]:
        for n, areas in enumerate((FEW, 64, 128)):
            for columns in COLUMNS:
                for reads in (5, 48, 130):
                    for _memory in range(2):
                        yield cls(columns, areas, reads, 1 + reads % 2, n)

    def timed(self) -> Self:
        return replace(self, reads=TIMED_READS, passes=PASSES, seed=0)

    def cycles(self, clocks: np.ndarray) -> np.ndarray:
        """The cycles of one read of a warp, while 16 warps read."""
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

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        x = self.x.reshape(-1, SIDE, ACROSS, SIDE)
        shapes = x[:, : WARP // self.columns, :, : self.columns].swapaxes(1, 2).reshape(self.areas, WARP)
        sums = np.zeros((WARPS, WARP))
        for read in range(self.reads):
            sums[read % WARPS] += shapes[read % self.areas]
        return {"o": self.passes * sums.reshape(-1)}


@dataclass(frozen=True)
class RolesProblem(LabProblem):
    """A producer warp copies tiles to shared memory. Consumer warp c of C sums in its lane l the elements i of each
    tile with i % (32 * C) == 32 * c + l."""

    tiles: int = problem_field(4, "tiles that the producer brings, one after another", low=1, high=1024)
    tile_size: int = problem_field(64, "floats of a tile", low=1, high=4096)
    consumers: int = problem_field(2, "warps that sum the producer's tiles", low=1, high=31)
    seed: int = seed_field()

    title = "Warp roles"
    remedy = "Choose fewer tiles, or smaller ones."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        sizes = ((1, 32, 1), (4, 64, 2), (3, 64, 1), (5, 128, 3), (9, 256, 4), (2, 512, 8))
        for n, size in enumerate(sizes):
            yield Case(cls(*size, n))

    @classmethod
    def counted(cls) -> Iterable[Case]:
        return [Case(cls())]

    @property
    def accesses(self) -> int:
        """The producer reads and stores each number, and one consumer reads it."""
        return 3 * self.tiles * self.tile_size

    @property
    def size(self) -> str:
        return f"{self.tiles} tiles of {self.tile_size} floats, {self.consumers} consumers"

    def tensors(self) -> tuple[Tensor, ...]:
        """x: the tiles in order.

        o: a sum for each lane of each consumer."""
        return (
            Tensor("x", (self.tiles * self.tile_size,), axes=("element",)),
            Tensor("o", (self.consumers * WARP,), axes=("thread",), role=Role.OUTPUT),
        )

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        threads = self.consumers * WARP
        of_element = self.x.reshape(self.tiles, self.tile_size).sum(axis=0)
        thread = np.arange(self.tile_size) % threads
        return {"o": np.bincount(thread, of_element, minlength=threads)}
