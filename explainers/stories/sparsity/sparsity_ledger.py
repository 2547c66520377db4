"""What a mask costs: blocks, FLOPs and bytes beside dense, by the lists and as the probes counted them; the same mask
as lists of keys (CSR); and recorded times.

The rules. A block is multiplied whole: 4 FLOPs for each of its pairs and dims, rows and keys past the last ones too.
Of K and V a block loads the keys that there are. Dense means every pair. By CSR a pair costs a key and a value of its
own, gathered for one row.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.sparsity import sparsity
from explainers.stories.tiling import tiling
from explainers.stories.timing.timing import microseconds, shown_name
from explainers.story import axes, stage
from explainers.story.glossary import count, figure
from explainers.story.stage import Block
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.families.sparse.masked import TAKES
from kernels.measure.peers import FLEX
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model

SIZES = (16, 32, 64, 128)  # of square blocks that a mask is cut into
MOST = 1 << 26  # pairs of a head that are counted for other sizes
VECTOR = 16  # bytes that a lane reads at once
PEERS = ("sdpa_math", "sdpa_efficient", "sdpa_flash", "sdpa_cudnn")  # which compute every pair and add the mask


@dataclass(frozen=True)
class Ledger:
    """Over all heads, by the lists. full, partial, skipped: blocks. bytes_of: kind -> bytes of K and V that such blocks
    load, or would. pairs: of queries and keys; seen: of these, by the mask; computed: multiplied; dense_pairs: with no
    block skipped. itemsize: bytes of a number of K."""

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
        """Of K and V, by the lists."""
        return self.bytes_of["full"] + self.bytes_of["partial"]

    @property
    def density(self) -> float:
        return self.seen / self.pairs

    def flops(self, pairs: int) -> int:
        return 4 * pairs * self.head_dim


def ledger(run: Run) -> Ledger:
    """The Ledger of the whole run, by its lists."""
    request, keys = run.request, axes.length(tiling.tensor_at(run.request, "K"), "key")
    room, lists = sparsity.room(request), sparsity.lists_of(run)
    heads, row = room.batches * room.heads, sparsity.row_bytes(request)
    each = heads // len(lists)
    width = np.minimum(lists[0].block_kv, keys - np.arange(lists[0].kv_indices.shape[1]) * lists[0].block_kv)
    counts, size = dict.fromkeys(sparsity.KINDS, 0), dict.fromkeys(sparsity.KINDS, 0)
    for made in lists:
        kinds = sparsity.kinds_of(made)
        for number, name in enumerate(sparsity.KINDS):
            of_kind = (kinds == number).sum(0)
            counts[name] += each * int(of_kind.sum())
            size[name] += each * int((of_kind * width).sum()) * row
    block, k = lists[0].block_q * lists[0].block_kv, tiling.tensor_at(request, "K")
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
    """The run in a sentence."""
    executed, all_of = made.full + made.partial, made.full + made.partial + made.skipped
    skipped = f"{made.skipped:,} of {count(all_of, 'block')} {'is' if made.skipped == 1 else 'are'} never touched"
    if not executed:
        return "The mask shows nothing: no block is executed, and O is 0."
    return (
        f"{skipped}; the mask shows {made.density:.1%} of all pairs, and {made.computed / made.dense_pairs:.1%} are "
        f"multiplied: {made.full:,} full and {count(made.partial, 'partial block')}."
    )


def table(made: Ledger) -> pd.DataFrame:
    """A row for each kind of block, then what is executed, what of that is seen, and dense."""
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
    """tensor, as the probes call it -> bytes read of it in global memory."""
    rows = traffic.table[(traffic.table.space == "global") & traffic.table.kind.isin(READS)]
    return {str(symbol): int(size) for symbol, size in rows.groupby("tensor").bytes.sum().items()}


def kv_counted(request: Request, traffic: Traffic) -> int:
    """Bytes of K and V that the probes counted."""
    at = tiling.places(request)
    return sum(size for symbol, size in counted(request, traffic).items() if at.get(symbol) in ("K", "V"))


def ledger_blocks(run: Run, traffic: Traffic, times: pd.DataFrame) -> list[Block]:
    """The tab of the whole run: by the lists, as counted, and times. times: as app.times.known gives them."""
    made, request = ledger(run), run.request
    by_lists = made.bytes if traffic.whole else _of_scope(run)
    read, kv, at = counted(request, traffic), kv_counted(request, traffic), tiling.places(request)
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
    """Bytes of K and V of the walked query block, by its list."""
    place, keys = sparsity.place_of(run.request), axes.length(tiling.tensor_at(run.request, "K"), "key")
    lists = sparsity.lists_of_head(run, place.head)
    columns = [entry.column for entry in sparsity.entries_of(lists, place.tile, False)]
    there = sum(min(lists.block_kv, keys - column * lists.block_kv) for column in columns)
    return there * sparsity.row_bytes(run.request)


# ---- times ----


def recorded(request: Request, times: pd.DataFrame) -> pd.DataFrame:
    """Of a table of times the rows whose problem has the request's kind of mask: problem (in words), name, median_us,
    and `dense`: the fastest of PEERS on that problem, NaN where none has a time. Fastest first."""
    rows = []
    wanted = request.problem.mask
    for row in times[times.status == "ok"].itertuples():
        fields = json.loads(row.problem) if pd.notna(row.problem) else {}
        if fields.get("mask") == wanted:
            rows.append(
                (row.title, problem_said(request, fields), row.name, float(row.median_us), row.device, row.date)
            )
    columns = ["title", "problem", "name", "median_us", "device", "date"]
    found = pd.DataFrame(rows, columns=columns).sort_values("median_us", kind="stable")
    dense = found[found.name.isin(PEERS)].groupby(["title", "problem"]).median_us.min()
    keys = list(zip(found.title, found.problem))
    return found.assign(dense=[dense.get(key, np.nan) for key in keys]).reset_index(drop=True)


def problem_said(request: Request, fields: dict[str, Any]) -> str:
    """A recorded problem in words: its sizes, and what its mask looks at."""
    sizes = f"seq_len {fields['seq_len']:,}, {fields['num_heads']} heads of {fields['head_dim']}"
    looked_at = [f for f in TAKES.get(fields["mask"], ()) if f in fields and f != "drawn"]
    said = [sizes, *(f"{name} {_value(fields[name])}" for name in looked_at), *filter(None, [fields.get("dtype")])]
    if "block_q" in fields:
        said.append(f"blocks of {fields['block_q']} x {fields['block_kv']}")
    return ", ".join(said) + (", causal" if fields.get("causal") else "")


def _value(value: Any) -> str:
    return write_value(tuple(value) if isinstance(value, list) else value)


def time_blocks(request: Request, times: pd.DataFrame) -> list[Block]:
    """Recorded times of this kind of mask beside SDPA with a dense mask."""
    found = recorded(request, times)
    if found.empty:
        named = write_value(request.problem.mask)
        return [
            stage.note(f"No time is recorded with the mask {named}. Times come from GPUs alone, and never from here.")
        ]
    rows = [
        {
            "problem": "" if n else row.problem,  # said once
            "kernel": shown_name(row.name),
            "time": microseconds(row.median_us),
            "dense / time": "" if np.isnan(row.dense) else f"{row.dense / row.median_us:.3g}",
            "lit": row.name == request.kernel.name,
        }
        for _, same in found.groupby(["title", "problem"], sort=False)
        for n, row in enumerate(same.itertuples())
    ]
    where = ", ".join(sorted({f"{row.device}, {row.date}" for row in found.itertuples()}))
    said = (
        f"Recorded on {where}. dense / time: the fastest of torch's kernels that compute every pair and add the mask."
    )
    return [stage.table(pd.DataFrame(rows), said, lit="lit")]


# ---- elements or blocks ----


@dataclass(frozen=True)
class Way:
    """One way to execute a mask of a head. pairs: computed; bytes: of K and V that are asked for; sectors: of 32 bytes
    that those requests move; users: how many rows use a key that was loaded, at most; executed: share of the blocks,
    NaN of lists of keys."""

    name: str
    pairs: int
    bytes: int
    sectors: int
    users: int
    executed: float


def ways(request: Request) -> list[Way]:
    """A head's mask by CSR, then in square blocks of several sizes. Empty where it has too many pairs."""
    mask, row = request.problem.masks[0], sparsity.row_bytes(request)
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
    """Which blocks of size x size hold a seen pair, bool [rows, columns]."""
    rows, columns = (-(-n // size) for n in seen.shape)
    padded = np.zeros((rows * size, columns * size), bool)
    padded[: seen.shape[0], : seen.shape[1]] = seen
    return np.asarray(padded.reshape(rows, size, columns, size).any((1, 3)))


def _gathered(request: Request, seen: np.ndarray) -> int:
    """Sectors that a gather moves, by the memory model: a warp has a row, each lane reads VECTOR bytes of its own key
    at a time, of K; of V all lanes read one key's numbers together. Rows with as many keys cost as much, so the rows'
    counts alone matter: keys lie whole sectors apart."""
    tensor = tiling.tensor_at(request, "K")
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
    """The ways as figures, per seen pair; the first is CSR."""
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
    """The tab that sets lists of keys beside lists of blocks."""
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
    """The share of blocks that would hold a seen pair if pairs were seen at random; blocks at the end are smaller."""
    rows, columns = (np.minimum(size, n - np.arange(0, n, size)) for n in (queries, keys))
    return float((1 - (1 - density) ** np.outer(rows, columns)).mean())


def csr_times(times: pd.DataFrame) -> list[Block]:
    """Recorded times of masks of single pairs, by density, and the fastest dense kernel of each type on those sizes."""
    timed, rows = times[times.status == "ok"], []
    for row in timed.itertuples():
        fields = json.loads(row.problem) if pd.notna(row.problem) else {}
        if fields.get("mask") == "random":
            rows.append({**fields, "name": row.name, "us": row.median_us, "where": f"{row.device}, {row.date}"})
    if not rows:
        return [stage.note("No time is recorded with pairs seen at random.")]
    found = pd.DataFrame(rows).sort_values(["density", "us"], kind="stable")
    one = found.iloc[0]
    sizes = ("seq_len", "num_heads", "head_dim", "batch", "causal")
    same = timed[np.logical_and.reduce([timed[name] == one[name] for name in sizes])].sort_values("median_us")
    dense = same.drop_duplicates("dtype").sort_values("median_us")
    shown = [(f"{row.density:.0%}", shown_name(row.name), "float32", row.us) for row in found.itertuples()]
    shown += [("all", shown_name(row.name), row.dtype, row.median_us) for row in dense.itertuples()]
    table = pd.DataFrame(shown, columns=["pairs seen", "kernel", "type", "time"])
    table = table.assign(lit=table["pairs seen"] == "all", time=[microseconds(us) for us in table.time])
    said = (
        f"seq_len {one.seq_len:,}, {one.num_heads} heads of {one.head_dim}{', causal' if one.causal else ''}; pairs "
        f"seen at random; recorded on {one['where']}."
    )
    if sdpa := [shown_name(name) for name in PEERS if (found["name"] == name).any()]:
        said += f" SDPA's kernels ({', '.join(sdpa)}) compute every pair and add the mask."
    if (found["name"] == FLEX).any():
        said += f" {FLEX} skips blocks in which no pair is seen."
    if len(dense):
        types, pairs = ", ".join(dense.dtype), "those up to the query" if one.causal else "all"
        said += f" all: the fastest dense kernel of each type with a recorded time ({types}); its pairs are {pairs}."
    return [stage.table(table, said, lit="lit")]
