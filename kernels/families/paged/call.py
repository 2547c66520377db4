"""What is asked of another program's attention over this cache: the same pages, tables and pool."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class CacheCall:
    """One query per sequence over a paged cache, as every engine's interface has it.

    q: [num_seqs, num_heads, head_dim]; k_cache, v_cache: as kv_cache.Layout has them; tables: per sequence the pages
    that it needs, in order; lengths: tokens of each sequence. A score is soft_cap * tanh(scale * q . k / soft_cap), or
    scale * q . k where soft_cap is 0; window: the last tokens that a query sees, 0 for all. k_scale, v_scale:
    [num_kv_heads] float32, by which the numbers of an 8-bit cache stand multiplied, ones for others. prefix: how many
    pages, from the first on, all sequences have in common; 0 for none.
    """

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
