"""One mask by single keys (CSR) or by blocks of several sizes.

With CSR each pair costs a key and a value of its own, gathered for one row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.sparsity import block_mask
from explainers.stories.sparsity.mask_times import WORDS, csr_times
from explainers.story import axes, picture, stage
from explainers.story.glossary import figure
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.memory import model

SIZES = (16, 32, 64, 128)  # sides of square blocks
MOST = 1 << 26  # most pairs of a head
VECTOR = 16  # bytes of a lane's read
MOST_USERS = 64  # most rows of the blocks in the sentences


@dataclass(frozen=True)
class Way:
    """One way to execute a head's mask."""

    name: str
    pairs: int  # computed
    bytes: int  # of K and V, requested
    sectors: int  # of 32 bytes, moved
    users: int  # the most rows that use one loaded key
    executed: float  # the share of executed blocks, NaN for lists of keys


def ways(request: Request) -> list[Way]:
    """Returns the ways: CSR, then square blocks of several sizes. Empty for a mask with too many pairs."""
    mask, row = request.problem.masks[0], block_mask.row_bytes(request)
    if mask.queries * mask.keys > MOST:
        return []
    seen = mask.dense()
    pairs = int(seen.sum())
    csr = Way("CSR: a list of keys for each row", pairs, pairs * row, _gathered(request, seen), 1, np.nan)
    largest = 2 * max(*seen.shape, SIZES[0])
    return [csr, *(_in_blocks(seen, size, row) for size in SIZES if size < largest)]


def _in_blocks(seen: np.ndarray, size: int, row_bytes: int) -> Way:
    """Returns the way by blocks of size x size. row_bytes: of K and V of one key."""
    blocks = blocks_seen(seen, size)
    keys = seen.shape[1]
    width = np.minimum(size, keys - np.arange(blocks.shape[1]) * size)
    loaded = int((blocks * width).sum()) * row_bytes
    return Way(
        name=f"blocks of {size} x {size}",
        pairs=int(blocks.sum()) * size * size,
        bytes=loaded,
        sectors=-(-loaded // model.SECTOR),
        users=size,
        executed=float(blocks.mean()),
    )


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
    key_bytes = axes.length(tensor, "dim") * tensor.itemsize
    lengths = seen.sum(1)
    lanes_of_rest = np.bincount(lengths % model.LANES, minlength=model.LANES)
    requests = {model.LANES: int((lengths // model.LANES).sum())}  # active lanes -> requests for K
    requests |= {active: int(times) for active, times in enumerate(lanes_of_rest) if active}
    reads = key_bytes // VECTOR
    of_k = sum(times * reads * _sectors(active, key_bytes) for active, times in requests.items() if times)
    of_v = int(lengths.sum()) * -(-key_bytes // model.SECTOR)
    return of_k + of_v


def _sectors(active: int, stride: int) -> int:
    """Returns the sectors of one read of VECTOR bytes by that many lanes, stride bytes apart."""
    lanes = np.arange(model.LANES)
    return int(model.count_sectors((lanes * stride)[None, :], (lanes < active)[None, :], VECTOR)[0][0])


def ways_table(found: Sequence[Way]) -> pd.DataFrame:
    """Returns the ways as figures per seen pair. The first is CSR."""
    pairs = found[0].pairs
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
            for way in found
        ]
    )


def element_blocks(run: Run, times: pd.DataFrame) -> list[Block]:
    """Returns the tab with lists of keys next to lists of blocks."""
    request, found = run.request, ways(run.request)
    if not found:
        return [stage.note(WORDS.say("too_many", {"most": MOST}))]
    if not found[0].pairs:
        return [stage.note(WORDS.say("no_pair", {}))]
    mask, csr = request.problem.masks[0], found[0]
    block = next(way for way in reversed(found) if way.users <= MOST_USERS)
    density = csr.pairs / (mask.queries * mask.keys)
    names = {
        **{"pairs": csr.pairs, "all_pairs": mask.queries * mask.keys, "density": f"{density:.1%}"},
        **{"block": block.name, "executed": f"{block.executed:.1%}", "skips": block.executed < 1},
        "scattered": f"{_scattered(density, mask.queries, mask.keys, block.users):.1%}",
        **{"csr_bytes": csr.bytes // csr.pairs, "users": block.users},
        "block_bytes": figure(block.bytes / csr.pairs, 3),
    }
    return [
        stage.heading("The same mask, element by element or block by block"),
        stage.table(ways_table(found), WORDS.say("ways", {"vector": VECTOR})),
        *(stage.text(WORDS.say(name, names), "derived") for name in ("shown_pairs", "verdict")),
        stage.heading("Recorded"),
        *csr_times(times),
    ]


def _scattered(density: float, queries: int, keys: int, size: int) -> float:
    """Returns the share of blocks with a seen pair if seen pairs were random. Blocks at the end are smaller."""
    rows, columns = (np.minimum(size, n - np.arange(0, n, size)) for n in (queries, keys))
    return float((1 - (1 - density) ** np.outer(rows, columns)).mean())
