"""Which query heads read which KV head, how often each byte of the cache is read, and how large a KV cache is."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from explainers import axes, paging
from explainers.paging import Paged
from explainers.palette import AXIS, TENSORS
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.families.paged.kv_cache import model_bytes
from kernels.run.results import Run

WANTS = ("walk_k", "walk_v", "write", "o")
DTYPES = {"fp32": 4, "fp16 or bf16": 2, "fp8": 1}
Reads = dict[str, Any]


def accepts(spec: KernelSpec) -> bool:
    """Attention over pages whose loads of K and V are logged."""
    return paging.accepts(spec)


def kind(num_heads: int, num_kv_heads: int) -> str:
    """The field's name for a ratio of heads, and the ratio."""
    name = "MHA" if num_kv_heads == num_heads else "MQA" if num_kv_heads == 1 else "GQA"
    return f"{name} {num_heads}:{num_kv_heads}"


def reads(run: Run) -> Reads:
    """How the traced loads of a whole Run use K and V: one dict of num_heads, num_kv_heads, links (query head, KV head)
    as found in the logged addresses, K_bytes and V_bytes that are read at all by one sequence or another, K_read and
    V_read that are asked for, and how often each is read for one sequence (K_times and V_times: lowest and highest over
    all elements).

    Rule: a load's KV head is the index of its element along the cache's axis kv_head.
    """
    paged, per_item = Paged(run.request), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[(frame.launch == 0) & (frame.event == "load") & (frame.space == "global")]
    links: set[tuple[int, int]] = set()
    found: Reads = {"num_heads": paged.num_heads, "num_kv_heads": paged.num_kv_heads}
    for name, (symbol, cache) in (("K", paged.k), ("V", paged.v)):
        mine = frame[frame.tensor == symbol]
        sequence, head = np.divmod(mine.block.to_numpy() // per_item, paged.num_heads)
        kv_head = axes.coordinates(cache, mine.offset.to_numpy())[cache.axes.index("kv_head")]
        links |= set(zip(head.tolist(), kv_head.tolist()))
        found |= {f"{name}_{key}": value for key, value in _counts(mine, cache, sequence).items()}
    return {**found, "links": sorted(links)}


def _counts(loads: pd.DataFrame, cache: Tensor, sequence: np.ndarray) -> dict[str, Any]:
    """bytes, read and times of one cache, as `reads` gives them."""
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


def heads_chart(found: Sequence[Reads]) -> list[alt.LayerChart]:
    """Lines from query heads to the KV heads whose bytes they read, a panel for each of `found` (from `reads`)."""
    return [_panel(one) for one in found]


def _panel(one: Reads) -> alt.LayerChart:
    heads, kv_heads = one["num_heads"], one["num_kv_heads"]
    at = [(k + 0.5) * heads / kv_heads - 0.5 for k in range(kv_heads)]
    queries = pd.DataFrame({"x": range(heads), "y": 1, "label": [f"Q{h}" for h in range(heads)], "kind": "query head"})
    stores = pd.DataFrame({"x": at, "y": 0, "label": [f"KV{k}" for k in range(kv_heads)], "kind": "KV head"})
    links = [
        {"x": h, "y": 1, "x2": at[k], "y2": 0, "said": f"query head {h} reads KV head {k}"} for h, k in one["links"]
    ]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.7, heads - 0.3]))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.35, 1.35]))
    rules = alt.Chart(pd.DataFrame(links)).mark_rule(strokeWidth=2, color=TENSORS["K"])
    scale = alt.Scale(domain=["query head", "KV head"], range=[TENSORS["Q"], TENSORS["K"]])
    nodes = alt.Chart(pd.concat([queries, stores])).mark_circle(size=900, opacity=1)
    labels = alt.Chart(pd.concat([queries, stores])).mark_text(fontSize=11, fontWeight="bold")
    text_colour = alt.condition("datum.kind === 'query head'", alt.value("white"), alt.value("black"))
    layers = (
        rules.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", tooltip=["said:N"])
        + nodes.encode(x=x, y=y, color=alt.Color("kind:N", legend=None, scale=scale), tooltip=["label:N"])
        + labels.encode(x=x, y=y, text="label:N", color=text_colour)
    )
    title = alt.TitleParams(kind(heads, kv_heads), color=AXIS, fontSize=14)
    return layers.properties(height=170, width="container", title=title)


def reads_table(found: Sequence[Reads]) -> pd.DataFrame:
    """One row per ratio of heads: bytes held, bytes read, and how often each is read for a sequence."""

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
    """What sharing a KV head saves, in a sentence with its numbers."""
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


def calculator(
    layers: int, num_heads: int, num_kv_heads: int, head_dim: int, length: int, dtype: str, sequences: int
) -> pd.DataFrame:
    """heads (their kind), KV heads, bytes: of the chosen number of KV heads, and of MHA and MQA beside it. dtype: one
    of DTYPES."""
    size = DTYPES[dtype]
    return pd.DataFrame(
        [
            {
                "heads": kind(num_heads, kv),
                "KV heads": kv,
                "bytes": model_bytes(layers, kv, head_dim, length, size, sequences),
            }
            for kv in dict.fromkeys((num_heads, num_kv_heads, 1))
        ]
    )


def calculator_sentence(layers: int, num_kv_heads: int, head_dim: int, length: int, dtype: str, sequences: int) -> str:
    """The formula with its numbers."""
    size = DTYPES[dtype]
    total = model_bytes(layers, num_kv_heads, head_dim, length, size, sequences)
    return (
        f"2 (K and V) x {layers} layers x {num_kv_heads} KV heads x {head_dim} x {length:,} tokens x {size} "
        f"byte{'s' if size > 1 else ''} x "
        f"{sequences:,} sequence{'s' if sequences > 1 else ''} = {total:,} bytes = {readable(total)}"
    )


def readable(count: float) -> str:
    """Bytes in the largest binary unit that leaves at least 1."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.4g} {unit}"
        count /= 1024
    return f"{count:,.4g} TiB"
