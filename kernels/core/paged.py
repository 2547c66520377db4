"""A problem's facts about a paged KV cache, and the call of a serving engine's attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np


@dataclass(frozen=True)
class CacheUse:
    """How the problems of a class use a paged KV cache.

    does: attend reads the pages of each sequence, write fills the slots of new tokens, copy copies whole pages.
    dtype: the cache's only type for the kernels, or "" for the type of K and V.
    most_group: the most query heads of one KV head, or 0 for no limit.
    prefix_heads: the query heads for which a page of a shared prefix is read once, or 0."""

    does: Literal["attend", "write", "copy"]
    dtype: str = ""
    most_group: int = 0
    prefix_heads: int = 0

    @property
    def attends(self) -> bool:
        return self.does == "attend"


class HeldSequence(Protocol):
    """A sequence of a cache, such as kv_cache.manager.Sequence. family: a number that forked sequences share."""

    @property
    def table(self) -> tuple[int, ...]: ...
    @property
    def tokens(self) -> tuple[int, ...]: ...
    @property
    def family(self) -> int: ...


class Cache(Protocol):
    """A source of problems, such as kv_cache.manager.KVCache."""

    @property
    def num_blocks(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def sequences(self) -> Sequence[HeldSequence]: ...


class CacheChange(Protocol):
    """The writes of an event, such as kv_cache.manager.Change.

    copied: the pages (from, to) of a copy on write, or None.
    written: (token number, slot) of each new token."""

    @property
    def copied(self) -> tuple[int, int] | None: ...
    @property
    def written(self) -> tuple[tuple[int, int], ...]: ...


@dataclass(frozen=True, eq=False)
class CacheCall:
    """A call of a serving engine's attention: one query per sequence over a paged cache.

    q: [num_seqs, num_heads, head_dim].
    k_cache, v_cache: arrays in the layout of kv_cache.layout.Layout.
    tables: the pages of each sequence, in order.
    lengths: the tokens of each sequence.
    block_size: slots per page.
    scale: a score is scale * q . k, or with a soft cap soft_cap * tanh(scale * q . k / soft_cap).
    k_scale, v_scale: [num_kv_heads] float32, the factors of an 8-bit cache, or ones.
    soft_cap: the limit of a score, or 0.
    window: the visible last tokens of a query, or 0 for all.
    prefix: the number of shared first pages."""

    q: np.ndarray
    k_cache: np.ndarray
    v_cache: np.ndarray
    tables: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    block_size: int
    scale: float
    k_scale: np.ndarray
    v_scale: np.ndarray
    soft_cap: float = 0.0
    window: int = 0
    prefix: int = 0
