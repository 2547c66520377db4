"""The problem of fp32 kernels with grouped heads, with lengths of their own for queries and keys, and with lse."""

from dataclasses import dataclass
from typing import ClassVar

from kernels.core.fields import problem_field
from kernels.families.tensor_cores.problem import SixteenBitProblem


@dataclass(frozen=True)
class GroupedProblem(SixteenBitProblem):
    """SixteenBitProblem in fp32: the same masks, grouped heads, layouts and `scores`."""

    seq_len: int = problem_field(64, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(32, 64, 128))
    dtype: str = problem_field("float32", "type of all tensors", allowed=("float32",))

    title: ClassVar[str] = "Attention in fp32, any shape"
    recorded_length: ClassVar[int] = 48

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}
