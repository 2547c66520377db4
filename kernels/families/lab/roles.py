"""Warps of one block with different roles: a producer copies tiles, and consumers sum them (lab_roles.cu)."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case
from kernels.core.tensors import Role, Tensor
from kernels.families.lab.common import WARP, LabProblem, seed_field, small_numbers


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
        """One consumer and several, one tile and more, with even and uneven shares of the lanes."""
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

        o: a sum for each lane of each consumer.
        """
        return (
            Tensor("x", (self.tiles * self.tile_size,), axes=("element",)),
            Tensor("o", (self.consumers * WARP,), axes=("thread",), role=Role.OUTPUT),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """x [tiles * tile_size]."""
        return {"x": small_numbers(self.seed, self.tiles * self.tile_size)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [consumers * 32]."""
        threads = self.consumers * WARP
        of_element = self.inputs()["x"].astype(np.float64).reshape(self.tiles, self.tile_size).sum(axis=0)
        thread = np.arange(self.tile_size) % threads
        return {"o": np.bincount(thread, of_element, minlength=threads)}
