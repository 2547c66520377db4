"""The cost of a mask: its blocks, FLOPs and bytes next to dense, by single keys (CSR) or by blocks of several sizes,
and its recorded times.

The kernel multiplies each block whole: 4 FLOPs for each pair and dim, also for rows and keys past the end. A block
loads only existing keys of K and V. Dense means every pair. With CSR each pair costs a key and a value of its own,
gathered for one row.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.models.recorded_times import shown_name
from explainers.stories.sparsity import block_mask
from explainers.stories.sparsity.block_mask import WORDS
from explainers.story import axes, picture, stage
from explainers.story.glossary import figure, microseconds, short
from explainers.story.stage import Block
from explainers.story.words import Row
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.measure.peers import FLEX
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model

SIZES = (16, 32, 64, 128)  # sides of square blocks
MOST = 1 << 26  # most pairs of a head
VECTOR = 16  # bytes of a lane's read
MOST_USERS = 64  # most rows of the blocks in the sentences
Fields = Row  # of a problem, from JSON
PEERS = ("sdpa_math", "sdpa_efficient", "sdpa_flash", "sdpa_cudnn")  # they compute every pair and add the mask
SAME_SIZES = ("seq_len", "num_heads", "head_dim", "batch", "causal")  # sizes of a comparison


# ---- the whole run ----


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
    by_lists = counts.bytes
    if not traffic.whole:  # of the walked query block only
        block, keys = block_mask.place_of(request), axes.length(picture.tensor_at(request, "K"), "key")
        lists = block_mask.lists_of_head(run, block.head)
        columns = [entry.column for entry in block_mask.entries_of(lists, block.tile, False)]
        keys_listed = sum(min(lists.block_kv, keys - column * lists.block_kv) for column in columns)
        by_lists = keys_listed * block_mask.row_bytes(request)
    kv = kv_counted(request, traffic)
    said = WORDS.say("counted", {"whole": traffic.whole, "by_lists": by_lists, "kv": kv})
    blocks = [stage.heading("Counted"), stage.text(said, run.provenance)]
    others = [
        {"tensor": symbol, "bytes read": size, "next to K and V": f"{size / kv:.2%}" if kv else ""}
        for symbol, size in counted(traffic).items()
        if parts.get(symbol) not in ("Q", "K", "V")
    ]
    return [*blocks, stage.table(pd.DataFrame(others), WORDS.say("others", {}))] if others else blocks


# ---- by keys or by blocks ----


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
    # the share of blocks with a seen pair if seen pairs were random. Blocks at the end are smaller
    rows, columns = (np.minimum(block.users, n - np.arange(0, n, block.users)) for n in (mask.queries, mask.keys))
    scattered = float((1 - (1 - density) ** np.outer(rows, columns)).mean())
    names = {
        **{"pairs": csr.pairs, "all_pairs": mask.queries * mask.keys, "density": f"{density:.1%}"},
        **{"block": block.name, "executed": f"{block.executed:.1%}", "skips": block.executed < 1},
        "scattered": f"{scattered:.1%}",
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


# ---- recorded times ----


def recorded(request: Request, times: pd.DataFrame) -> pd.DataFrame:
    """Returns the recorded times of the request's kind of mask, the fastest first.

    Columns: problem (in words), name, median_us, and dense, the fastest of PEERS on that problem (NaN without a time).
    """
    rows = [
        {
            "title": row.title,
            "problem": problem_said(request, fields),
            "name": row.name,
            "median_us": float(row.median_us),
            "device": row.device,
            "date": row.date,
        }
        for row, fields in _timed(times)
        if fields.get("mask") == request.problem.mask
    ]
    found = pd.DataFrame(rows, columns=["title", "problem", "name", "median_us", "device", "date"])
    found = found.sort_values("median_us", kind="stable")
    dense = found[found.name.isin(PEERS)].groupby(["title", "problem"]).median_us.min()
    keys = zip(found.title, found.problem)
    return found.assign(dense=[dense.get(key, np.nan) for key in keys]).reset_index(drop=True)


def _timed(times: pd.DataFrame) -> Iterator[tuple[Any, Fields]]:
    """Returns each row with a time, and the fields of its problem."""
    for row in times[times.status == "ok"].itertuples():
        yield row, json.loads(row.problem) if pd.notna(row.problem) else {}


def problem_said(request: Request, fields: Fields) -> str:
    """Returns a recorded problem in words: its sizes, and the fields of its mask."""
    used = [f for f in request.problem.mask_fields.get(fields["mask"], ()) if f in fields and f != "drawn"]
    values = {f: tuple(fields[f]) if isinstance(fields[f], list) else fields[f] for f in used}
    said = [stage.sizes_said(fields), *(f"{name} {write_value(value)}" for name, value in values.items())]
    if "block_q" in fields:
        said.append(f"blocks of {fields['block_q']} x {fields['block_kv']}")
    return ", ".join(said)


def time_blocks(request: Request, times: pd.DataFrame) -> list[Block]:
    """Returns the recorded times of this kind of mask, next to SDPA with a dense mask."""
    found = recorded(request, times)
    if found.empty:
        return [stage.note(WORDS.say("no_time", {"mask": write_value(request.problem.mask)}))]
    rows = [
        {
            "problem": "" if n else row.problem,  # said once
            "kernel": shown_name(row.name),
            "time": microseconds(row.median_us),
            "dense / time": "" if np.isnan(row.dense) else short(row.dense / row.median_us, 3),
            "lit": row.name == request.kernel.name,
        }
        for _, same in found.groupby(["title", "problem"], sort=False)
        for n, row in enumerate(same.itertuples())
    ]
    where = ", ".join(sorted({f"{row.device}, {row.date}" for row in found.itertuples()}))
    said = WORDS.say("times", {"where": where})
    return [stage.table(pd.DataFrame(rows), said, lit="lit")]


def csr_times(times: pd.DataFrame) -> list[Block]:
    """Returns the recorded times of random masks by density, and the fastest dense kernel of each type."""
    rows = [
        {**fields, "name": row.name, "us": row.median_us, "where": f"{row.device}, {row.date}"}
        for row, fields in _timed(times)
        if fields.get("mask") == "random"
    ]
    if not rows:
        return [stage.note(WORDS.say("no_random", {}))]
    found = pd.DataFrame(rows).sort_values(["density", "us"], kind="stable")
    timed = times[times.status == "ok"]
    same = np.logical_and.reduce([timed[name] == found.iloc[0][name] for name in SAME_SIZES])
    dense = timed[same].sort_values("median_us").drop_duplicates("dtype").sort_values("median_us")
    shown = [
        {"pairs seen": f"{row.density:.0%}", "kernel": shown_name(row.name), "type": "float32", "us": row.us}
        for row in found.itertuples()
    ]
    shown += [
        {"pairs seen": "all", "kernel": shown_name(row.name), "type": row.dtype, "us": row.median_us}
        for row in dense.itertuples()
    ]
    table = pd.DataFrame(shown)
    table = table.assign(time=table.us.map(microseconds), lit=table["pairs seen"] == "all").drop(columns="us")
    names = {
        "one": found.iloc[0].to_dict(),
        "peers": [shown_name(name) for name in PEERS if (found["name"] == name).any()],
        "flex": FLEX if (found["name"] == FLEX).any() else "",
        "types": [*dense.dtype],
    }
    return [stage.table(table, WORDS.say("random", names), lit="lit")]
