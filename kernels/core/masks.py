"""Masks: the visible keys of each query, as lists of blocks in FlexAttention's terms, and as CSR of elements.

The lists come strip by strip of rows, so 65,536 queries and keys need the memory of one strip. `kv_num_blocks` and
`kv_indices` list partial blocks, with the mask inside. `full_kv_num_blocks` and `full_kv_indices` list full blocks
(torch.nn.attention.flex_attention.BlockMask).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.errors import ProblemError

STRIP = 64  # rows at once
MOST = 2**31 - 1  # of an int32
UNDEFINED = MOST  # in a list past its count: a read there goes far out of bounds and is caught
Matrix = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True)
class Mask:
    """The visible keys of each query. The last query is at the last key.

    kind: one of KINDS, each with its own fields below.
    causal: whether only keys up to the query's own place are visible.
    window: visible keys, up to the query's own.
    sinks: first keys, visible to all.
    stride, dilation: in keys.
    documents: lengths of packed sequences, invisible to each other. The last takes the rest.
    density, seed: the share of visible pairs, and their choice.
    block: keys and queries of a block.
    blocks: [rows, columns] of blocks, whether each is visible."""

    kind: str
    queries: int
    keys: int
    causal: bool = True
    window: int = 128
    sinks: int = 4
    stride: int = 64
    dilation: int = 2
    documents: tuple[int, ...] = ()
    density: float = 0.1
    seed: int = 0
    block: int = 64
    blocks: Matrix = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ProblemError(f"mask is {self.kind!r}. It must be one of {', '.join(KINDS)}.")
        for name in ("queries", "keys", "window", "stride", "dilation", "block"):
            if getattr(self, name) < 1:
                raise ProblemError(f"{name} is {getattr(self, name)}. It must be 1 or more.")
        _check_density(self.density)
        if self.sinks < 0:
            raise ProblemError(f"sinks is {self.sinks}. It must be 0 or more.")
        if any(length < 1 for length in self.documents):
            raise ProblemError(f"documents are {self.documents}. Each length must be 1 or more.")
        shape = -(-self.queries // self.block), -(-self.keys // self.block)
        if self.kind == "blocks" and (len(self.blocks), *{len(row) for row in self.blocks}) != shape:
            raise ProblemError(
                f"blocks are {len(self.blocks)} rows of {sorted({len(row) for row in self.blocks})}, but "
                f"{self.queries} queries and {self.keys} keys in blocks of {self.block} are {shape[0]} rows of "
                f"{shape[1]}."
            )

    @cached_property
    def block_array(self) -> np.ndarray:
        return np.array(self.blocks, bool)

    def strip(self, first: int, end: int) -> np.ndarray:
        """Whether queries `first` to `end` (exclusive) see each key, bool [end - first, keys]."""
        at = np.arange(first, min(end, self.queries), dtype=np.int32)[:, None] + self.keys - self.queries  # its own key
        key = np.arange(self.keys, dtype=np.int32)[None, :]
        seen = KINDS[self.kind](self, at, key)
        return seen & (key <= at) if self.causal else np.broadcast_to(seen, (len(at), self.keys))

    def strips(self, rows: int) -> Iterator[np.ndarray]:
        return (self.strip(first, first + rows) for first in range(0, self.queries, rows))

    def dense(self) -> np.ndarray:
        return self.strip(0, self.queries)

    @property
    def visible(self) -> int:
        return sum(int(strip.sum()) for strip in self.strips(STRIP))


# ---- the kinds: whether queries with their own keys `at` [rows, 1] see `key` [1, keys] ----


def _near(mask: Mask, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The window before the query, with its own key. If the mask is not causal, the window after it too."""
    return (key > at - mask.window) & (key < at + mask.window)


