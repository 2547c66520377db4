"""A call of an operator, for Problem.from_call: its tensors by shape, order in memory and type, and its options."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np

from kernels.errors import ProblemError

Option = float | str | bool | tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Given:
    """A tensor of a call.

    axes: a name for each dimension, such as batch, head, query, dim.
    strides: elements from one index to the next of each dimension.
    dtype: the name of a core.dtypes.ElementType, or torch's name for another type."""

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    strides: tuple[int, ...]
    dtype: str

    def is_dense(self, axes: Sequence[str]) -> bool:
        """Whether the elements follow each other without gaps, with the axes in this order, outermost first."""
        return self.strides_are(dense_strides(self.shape, [self.axes.index(axis) for axis in axes]))

    def strides_are(self, strides: Sequence[int]) -> bool:
        """Whether these are its strides. The stride of a dimension of size 1 has no meaning."""
        return all(size == 1 or own == other for size, own, other in zip(self.shape, self.strides, strides))

    def size(self, axis: str) -> int:
        return self.shape[self.axes.index(axis)]


class Values(Protocol):
    """The numbers of a call's tensors, on any device."""

    def __contains__(self, name: object) -> bool:
        """Whether the call has this tensor."""

    def read(self, name: str, rows: Sequence[int] | None = None) -> np.ndarray:
        """A tensor of the call, or some rows of its first axis: float16, float32, or whole numbers.

        Raises ProblemError if all read numbers together are too many for a file."""


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    options: (name, value) of each option that differs from its default.
    outputs: the operator's outputs."""

    operator: str
    tensors: tuple[tuple[str, Given], ...]
    options: tuple[tuple[str, Option], ...] = ()
    outputs: tuple[str, ...] = ()

    def given(self, name: str) -> Given:
        """The tensor with this name. Raises KeyError."""
        return dict(self.tensors)[name]

    def has(self, name: str) -> bool:
        return name in dict(self.tensors)

    def option(self, name: str, default: Option) -> Option:
        return dict(self.options).get(name, default)

    def only(self, *options: str) -> None:
        """Raises ProblemError if the call has other options than these."""
        unknown = [name for name, _ in self.options if name not in options]
        if unknown:
            raise ProblemError(f"Its kernels have no {' and no '.join(unknown)}.")


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a tensor of this shape without gaps. order: its dimensions, outermost first."""
    strides, step = [0] * len(shape), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= shape[dimension]
    return strides


HEADS_FIRST, ROWS_FIRST = "bhsd", "bshd"  # the orders in memory of attention's kernels: b batch, h head, s row, d dim


class AttentionSizes(TypedDict):
    """The fields of a problem that a call of attention gives."""

    batch: int
    num_heads: int
    num_kv_heads: int
    seq_len: int
    seq_len_kv: int
    head_dim: int
    dtype: str
    causal: bool
    layout: str


def attention_sizes(call: Call) -> AttentionSizes:
    """The fields of a problem for a call with q [batch, head, query, dim] and k, v [batch, head, key, dim].
    num_kv_heads and seq_len_kv are 0 if they equal the numbers of the queries. layout: the order in memory of q, and of
    k if q has both orders. The caller copies the other tensors to this order."""
    q, k = call.given("q"), call.given("k")
    heads, kv_heads, queries, keys = q.size("head"), k.size("head"), q.size("query"), k.size("key")
    return {
        "batch": q.size("batch"),
        "num_heads": heads,
        "num_kv_heads": 0 if kv_heads == heads else kv_heads,
        "seq_len": queries,
        "seq_len_kv": 0 if keys == queries else keys,
        "head_dim": q.size("dim"),
        "dtype": q.dtype,
        "causal": bool(call.option("causal", False)),
        "layout": layout_of(q, k),
    }


def layout_of(q: Given, k: Given) -> str:
    rows, keys = ("batch", "query", "head", "dim"), ("batch", "key", "head", "dim")
    if not q.is_dense(rows):
        return HEADS_FIRST
    return ROWS_FIRST if k.is_dense(keys) or not q.is_dense(q.axes) else HEADS_FIRST
