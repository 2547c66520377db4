"""The cost of a mask: blocks, FLOPs and bytes next to dense, from the lists and from the probes.

The kernel multiplies each block whole: 4 FLOPs for each pair and dim, also for rows and keys past the end. A block
loads only existing keys of K and V. Dense means every pair.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.sparsity import block_mask
from explainers.stories.sparsity.mask_times import time_blocks
from explainers.story import axes, picture, stage
from explainers.story.glossary import count
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS


@dataclass(frozen=True)
class Ledger:
    """The counts over all heads, from the lists.

    full, partial, skipped: blocks.
    bytes_of: kind -> bytes of K and V for all blocks of that kind.
    pairs: all pairs of a query and a key.
    seen: pairs that the mask shows.
    computed: multiplied pairs.
    dense_pairs: multiplied pairs without skipped blocks.
    head_dim: dims of a head.
    itemsize: bytes of a number of K.
    """

    full: int
    partial: int
    skipped: int
    bytes_of: dict[str, int]
    pairs: int
    seen: int
    computed: int
    dense_pairs: int
    head_dim: int
    itemsize: int

    @property
    def bytes(self) -> int:
        """Returns the loaded bytes of K and V, from the lists."""
        return self.bytes_of["full"] + self.bytes_of["partial"]

    @property
    def density(self) -> float:
        return self.seen / self.pairs

    def flops(self, pairs: int) -> int:
        return 4 * pairs * self.head_dim


def ledger(run: Run) -> Ledger:
    """Returns the Ledger of the whole run."""
    request, keys = run.request, axes.length(picture.tensor_at(run.request, "K"), "key")
    room, lists = block_mask.room(request), block_mask.lists_of(run)
    heads, row = room.batches * room.heads, block_mask.row_bytes(request)
    each = heads // len(lists)
    width = np.minimum(lists[0].block_kv, keys - np.arange(lists[0].kv_indices.shape[1]) * lists[0].block_kv)
    counts, size = dict.fromkeys(block_mask.KINDS, 0), dict.fromkeys(block_mask.KINDS, 0)
    for made in lists:
        kinds = block_mask.kinds_of(made)
        for number, name in enumerate(block_mask.KINDS):
            of_kind = (kinds == number).sum(0)
            counts[name] += each * int(of_kind.sum())
            size[name] += each * int((of_kind * width).sum()) * row
    block, k = lists[0].block_q * lists[0].block_kv, picture.tensor_at(request, "K")
    return Ledger(
        counts["full"],
        counts["partial"],
        counts["skipped"],
        size,
        heads * room.queries * keys,
        int(request.problem.visible),
        (counts["full"] + counts["partial"]) * block,
        sum(counts.values()) * block,
        axes.length(k, "dim"),
        k.itemsize,
    )


def summary(made: Ledger) -> str:
    """Returns the run in a sentence."""
    executed, all_of = made.full + made.partial, made.full + made.partial + made.skipped
    skipped = f"{made.skipped:,} of {count(all_of, 'block')} {'is' if made.skipped == 1 else 'are'} never touched"
    if not executed:
        return "The mask shows nothing: no block is executed, and O is 0."
    return (
        f"{skipped}; the mask shows {made.density:.1%} of all pairs, and {made.computed / made.dense_pairs:.1%} are "
        f"multiplied: {made.full:,} full and {count(made.partial, 'partial block')}."
    )


def table(made: Ledger) -> pd.DataFrame:
    """Returns a row for each kind of block, then rows for all executed blocks, their seen pairs, and dense."""
    block = (made.computed // max(1, made.full + made.partial)) or made.dense_pairs // max(1, made.skipped)
    executed, all_of = made.full + made.partial, made.full + made.partial + made.skipped
    dense_bytes = sum(made.bytes_of.values())

    def row(name: str, blocks: int | None, pairs: int, size: int | None, lit: bool = False) -> dict[str, Any]:
        share = pairs / made.dense_pairs
        return {
            "": name,
            "blocks": blocks,
            "pairs": pairs,
            "MFLOP": round(made.flops(pairs) / 1e6, 3),
            "K and V, bytes": size,
            "of dense": f"{share:.1%}",
            "lit": lit,
        }

    rows = [
        row("full: executed", made.full, made.full * block, made.bytes_of["full"]),
        row("partial: executed, then masked", made.partial, made.partial * block, made.bytes_of["partial"]),
        row("executed", executed, made.computed, made.bytes, True),
        row("of these pairs seen", None, made.seen, None),
        row("skipped", made.skipped, made.skipped * block, made.bytes_of["skipped"]),
        row("every block", all_of, made.dense_pairs, dense_bytes),
    ]
    return pd.DataFrame(rows).astype({"blocks": "Int64", "K and V, bytes": "Int64"})


def counted(request: Request, traffic: Traffic) -> dict[str, int]:
    """Returns tensor, by its name in probes -> read bytes in global memory."""
    rows = traffic.table[(traffic.table.space == "global") & traffic.table.kind.isin(READS)]
    return {str(symbol): int(size) for symbol, size in rows.groupby("tensor").bytes.sum().items()}


def kv_counted(request: Request, traffic: Traffic) -> int:
    """Returns the logged bytes of K and V."""
    at = picture.places(request)
    return sum(size for symbol, size in counted(request, traffic).items() if at.get(symbol) in ("K", "V"))


def ledger_blocks(run: Run, traffic: Traffic, times: pd.DataFrame) -> list[Block]:
    """Returns the tab of the whole run: from the lists, as counted, and times. times: as in app.times.known."""
    made, request = ledger(run), run.request
    by_lists = made.bytes if traffic.whole else _of_scope(run)
    read, kv, at = counted(request, traffic), kv_counted(request, traffic), picture.places(request)
    same = "the same, byte for byte" if kv == by_lists else f"{abs(kv - by_lists):,} bytes apart"
    over = "Over all heads" if traffic.whole else "Over the walked query block, as the whole run's records do not fit"
    said = f"{over}, the lists say {by_lists:,} bytes of K and V; the probes counted {kv:,}: {same}."
    overhead = {symbol: size for symbol, size in read.items() if at.get(symbol) not in ("Q", "K", "V")}
    rows = pd.DataFrame(
        [{"tensor": symbol, "bytes read": size, "beside K and V": f"{size / kv:.2%}" if kv else ""} for symbol, size in
         overhead.items()], columns=["tensor", "bytes read", "beside K and V"]
    )  # fmt: skip
    by = f"Derived from the lists: a block is multiplied whole, 4 FLOPs a pair and dim.{_past(made)} {_hidden(made)}"
    caption = "Read beside Q, K and V: counted in the probes, every lane's read; a cache serves most of them."
    left: list[Block] = [stage.heading("Executed, masked, skipped"), stage.table(table(made), by, lit="lit")]
    right = [stage.heading("Counted"), stage.text(said, run.provenance)]
    right += [stage.table(rows, caption)] if overhead else []
    return [stage.row([*left], [*right]), stage.heading("Time beside dense"), *time_blocks(request, times)]


def _past(made: Ledger) -> str:
    past = made.dense_pairs - made.pairs
    return f" Of every block's pairs {past:,} lie past the last query or key." if past else ""


def _hidden(made: Ledger) -> str:
    hidden = made.computed - made.seen
    if not made.computed:
        return ""
    return f"Of {made.computed:,} pairs that are multiplied {hidden:,} ({hidden / made.computed:.1%}) are not seen."


def _of_scope(run: Run) -> int:
    """Returns the bytes of K and V of the walked query block, from its list."""
    place, keys = block_mask.place_of(run.request), axes.length(picture.tensor_at(run.request, "K"), "key")
    lists = block_mask.lists_of_head(run, place.head)
    columns = [entry.column for entry in block_mask.entries_of(lists, place.tile, False)]
    there = sum(min(lists.block_kv, keys - column * lists.block_kv) for column in columns)
    return there * block_mask.row_bytes(run.request)
