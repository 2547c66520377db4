"""One mask by single keys (CSR) or by blocks of several sizes.

With CSR each pair costs a key and a value of its own, gathered for one row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.sparsity import block_mask
from explainers.stories.sparsity.mask_times import csr_times
from explainers.story import axes, picture, stage
from explainers.story.glossary import figure
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.memory import model

SIZES = (16, 32, 64, 128)  # sides of square blocks
MOST = 1 << 26  # most pairs of a head
VECTOR = 16  # bytes of a lane's read


@dataclass(frozen=True)
class Way:
    """One way to execute a head's mask.

    name: the way in words.
    pairs: computed pairs.
    bytes: requested bytes of K and V.
    sectors: moved sectors of 32 bytes.
    users: the most rows that use one loaded key.
    executed: the share of executed blocks, NaN for lists of keys.
    """

    name: str
    pairs: int
    bytes: int
    sectors: int
    users: int
    executed: float


def ways(request: Request) -> list[Way]:
    """Returns the ways: CSR, then square blocks of several sizes. Empty for a mask with too many pairs."""
    mask, row = request.problem.masks[0], block_mask.row_bytes(request)
    if mask.queries * mask.keys > MOST:
        return []
    seen = mask.dense()
    pairs = int(seen.sum())
    found = [Way("CSR: a list of keys for each row", pairs, pairs * row, _gathered(request, seen), 1, np.nan)]
    for size in (size for size in SIZES if size < 2 * max(*seen.shape, SIZES[0])):
        made = blocks_seen(seen, size)
        width = np.minimum(size, mask.keys - np.arange(made.shape[1]) * size)
        loaded = int((made * width).sum()) * row
        name = f"blocks of {size} x {size}"
        found.append(Way(name, int(made.sum()) * size * size, loaded, -(-loaded // model.SECTOR), size, made.mean()))
    return found


def blocks_seen(seen: np.ndarray, size: int) -> np.ndarray:
    """Returns the blocks of size x size with a seen pair, bool [rows, columns]."""
    rows, columns = (-(-n // size) for n in seen.shape)
    padded = np.zeros((rows * size, columns * size), bool)
    padded[: seen.shape[0], : seen.shape[1]] = seen
    return np.asarray(padded.reshape(rows, size, columns, size).any((1, 3)))


def _gathered(request: Request, seen: np.ndarray) -> int:
    """Returns the sectors of a gather, by the memory model.

    A warp has one row. For K, each lane reads VECTOR bytes of its own key at a time. For V, all lanes read one key
    together. Keys start at whole sectors, so only the number of keys in each row counts.
    """
    tensor = picture.tensor_at(request, "K")
    item, dims = tensor.itemsize, axes.length(tensor, "dim")
    stride, reads = dims * item, dims * item // VECTOR
    lanes = np.arange(model.LANES)
    total = 0
    lengths = seen.sum(1)
    full, rest = int((lengths // model.LANES).sum()), np.bincount(lengths % model.LANES, minlength=model.LANES)
    for active, times in ((model.LANES, full), *enumerate(rest.tolist())):
        if active and times:
            offsets = (lanes * stride)[None, :]
            sectors = model.count_sectors(offsets, (lanes < active)[None, :], VECTOR)[0]
            total += int(times) * int(sectors[0]) * reads
    return total + int(lengths.sum()) * -(-dims * item // model.SECTOR)


def ways_table(made: Sequence[Way]) -> pd.DataFrame:
    """Returns the ways as figures per seen pair. The first is CSR."""
    pairs = made[0].pairs
    return pd.DataFrame(
        [
            {
                "executed as": way.name,
                "blocks executed": "" if np.isnan(way.executed) else f"{way.executed:.1%}",
                "pairs computed": way.pairs,
                "for each seen pair": figure(way.pairs / max(1, pairs), 3),
                "K and V, bytes": way.bytes,
                "bytes for each seen pair": figure(way.bytes / max(1, pairs), 3),
                "sectors moved": way.sectors,
                "rows that use a loaded key": way.users,
            }
            for way in made
        ]
    )


def element_blocks(run: Run, times: pd.DataFrame) -> list[Block]:
    """Returns the tab with lists of keys next to lists of blocks."""
    request = run.request
    made = ways(request)
    if not made:
        return [stage.note(f"The mask has more than {MOST:,} pairs; choose a smaller seq_len to count its blocks.")]
    mask = request.problem.masks[0]
    pairs, density = made[0].pairs, made[0].pairs / (mask.queries * mask.keys)
    if not pairs:
        return [stage.note("The mask shows no pair: there is nothing to execute, whichever way it is listed.")]
    block = next(way for way in reversed(made) if way.users <= 64)
    scattered = _scattered(density, mask.queries, mask.keys, block.users)
    if block.executed < 1:
        verdict = "So lists of single keys lose to dense at densities at which lists of blocks win."
    else:
        verdict = "Every block holds a seen pair, so lists of blocks skip nothing here and compute what dense does."
    said = [
        f"The mask shows {pairs:,} of {mask.queries * mask.keys:,} pairs of a head: density {density:.1%}. In "
        f"{block.name}, {block.executed:.1%} hold a seen pair and are executed; were the same share of pairs "
        f"scattered at random, it would be {scattered:.1%}.",
        "By CSR only seen pairs are computed, but each brings a key and a value of its own: "
        f"{made[0].bytes // pairs:,} bytes for one pair. In {block.name} a key that was loaded serves up to "
        f"{block.users} rows, {figure(block.bytes / pairs, 3)} bytes for each seen pair, and tensor cores "
        f"multiply the block. {verdict}",
    ]
    rule = (
        f"Derived for one head. CSR: a warp has a row, a lane reads {VECTOR} bytes of its own key at a time, and a "
        "request moves whole sectors of 32 bytes; a cache may serve a sector again. Blocks: a tile's rows lie together."
    )
    found = [stage.heading("The same mask, element by element or block by block"), stage.table(ways_table(made), rule)]
    return [*found, *(stage.text(text, "derived") for text in said), stage.heading("Recorded"), *csr_times(times)]


def _scattered(density: float, queries: int, keys: int, size: int) -> float:
    """Returns the share of blocks with a seen pair if seen pairs were random. Blocks at the end are smaller."""
    rows, columns = (np.minimum(size, n - np.arange(0, n, size)) for n in (queries, keys))
    return float((1 - (1 - density) ** np.outer(rows, columns)).mean())
