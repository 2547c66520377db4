"""The shared fields of problems over a paged cache, and their values."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from kernels.build import own_values
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field
from kernels.errors import ProblemError

HEAD_DIMS, BLOCK_SIZES, DTYPES = (64, 80, 96, 128, 256), (8, 16, 32), ("float32", "float16")
RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES = (64, 128), (8, 16, 32, 64), ("float16", "bfloat16")
"""The same for the kernels over ranges."""
FP8 = "float8_e4m3"
FP8_MAX = element_type(FP8).largest  # 448
HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (8, 1), (1, 1))  # query heads, KV heads of check cases
LAYOUTS = tuple(product(HEAD_DIMS, BLOCK_SIZES, DTYPES))
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "q": ("query", "queries"),
    "k_cache": ("kcache", "keycache", "keypages", "kpages", "k", "kpool"),
    "v_cache": ("vcache", "valuecache", "valuepages", "vpages", "v", "vpool"),
    "o": ("out", "output", "result"),
    "block_tables": ("blocktable", "pagetable", "pagetables", "table"),
    "context_lens": ("lengths", "seqlens", "contextlen", "lens"),
    "num_seqs": ("batch", "b", "sequence", "sequences", "numsequences", "seq"),
    "num_heads": ("heads", "head", "h", "nh"),
    "num_kv_heads": ("kvheads", "hk", "nkvheads"),
    "head_dim": ("headsize", "d", "dim"),
    "block_size": ("pagesize", "page"),
    "max_blocks_per_seq": ("maxblocks", "tablestride", "maxpages", "maxnumblocksperseq"),
    "scale": ("softmaxscale", "smscale"),
}
CACHE_DTYPES = ("", FP8)  # of a cache whose type may differ from that of Q


def head_dim_field() -> Any:
    return problem_field(64, "numbers per query, key and value", allowed=HEAD_DIMS)


def block_size_field() -> Any:
    return problem_field(16, "slots per page", allowed=BLOCK_SIZES)


def dtype_field() -> Any:
    return problem_field("float32", "storage of Q, K, V and O, with float32 sums", allowed=DTYPES)


def numbers_field() -> Any:
    meaning = "the numbers of Q, K and V"
    return problem_field("random", meaning, allowed=("random",), also=own_values.PATTERN, later=True)


Q_STREAM, K_STREAM, V_STREAM, TABLE_STREAM, OLD_STREAM = range(5)  # random streams of one seed


def random_rows(seed: int, stream: int, count: int, shape: tuple[int, ...], dtype: str | type) -> np.ndarray:
    """`count` standard normal arrays of `shape`, [count, *shape]. A larger count keeps the first rows."""
    rows = np.random.default_rng((seed, stream)).standard_normal((count, *shape), dtype=np.float32)
    return rows.astype(element_type(dtype).numpy)


def rows_at(seed: int, stream: int, numbers: np.ndarray, shape: tuple[int, ...], dtype: str | type) -> np.ndarray:
    """The rows of random_rows with these numbers, [len(numbers), *shape], drawn in pieces to save memory."""
    found = np.empty((len(numbers), *shape), element_type(dtype).numpy)
    rng, count = np.random.default_rng((seed, stream)), int(numbers.max()) + 1
    at_once = max(1, 2**20 // math.prod(shape))
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], range(at_once, count + at_once, at_once))
    for first, (begin, end) in zip(range(0, count, at_once), zip([0, *ends], ends)):
        rows = rng.standard_normal((min(at_once, count - first), *shape), dtype=np.float32)
        chosen = order[begin:end]
        found[chosen] = rows[numbers[chosen] - first].astype(found.dtype)  # copying first, then casting: half the time
    return found


Rows = tuple[tuple[int, ...], ...]


def check_tables(tables: Rows, lens: tuple[int, ...], families: tuple[int, ...], block_size: int, pool: int) -> None:
    """Raises ProblemError for a block table that is too short, leaves the pool, or shares a page wrongly.

    pool: the number of pages."""
    held: dict[int, tuple[int, int]] = {}  # page -> (sequence, entry) that holds it first
    for seq, (row, length) in enumerate(zip(tables, lens)):
        count = -(-length // block_size)
        if len(row) < count:
            raise ProblemError(
                f"Sequence {seq} has context length {length}, which needs {count} pages of {block_size} slots. Its "
                f"block table has {len(row)} entries."
            )
        for entry, page in enumerate(row):
            if not 0 <= page < pool:
                raise ProblemError(
                    f"Sequence {seq}, entry {entry} of its block table is {page}. The pool has pages 0 to {pool - 1}."
                )
            other, other_entry = held.setdefault(page, (seq, entry))
            if other == seq and other_entry != entry:
                raise ProblemError(
                    f"Sequence {seq}, entries {other_entry} and {entry} of its block table are both page {page}. "
                    "A page has one place."
                )
            twice = f"Page {page} is entry {entry} of sequence {seq} and entry {other_entry} of sequence {other}"
            if other != seq and not (families and families[seq] == families[other]):
                raise ProblemError(
                    f"{twice}, which did not fork from one another. Give forked sequences the same number in families."
                )
            if other != seq and other_entry != entry:
                raise ProblemError(f"{twice}. Forked sequences share a page only at the same place.")


def check_tokens(token_ids: Rows, lens: tuple[int, ...]) -> None:
    """Raises ProblemError if a sequence has too few or too many tokens."""
    for seq, row in enumerate(token_ids):
        if len(row) != lens[seq]:
            raise ProblemError(
                f"Sequence {seq} has {len(row)} token_ids and context length {lens[seq]}. They must be equal."
            )


def check_slots(slots: np.ndarray, ids: np.ndarray, block_size: int) -> None:
    """Raises ProblemError if a slot of a shared page would hold two tokens."""
    order = np.lexsort((ids, slots))
    slots, ids = slots[order], ids[order]
    clash = np.flatnonzero((slots[1:] == slots[:-1]) & (ids[1:] != ids[:-1]))
    if len(clash):
        at = clash[0]
        raise ProblemError(
            f"Slot {slots[at] % block_size} of page {slots[at] // block_size} would hold tokens {ids[at]} and "
            f"{ids[at + 1]}. Sequences that share a page share its tokens."
        )


def renumbered(tables: np.ndarray, lens: np.ndarray, block_size: int) -> tuple[np.ndarray, list[int]]:
    """The block tables with their pages numbered from 0 in the order of the pool, and these pages of the pool.

    tables: [sequences, entries]. The result has -1 after the pages of a sequence."""
    needed = -(-lens.astype(np.int64) // block_size)
    used = np.arange(tables.shape[1]) < needed[:, None]
    pages, number = np.unique(tables[used], return_inverse=True)
    made = np.full((len(tables), max(1, int(needed.max(initial=1)))), -1, np.float32)
    used = used[:, : made.shape[1]]
    made[used] = number
    return made, pages.tolist()
