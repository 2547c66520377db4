"""The numbers of a watched call of paged_decode, from their file (build/own_values.py): q, the block tables, and the
caches with only the pages of these tables."""

from typing import Protocol

import numpy as np

from kernels.build import own_values
from kernels.kv_cache.layout import Layout


class Watched(Protocol):
    """The fields of a PagedProblem with the numbers of a call."""

    @property
    def numbers(self) -> str: ...
    @property
    def context_lens(self) -> tuple[int, ...]: ...
    @property
    def block_tables(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def block_size(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def layout(self) -> Layout: ...


def renumbered(tables: np.ndarray, lens: np.ndarray, block_size: int) -> tuple[np.ndarray, list[int]]:
    """The block tables with their pages numbered from 0 in the order of the pool, and these pages of the pool.

    tables: [sequences, entries]. The result has -1 after the pages of a sequence.
    """
    needed = -(-lens.astype(np.int64) // block_size)
    used = np.arange(tables.shape[1]) < needed[:, None]
    pages, number = np.unique(tables[used], return_inverse=True)
    made = np.full((len(tables), max(1, int(needed.max(initial=1)))), -1, np.float32)
    used = used[:, : made.shape[1]]
    made[used] = number
    return made, pages.tolist()


def load(problem: Watched, name: str) -> np.ndarray:
    """q or block_tables of the file."""
    longest = max(-(-length // problem.block_size) for length in problem.context_lens)
    shapes = {"q": problem.shape, "block_tables": (len(problem.context_lens), longest)}
    return own_values.load(problem.numbers, {name: shapes[name]})[name]


def tables(problem: Watched) -> tuple[tuple[int, ...], ...]:
    """The block tables of the file."""
    found = load(problem, "block_tables").astype(int)
    return tuple(tuple(page for page in row if page >= 0) for row in found.tolist())


def rows(problem: Watched) -> tuple[np.ndarray, np.ndarray]:
    """K and V of every position of every sequence, [positions, num_kv_heads, head_dim] float32."""
    pages = 1 + max(page for row in problem.block_tables for page in row)
    shapes = {"k_cache": problem.layout.k_shape, "v_cache": problem.layout.v_shape}
    caches = own_values.load(problem.numbers, {name: (pages, *shape[1:]) for name, shape in shapes.items()})
    parts = [
        problem.layout.gather(caches["k_cache"], caches["v_cache"], table, length)
        for table, length in zip(problem.block_tables, problem.context_lens)
    ]
    k, v = (np.concatenate(each) for each in zip(*parts))
    return k, v