def _dilated(mask: Mask, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Longformer (Beltagy et al. 2020, arXiv:2004.05150): `window` keys, `dilation` apart."""
    far = np.abs(at - key)
    return (far % mask.dilation == 0) & (far < mask.window * mask.dilation)


def _documents(mask: Mask, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    """A query before the first key is in none."""
    ends = np.cumsum(mask.documents)
    return (np.searchsorted(ends, at, side="right") == np.searchsorted(ends, key, side="right")) & (at >= 0)


def _random(mask: Mask, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    """A hash of a pair's two places decides, so each strip gives the same answer. The mixing is MurmurHash3's last step
    (Appleby, public domain)."""
    mixed = at.astype(np.uint32) * np.uint32(0x9E3779B1) ^ (key.astype(np.uint32) + np.uint32(mask.seed)) * np.uint32(
        0x85EBCA77
    )
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ mixed >> np.uint32(shift)) * np.uint32(factor)
    return (mixed ^ mixed >> np.uint32(16)) < np.uint64(round(mask.density * 2**32))


def _blocks(mask: Mask, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    row = (at[:, 0] - (mask.keys - mask.queries)) // mask.block
    return np.repeat(mask.block_array[row], mask.block, axis=1)[:, : mask.keys]


KINDS: dict[str, Callable[[Mask, np.ndarray, np.ndarray], np.ndarray]] = {
    "all": lambda mask, at, key: np.ones((len(at), key.shape[1]), bool),
    "window": _near,
    "sinks": lambda mask, at, key: _near(mask, at, key) | (key < mask.sinks),
    "documents": _documents,
    # Sparse Transformer (Child et al. 2019, arXiv:1904.10509): the window, and every stride-th key
    "strided": lambda mask, at, key: _near(mask, at, key) | ((key + 1) % mask.stride == 0),
    "dilated": _dilated,
    # the query's own block, and the last key of every block as its summary
    "hierarchical": lambda mask, at, key: (at // mask.block == key // mask.block) | ((key + 1) % mask.block == 0),
    "random": _random,
    "blocks": _blocks,
}


def _check_density(density: float) -> None:
    if not 0 < density <= 1:
        raise ProblemError(f"density is {density}. It must be above 0 and at most 1.")


# ---- matrices of blocks ----


def random_blocks(rows: int, columns: int, density: float, seed: int) -> Matrix:
    """Random blocks: the share `density` of each row, at least one."""
    _check_density(density)
    rng, count = np.random.default_rng(seed), max(1, round(density * columns))
    visible = np.zeros((rows, columns), bool)
    for row in visible:
        row[rng.choice(columns, count, replace=False)] = True
    return as_matrix(visible)


def top_blocks(q: np.ndarray, k: np.ndarray, block: int, count: int) -> Matrix:
    """For each block of queries, the `count` visible blocks of keys with the largest product of means.

    q, k: [queries, dim] and [keys, dim] of a head.
    Source: MoBA's gate, Lu et al. 2025, arXiv:2502.13189."""
    scores = _pooled(q, block) @ _pooled(k, block).T
    last = np.minimum(np.arange(1, len(scores) + 1) * block, len(q)) - 1 + len(k) - len(q)
    scores[np.arange(scores.shape[1]) * block > last[:, None]] = -np.inf
    visible = np.zeros(scores.shape, bool)
    for row, score in zip(visible, scores):
        best = np.argsort(-score, kind="stable")[:count]
        row[best[np.isfinite(score[best])]] = True
    return as_matrix(visible)


def _pooled(x: np.ndarray, block: int) -> np.ndarray:
    """The mean of every `block` rows, [blocks, dim] in float64. The last block may have fewer rows."""
    starts = np.arange(0, len(x), block)
    return np.add.reduceat(x.astype(np.float64), starts) / np.diff([*starts, len(x)])[:, None]


def as_matrix(array: np.ndarray) -> Matrix:
    return tuple(tuple(bool(one) for one in row) for row in array)


# ---- lists ----


@dataclass(frozen=True, eq=False)
class BlockLists:
    """A mask as lists of key blocks for each query block, in int32.

    kv_num_blocks, full_kv_num_blocks: [rows], the counts of partial and full blocks.
    kv_indices, full_kv_indices: [rows, columns], the blocks in rising order, UNDEFINED past the count.
    kv_patterns: [rows, columns], the pattern of each partial block, next to kv_indices.
    patterns: [count, block_q, words]. Bit i of word w is key 32 w + i of the block. Equal blocks share a pattern.

    All elements of a full block are visible, and it ends before the last key. A partial block has at least one visible
    element."""

    block_q: int
    block_kv: int
    kv_num_blocks: np.ndarray
    kv_indices: np.ndarray
    full_kv_num_blocks: np.ndarray
    full_kv_indices: np.ndarray
    kv_patterns: np.ndarray
    patterns: np.ndarray

    @property
    def ledger(self) -> dict[str, int]:
        full, partial = int(self.full_kv_num_blocks.sum()), int(self.kv_num_blocks.sum())
        return {"full": full, "partial": partial, "skipped": self.kv_indices.size - full - partial}


def block_lists(mask: Mask, block_q: int, block_kv: int, known: "dict[bytes, int] | None" = None) -> BlockLists:
    """The BlockLists of a mask. known: the patterns of earlier masks. New patterns continue their numbers there."""
    rows, columns = -(-mask.queries // block_q), -(-mask.keys // block_kv)
    words, known = -(-block_kv // 32), {} if known is None else known
    counts = {name: np.zeros(rows, np.int32) for name in ("partial", "full")}
    indices = {name: np.full((rows, columns), UNDEFINED, np.int32) for name in ("partial", "full", "pattern")}
    for row, strip in enumerate(mask.strips(block_q)):
        padded = np.zeros((block_q, columns * block_kv), bool)
        padded[: len(strip), : mask.keys] = strip
        cells = padded.reshape(block_q, columns, block_kv)
        seen = cells.sum(axis=(0, 2))
        full = seen == len(strip) * block_kv
        for name, of_row in (("partial", (seen > 0) & ~full), ("full", full)):
            (listed,) = np.nonzero(of_row)
            counts[name][row], indices[name][row, : len(listed)] = len(listed), listed
            if name == "partial":
                bits = np.zeros((len(listed), block_q, words * 32), bool)
                bits[:, :, :block_kv] = cells[:, listed].swapaxes(0, 1)
                packed = np.packbits(bits, axis=2, bitorder="little")
                numbers = [known.setdefault(block.tobytes(), len(known)) for block in packed]
                indices["pattern"][row, : len(listed)] = numbers
    patterns = np.frombuffer(b"".join(known), "<i4").reshape(len(known), block_q, words)
    return BlockLists(
        block_q,
        block_kv,
        counts["partial"],
        indices["partial"],
        counts["full"],
        indices["full"],
        indices["pattern"],
        patterns,
    )


def csr(mask: Mask) -> tuple[np.ndarray, np.ndarray]:
    """(indptr [queries + 1], indices [visible]), int32. Query i has keys indices[indptr[i] : indptr[i + 1]], rising."""
    visible = mask.visible
    if visible > MOST:
        raise ProblemError(f"{visible:,} pairs are seen. An int32 index reaches {MOST:,}. Take fewer tokens.")
    columns = [np.nonzero(row)[0].astype(np.int32) for strip in mask.strips(STRIP) for row in strip]
    lengths = np.fromiter(map(len, columns), np.int64, len(columns))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), np.concatenate(columns)
