"""A mask as blocks of queries by keys, and the list of blocks of one block of queries.

The lists are the kernel's own tensors (LISTS) if it has them. Else they come from the problem's mask in the kernel's
tiles.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from explainers.story import axes, picture
from explainers.story.words import Words
from kernels.core.masks import BlockLists, block_lists
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.run.results import Run

WORDS = Words.of(str(__package__))
LISTS = ("kv_num_blocks", "kv_indices", "kv_patterns", "full_kv_num_blocks", "full_kv_indices", "patterns")
SKIPPED, PARTIAL, FULL = 0, 1, 2  # kinds of blocks
KINDS = ("skipped", "partial", "full")


class Room(NamedTuple):
    """The counts of a problem."""

    batches: int
    heads: int  # of a batch
    tiles: int  # query blocks of a head
    rows: int  # of a full query block
    queries: int  # of a head


class Place(NamedTuple):
    """The walked query block."""

    head: int  # counted over the batch
    tile: int  # its number in the head
    first: int  # row
    end: int  # the row after its last


class Entry(NamedTuple):
    """An entry of a list."""

    column: int  # of the block
    kind: int  # PARTIAL or FULL


def has_lists(request: Request) -> bool:
    """Whether the kernel receives the mask's blocks as lists."""
    return set(LISTS) <= {tensor.name for tensor in axes.tensors(request).values()}


def sizes(request: Request) -> tuple[int, int]:
    """Returns the queries and the keys of a block."""
    if not has_lists(request):
        return request.required_value_of("query_rows"), request.required_value_of("key_rows")
    patterns = request.plan.tensor("patterns")
    return axes.length(patterns, "query"), 32 * axes.length(patterns, "word")


@lru_cache(maxsize=1024)
def room(request: Request) -> Room:
    """Returns the Room of a request.

    ProblemError: a thread block takes several query blocks by a counter, so only the run decides which ones.
    """
    o, rows = picture.tensor_at(request, "O"), sizes(request)[0]
    queries, outer = axes.length(o, "query"), axes.heads(o)
    batches = axes.length(o, "batch") if "batch" in o.axes else 1
    tiles, items = -(-queries // rows), request.plan.items
    if tiles * outer > items:
        raise ProblemError(
            f"This problem has {tiles * outer:,} query blocks for {items} thread blocks of {request.kernel.name}, so "
            "thread blocks take several by a counter. Choose a smaller seq_len, batch or num_heads: at most "
            f"{items} query blocks of {rows} rows, one for each thread block."
        )
    return Room(batches, outer // batches, tiles, rows, queries)


def place_of(request: Request) -> Place:
    """Returns the query block in the request's scope."""
    counts = room(request)
    head, tile = divmod(request.scope.first, counts.tiles)
    return Place(head, tile, tile * counts.rows, min(counts.queries, (tile + 1) * counts.rows))


def lists_of(run: Run) -> list[BlockLists]:
    """Returns the lists of each mask: one for all heads, or one for each head."""
    if not has_lists(run.request):
        return [block_lists(mask, *sizes(run.request)) for mask in run.request.problem.masks]
    given = [run.arrays[name] for name in LISTS]
    block = sizes(run.request)
    return [
        BlockLists(*block, given[0][n], given[1][n], given[3][n], given[4][n], given[2][n], given[5])
        for n in range(len(given[0]))
    ]


def lists_of_head(run: Run, head: int) -> BlockLists:
    """Returns the lists of a head, counted over the batch."""
    lists = lists_of(run)
    return lists[head if len(lists) > 1 else 0]


def entries_of(lists: BlockLists, row: int, in_order: bool) -> list[Entry]:
    """Returns the list of a query block.

    in_order: by column, as in a kernel without lists. Else partial blocks come before full ones, as in FlexAttention.
    """
    partial = [Entry(int(c), PARTIAL) for c in lists.kv_indices[row, : lists.kv_num_blocks[row]]]
    full = [Entry(int(c), FULL) for c in lists.full_kv_indices[row, : lists.full_kv_num_blocks[row]]]
    return sorted([*partial, *full]) if in_order else [*partial, *full]


def kinds_of(lists: BlockLists) -> np.ndarray:
    """Returns the kind of each block, int8 [query blocks, key blocks]."""
    kinds = np.zeros(lists.kv_indices.shape, np.int8)
    for row in range(len(kinds)):
        for column, kind in entries_of(lists, row, False):
            kinds[row, column] = kind
    return kinds


def seen_of(lists: BlockLists, queries: int, keys: int) -> np.ndarray:
    """Returns the mask of the lists and patterns by element, bool [queries, keys]."""
    rows, columns = lists.kv_indices.shape
    seen = np.zeros((rows, lists.block_q, columns, lists.block_kv), bool)
    bits = np.unpackbits(np.ascontiguousarray(lists.patterns).view(np.uint8), axis=-1, bitorder="little").astype(bool)
    for row in range(rows):
        for n, (column, kind) in enumerate(entries_of(lists, row, False)):
            seen[row, :, column] = bits[lists.kv_patterns[row, n], :, : lists.block_kv] if kind == PARTIAL else True
    return seen.reshape(rows * lists.block_q, columns * lists.block_kv)[:queries, :keys]


def row_bytes(request: Request) -> int:
    """Returns the bytes of K and V of one key of a head."""
    return sum(axes.length(t, "dim") * t.itemsize for t in (picture.tensor_at(request, at) for at in "KV"))
