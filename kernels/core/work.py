"""The work of a run, for rates."""

from typing import NamedTuple


class Work(NamedTuple):
    """The work of a run, independent of the kernel.

    flops: 4 per score and dim, from the two matrix products of attention.
    tokens: the tokens with an output, or the moved tokens.
    touched: tensor -> moved bytes of all launches, for tensors with partial or repeated accesses.
    """

    flops: int
    tokens: int
    touched: dict[str, int]
