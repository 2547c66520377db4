"""The KV head of each query head, and the reads of each byte of the cache."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.walk_types import HeadsFrame, HeadsMeta
from explainers.story import axes, stage
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run

WANTS = ("walk_k", "walk_v", "write", "o")
DTYPES = {"fp32": 4, "fp16 or bf16": 2, "fp8": 1}
Reads = dict[str, Any]


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages and logs its loads of K and V."""
    return paging.accepts(spec)


def kind(num_heads: int, num_kv_heads: int) -> str:
    """Returns the field's name for a ratio of heads, with the ratio."""
    name = "MHA" if num_kv_heads == num_heads else "MQA" if num_kv_heads == 1 else "GQA"
    return f"{name} {num_heads}:{num_kv_heads}"


def reads(run: Run) -> Reads:
    """Returns the use of K and V by the traced loads of a whole Run, as a dict.

    num_heads, num_kv_heads: the heads.
    links: pairs (query head, KV head) from the logged addresses.
    K_bytes, V_bytes: distinct bytes that any sequence reads.
    K_read, V_read: all requested bytes.
    K_times, V_times: the least and the most reads of an element for one sequence.
    by_head: requested bytes of both for each query head.

    Rule: the KV head of a load is the index of its element along the axis kv_head of the cache.
    """
    paged, per_item = Paged(run.request), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[(frame.launch == 0) & (frame.event == "load") & (frame.space == "global")]
    links: set[tuple[int, int]] = set()
    by_head = np.zeros(paged.num_heads, np.int64)
    found: Reads = {"num_heads": paged.num_heads, "num_kv_heads": paged.num_kv_heads}
    for name, (symbol, cache) in (("K", paged.k), ("V", paged.v)):
        mine = frame[frame.tensor == symbol]
        sequence, head = np.divmod(mine.block.to_numpy() // per_item, paged.num_heads)
        kv_head = axes.coordinates(cache, mine.offset.to_numpy())[cache.axes.index("kv_head")]
        links |= set(zip(head.tolist(), kv_head.tolist()))
        np.add.at(by_head, head, mine.bytes.to_numpy(np.int64))
        found |= {f"{name}_{key}": value for key, value in _counts(mine, cache, sequence).items()}
    return {**found, "links": sorted(links), "by_head": by_head.tolist()}


def _counts(loads: pd.DataFrame, cache: Tensor, sequence: np.ndarray) -> dict[str, Any]:
    """Returns bytes, read and times of one cache, as in `reads`."""
    unit, offset, width = cache.itemsize, loads.offset.to_numpy(np.int64), loads.bytes.to_numpy(np.int64)
    count = width // unit
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    starts = np.repeat(offset, count) + unit * within
    _, times = np.unique(np.repeat(sequence, count) * cache.nbytes + starts, return_counts=True)
    return {
        "bytes": int(len(np.unique(starts)) * unit),
        "read": int(width.sum()),
        "times": (int(times.min()), int(times.max())),
    }


def stage_of(found: Sequence[Reads], provenance: stage.Provenance, tabs: Sequence[stage.Tab] = ()) -> stage.Stage:
    """Returns the whole stage, with a step for each query head. found: from `reads`, one for each ratio of heads."""
    frames = [_frame(found, head) for head in range(found[0]["num_heads"])]
    meta: HeadsMeta = {
        "frames": frames,
        "num_heads": found[0]["num_heads"],
        "panels": [
            {
                "title": kind(one["num_heads"], one["num_kv_heads"]),
                "kv_heads": one["num_kv_heads"],
                "links": one["links"],
                "held": one["K_bytes"] + one["V_bytes"],
            }
            for one in found
        ],
    }
    counted = "Counted in the traces over the whole cache. A load's KV head is derived: the index of its element along "
    table = stage.table(reads_table(found), counted + "the cache's axis of KV heads.")
    return stage.Stage(
        headline="Query heads that share a KV head share its keys and values: the cache is smaller, and each byte is "
        "read more often.",
        frames=frames,
        views=[stage.View("heads", "heads", "Heads", meta)],
        state=states(found),
        tabs=[stage.Tab("reads", "What is held and read", [stage.text(reads_sentence(found)), table]), *tabs],
        provenance=provenance,
        side=[stage.heading("How large is a KV cache"), stage.live("calculator", {"types": DTYPES})],
    )


def states(found: Sequence[Reads]) -> list[stage.State]:
    """Returns the strip: the held bytes and the bytes read so far, for each ratio of heads."""
    entries = []
    for one in found:
        title, read = kind(one["num_heads"], one["num_kv_heads"]), np.cumsum(one["by_head"]).tolist()
        held = f"{one['K_bytes'] + one['V_bytes']:,} B"
        entries += [
            stage.State(f"{title} holds", [held] * len(read)),
            stage.State(f"{title} has read", read, "B", colour="load"),
        ]
    return entries


def _frame(found: Sequence[Reads], head: int) -> HeadsFrame:
    reads_of = [next(k for h, k in one["links"] if h == head) for one in found]
    said = []
    for one, kv_head in zip(found, reads_of):
        sharing = sum(k == kv_head for _, k in one["links"])
        whose = "which no other query head reads" if sharing == 1 else f"which {sharing} query heads share"
        said.append(f"{kind(one['num_heads'], one['num_kv_heads'])}: KV head {kv_head}, {whose}")
    size = found[0]["by_head"][head]
    return {
        "tile": reads_of[min(1, len(found) - 1)],
        "title": f"Query head {head}",
        "sentence": f"Query head {head} reads {size:,} bytes of K and V, over all sequences. {'; '.join(said)}.",
        "head": head,
    }


def reads_table(found: Sequence[Reads]) -> pd.DataFrame:
    """Returns a row for each ratio of heads: bytes held, bytes read, and reads of each byte for a sequence."""

    def times(one: Reads, tensor: str) -> str:
        low, high = one[f"{tensor}_times"]
        return str(low) if low == high else f"{low} to {high}"

    return pd.DataFrame(
        [
            {
                "heads": kind(one["num_heads"], one["num_kv_heads"]),
                "K and V bytes that tokens fill": one["K_bytes"] + one["V_bytes"],
                "K and V bytes read": one["K_read"] + one["V_read"],
                "each K byte is read": times(one, "K"),
                "each V byte is read": times(one, "V"),
            }
            for one in found
        ]
    )


def reads_sentence(found: Sequence[Reads]) -> str:
    """Returns the saving of shared KV heads in sentences."""
    most, least = found[0], found[-1]
    held, read = ([one[f"K_{what}"] + one[f"V_{what}"] for one in (most, least)] for what in ("bytes", "read"))
    names = [kind(one["num_heads"], one["num_kv_heads"]) for one in (most, least)]
    return (
        f"{names[0]} holds {held[0]:,} bytes and reads each {most['K_times'][0]} time for a sequence; {names[1]} holds "
        f"{held[1]:,}, "
        f"{held[0] / held[1]:.3g} times less, and reads each {least['K_times'][0]} times. The bytes that the kernel "
        f"asks for stay the same: "
        f"{read[0]:,} and {read[1]:,}. The later reads of a byte can be served by a cache, or by a kernel that shares "
        f"it among query heads."
    )
