"""One head of attention in float64, so that a wrong output can be compared with typical mistakes."""

from dataclasses import dataclass

import numpy as np

from kernels.errors import ProblemError


@dataclass(frozen=True, eq=False)
class Head:
    """The attention of one head.

    output: the name of the tensor with its result.
    at: the place of its rows in the output, in the order of Problem.logical, such as (batch, head).
    scores: [queries, keys] float64, with scale and bias, without a mask.
    values: [keys, dim] float64.
    seen: [queries, keys], whether the query sees the key.
    """

    output: str
    at: tuple[int, ...]
    scores: np.ndarray
    values: np.ndarray
    seen: np.ndarray

    @property
    def hidden(self) -> np.ndarray:
        """The scores with -inf for the keys that a query does not see."""
        return np.where(self.seen, self.scores, -np.inf)


def check_groups(num_heads: int, num_kv_heads: int) -> None:
    """Raises ProblemError unless each KV head has equally many query heads."""
    if num_heads % num_kv_heads:
        raise ProblemError(
            f"num_heads is {num_heads} and num_kv_heads {num_kv_heads}, and num_heads must be a multiple of "
            "num_kv_heads."
        )
