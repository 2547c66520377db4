"""A tensor of a run: its name, shape, type, axes, role and initial value."""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from kernels.core.dtypes import element_type, poison


class Role(Enum):
    """A tensor's role in a kernel.

    INPUT: from the problem, only read.
    OUTPUT: written, and compared with the truth.
    SCRATCH: written, and not compared."""

    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


class Initial(Enum):
    """A tensor's values before a run.

    GIVEN: from the problem's inputs().
    POISON: NaN or the least whole number, so that a missing write shows.
    ZERO: zeros, for sums. Each run sets them first, timed runs too.
    RESTORED: zeros. The kernel leaves zeros again.
    CLEARED: poison. The kernel writes zeros, and later adds to them.
    LOWEST: minus infinity, for maxima. Each run sets it first, timed runs too."""

    GIVEN = "given"
    POISON = "poison"
    ZERO = "zero"
    RESTORED = "restored"
    CLEARED = "cleared"
    LOWEST = "lowest"


SET = (Initial.ZERO, Initial.LOWEST)
"""The initial values that each run sets first."""
SUMS = (Initial.ZERO, Initial.CLEARED)
"""The initial values of a tensor to which blocks add."""


@dataclass(frozen=True)
class Tensor:
    """One tensor.

    axes: a name for each dimension, such as batch, head, query, dim. Views use these names.
    device: the number of its GPU in a plan over several."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    axes: tuple[str, ...] = ()
    role: Role = Role.INPUT
    initial: Initial = field(default=None)  # type: ignore[assignment]  # GIVEN for inputs, else POISON
    device: int = 0

    def __post_init__(self) -> None:
        if self.initial is None:
            object.__setattr__(self, "initial", Initial.GIVEN if self.role is Role.INPUT else Initial.POISON)
        if len(self.axes) != len(self.shape):
            raise ValueError(f"tensor {self.name} has {len(self.shape)} dimensions and {len(self.axes)} axis names")

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        return element_type(self.dtype).bytes

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def is_written(self) -> bool:
        return self.role is not Role.INPUT

    def fresh(self) -> np.ndarray:
        """A new array of this tensor, poisoned, zero or minus infinity."""
        value = 0 if self.initial in (Initial.ZERO, Initial.RESTORED) else poison(self.dtype)
        value = -np.inf if self.initial is Initial.LOWEST else value
        return np.full(self.shape, value, element_type(self.dtype).numpy)
