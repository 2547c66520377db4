"""The cost of a mask: blocks, FLOPs and bytes next to dense, from the lists and from the probes.

The kernel multiplies each block whole: 4 FLOPs for each pair and dim, also for rows and keys past the end. A block
loads only existing keys of K and V. Dense means every pair.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.sparsity import block_mask
from explainers.stories.sparsity.mask_times import WORDS, time_blocks
from explainers.story import axes, picture, stage
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS


@dataclass(frozen=True)
class Ledger:
    """The counts over all heads, from the lists."""

    full: int  # blocks, as partial and skipped
    partial: int
    skipped: int
    bytes_of: dict[str, int]  # kind -> bytes of K and V for all blocks of that kind
    pairs: int  # of a query and a key
    seen: int  # pairs that the mask shows
    computed: int  # multiplied pairs
    dense_pairs: int  # multiplied pairs without skipped blocks
    head_dim: int

    @property
    def bytes(self) -> int:
        """Returns the loaded bytes of K and V, from the lists."""
        return self.bytes_of["full"] + self.bytes_of["partial"]

    def flops(self, pairs: int) -> int:
        return 4 * pairs * self.head_dim


def ledger(run: Run) -> Ledger:
    """Returns the Ledger of the whole run."""
    request, k = run.request, picture.tensor_at(run.request, "K")
    keys, row_bytes = axes.length(k, "key"), block_mask.row_bytes(request)
    room, lists = block_mask.room(request), block_mask.lists_of(run)
    heads, first = room.batches * room.heads, lists[0]
    heads_each = heads // len(lists)
    width = np.minimum(first.block_kv, keys - np.arange(first.kv_indices.shape[1]) * first.block_kv)
    blocks, bytes_of = dict.fromkeys(block_mask.KINDS, 0), dict.fromkeys(block_mask.KINDS, 0)
    for of_head in lists:
        kinds = block_mask.kinds_of(of_head)
        for number, kind in enumerate(block_mask.KINDS):
            by_column = (kinds == number).sum(0)
            blocks[kind] += heads_each * int(by_column.sum())
            bytes_of[kind] += heads_each * int((by_column * width).sum()) * row_bytes
    block_pairs = first.block_q * first.block_kv
    return Ledger(
        full=blocks["full"],
        partial=blocks["partial"],
        skipped=blocks["skipped"],
        bytes_of=bytes_of,
        pairs=heads * room.queries * keys,
        seen=int(request.problem.visible),
        computed=(blocks["full"] + blocks["partial"]) * block_pairs,
        dense_pairs=sum(blocks.values()) * block_pairs,
        head_dim=axes.length(k, "dim"),
    )


def summary(counts: Ledger) -> str:
    """Returns the run in a sentence."""
    executed = counts.full + counts.partial
    names = {"executed": executed, "skipped": counts.skipped, "every": executed + counts.skipped}
    shares = {"density": counts.seen / counts.pairs, "multiplied": counts.computed / counts.dense_pairs}
    # never 0% of something
    said = {name: f"{share:.0%}" if share >= 0.01 or not share else "less than 1%" for name, share in shares.items()}
    return WORDS.say("summary", {**names, **said})


def table(counts: Ledger) -> pd.DataFrame:
    """Returns a row for each kind of block, then rows for all executed blocks, their seen pairs, and dense."""
    executed = counts.full + counts.partial
    every = executed + counts.skipped
    block_pairs = (counts.computed // max(1, executed)) or counts.dense_pairs // max(1, counts.skipped)

    def row(name: str, blocks: int | None, pairs: int, size: int | None, lit: bool = False) -> dict[str, object]:
        return {
            "": name,
            "blocks": blocks,
            "pairs": pairs,
            "MFLOP": round(counts.flops(pairs) / 1e6, 3),
            "K and V, bytes": size,
            "of dense": f"{pairs / counts.dense_pairs:.1%}",
            "lit": lit,
        }

    def of_kind(name: str, blocks: int, kind: str) -> dict[str, object]:
        return row(name, blocks, blocks * block_pairs, counts.bytes_of[kind])

    rows = [
        of_kind("full: executed", counts.full, "full"),
        of_kind("partial: executed, then masked", counts.partial, "partial"),
        row("executed", executed, counts.computed, counts.bytes, lit=True),
        row("of these pairs seen", None, counts.seen, None),
        of_kind("skipped", counts.skipped, "skipped"),
        row("every block", every, counts.dense_pairs, sum(counts.bytes_of.values())),
    ]
    return pd.DataFrame(rows).astype({"blocks": "Int64", "K and V, bytes": "Int64"})


def counted(traffic: Traffic) -> dict[str, int]:
    """Returns tensor, by its name in probes -> read bytes in global memory."""
    rows = traffic.table[(traffic.table.space == "global") & traffic.table.kind.isin(READS)]
    return {str(symbol): int(size) for symbol, size in rows.groupby("tensor").bytes.sum().items()}


def kv_counted(request: Request, traffic: Traffic) -> int:
    """Returns the logged bytes of K and V."""
    at = picture.places(request)
    return sum(size for symbol, size in counted(traffic).items() if at.get(symbol) in ("K", "V"))


def ledger_blocks(run: Run, traffic: Traffic, times: pd.DataFrame) -> list[Block]:
    """Returns the tab of the whole run: from the lists, as counted, and times. times: as in app.times.known."""
    counts = ledger(run)
    names: dict[str, object] = {"past": counts.dense_pairs - counts.pairs, "computed": counts.computed}
    if counts.computed:
        names["hidden"] = f"{(counts.computed - counts.seen) / counts.computed:.1%}"
    rule = WORDS.say("ledger_rule", names)
    left = [stage.heading("Executed, masked, skipped"), stage.table(table(counts), rule, lit="lit")]
    return [
        stage.row(left, _counted_blocks(run, traffic, counts)),
        stage.heading("Time beside dense"),
        *time_blocks(run.request, times),
    ]


def _counted_blocks(run: Run, traffic: Traffic, counts: Ledger) -> list[Block]:
    """Returns the logged bytes of K and V against the lists, and the other tensors' bytes."""
    request, parts = run.request, picture.places(run.request)
    by_lists = counts.bytes if traffic.whole else _of_scope(run)
    kv = kv_counted(request, traffic)
    said = WORDS.say("counted", {"whole": traffic.whole, "by_lists": by_lists, "kv": kv})
    blocks = [stage.heading("Counted"), stage.text(said, run.provenance)]
    others = [
        {"tensor": symbol, "bytes read": size, "next to K and V": f"{size / kv:.2%}" if kv else ""}
        for symbol, size in counted(traffic).items()
        if parts.get(symbol) not in ("Q", "K", "V")
    ]
    return [*blocks, stage.table(pd.DataFrame(others), WORDS.say("others", {}))] if others else blocks


def _of_scope(run: Run) -> int:
    """Returns the bytes of K and V of the walked query block, from its list."""
    block, keys = block_mask.place_of(run.request), axes.length(picture.tensor_at(run.request, "K"), "key")
    lists = block_mask.lists_of_head(run, block.head)
    columns = [entry.column for entry in block_mask.entries_of(lists, block.tile, False)]
    keys_listed = sum(min(lists.block_kv, keys - column * lists.block_kv) for column in columns)
    return keys_listed * block_mask.row_bytes(run.request)
