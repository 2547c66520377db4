"""The random rows of queries, keys and values over a paged cache."""

import math

import numpy as np

from kernels.core.dtypes import element_type

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
