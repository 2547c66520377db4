"""Which query heads read which KV head, how often each byte of the cache is read for it, and how large a KV cache is."""

import altair as alt
import numpy as np
import pandas as pd

from explainers.palette import OKABE_ITO, TENSOR
from kernels.kv_cache import model_bytes


def kind(num_heads, num_kv_heads):
    """The field's name for a ratio of heads, and the ratio."""
    name = "MHA" if num_kv_heads == num_heads else "MQA" if num_kv_heads == 1 else "GQA"
    return f"{name} {num_heads}:{num_kv_heads}"


def reads(run):
    """How the traced loads of a whole Run of paged_v1 use K and V: one dict of heads, kv_heads, links (query head, KV head) as found in the
    logged addresses, K_bytes and V_bytes that are read at all by one sequence or another, and how often each is read for one sequence
    (lowest and highest over all elements).

    Rule: a load's KV head is its byte offset / bytes of a page of one KV head, modulo num_kv_heads.
    """
    problem, per_item = run.request.problem, run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[(frame.launch == 0) & (frame.event == "load") & (frame.space == "global") & frame.tensor.isin(["K", "V"])]
    item = frame.block.to_numpy() // per_item
    sequence, head = np.divmod(item, problem.num_heads)
    offset, width = frame.offset.to_numpy(np.int64), frame.bytes.to_numpy(np.int64)
    kv_head = offset // problem.layout.page_bytes % problem.num_kv_heads
    found = {"heads": problem.num_heads, "kv_heads": problem.num_kv_heads, "links": sorted(set(zip(head.tolist(), kv_head.tolist())))}
    unit = np.dtype(problem.dtype).itemsize
    for tensor in "KV":
        mine = (frame.tensor == tensor).to_numpy()
        count = width[mine] // unit
        starts = np.repeat(offset[mine], count) + unit * (np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count))
        key = np.repeat(sequence[mine], count) * (2 * problem.num_blocks * problem.num_kv_heads * problem.layout.page_bytes) + starts
        _, times = np.unique(key, return_counts=True)
        found[f"{tensor}_bytes"] = int(len(np.unique(starts)) * unit)
        found[f"{tensor}_read"] = int(width[mine].sum())
        found[f"{tensor}_times"] = (int(times.min()), int(times.max()))
    return found


def heads_chart(found):
    """Lines from query heads to the KV heads whose bytes they read, a panel for each of `found` (from `reads`)."""
    panels = []
    for one in found:
        ratio = one["heads"] / one["kv_heads"]
        queries = pd.DataFrame({"x": range(one["heads"]), "y": 1, "label": [f"Q{h}" for h in range(one["heads"])], "kind": "query head"})
        stores = pd.DataFrame({"x": [(k + 0.5) * ratio - 0.5 for k in range(one["kv_heads"])], "y": 0, "label": [f"KV{k}" for k in range(one["kv_heads"])],
                               "kind": "KV head"})
        lines = pd.DataFrame([{"x": h, "y": 1, "x2": (k + 0.5) * ratio - 0.5, "y2": 0, "said": f"query head {h} reads KV head {k}"} for h, k in one["links"]])
        x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.7, one["heads"] - 0.3]))
        y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.35, 1.35]))
        rules = alt.Chart(lines).mark_rule(strokeWidth=2, color=TENSOR["K"]).encode(x=x, y=y, x2="x2:Q", y2="y2:Q", tooltip=["said:N"])
        colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=["query head", "KV head"], range=[TENSOR["Q"], TENSOR["K"]]))
        nodes = alt.Chart(pd.concat([queries, stores])).mark_circle(size=900, opacity=1).encode(x=x, y=y, color=colour, tooltip=["label:N"])
        labels = alt.Chart(pd.concat([queries, stores])).mark_text(fontSize=11, fontWeight="bold").encode(
            x=x, y=y, text="label:N", color=alt.condition("datum.kind === 'query head'", alt.value("white"), alt.value("black")))
        title = alt.TitleParams(kind(one["heads"], one["kv_heads"]), color=OKABE_ITO["grey"], fontSize=14)
        panels.append((rules + nodes + labels).properties(height=170, width="container", title=title))
    return panels


def reads_table(found):
    """One row per ratio of heads: bytes held, bytes read, and how often each is read for a sequence."""
    def times(one, tensor):
        low, high = one[f"{tensor}_times"]
        return str(low) if low == high else f"{low} to {high}"

    return pd.DataFrame([{
        "heads": kind(one["heads"], one["kv_heads"]), "K and V bytes that tokens fill": one["K_bytes"] + one["V_bytes"],
        "K and V bytes read": one["K_read"] + one["V_read"], "each K byte is read": times(one, "K"), "each V byte is read": times(one, "V")} for one in found])


def reads_sentence(found):
    """What sharing a KV head saves, in a sentence with its numbers."""
    most, least = found[0], found[-1]
    ratio = (most["K_bytes"] + most["V_bytes"]) / (least["K_bytes"] + least["V_bytes"])
    return (f"{kind(most['heads'], most['kv_heads'])} holds {most['K_bytes'] + most['V_bytes']:,} bytes and reads each {most['K_times'][0]} time for a "
            f"sequence; {kind(least['heads'], least['kv_heads'])} holds {least['K_bytes'] + least['V_bytes']:,}, {ratio:.3g} times less, and reads each "
            f"{least['K_times'][0]} times. The bytes that the kernel asks for stay the same: {most['K_read'] + most['V_read']:,} and "
            f"{least['K_read'] + least['V_read']:,}. The later reads of a byte can be served by a cache, or by a kernel that shares it among query heads.")


DTYPES = {"fp32": 4, "fp16 or bf16": 2, "fp8": 1}


def calculator(layers, heads, kv_heads, head_dim, length, dtype, sequences):
    """kind, KV heads, bytes: of the chosen number of KV heads, and of MHA and MQA beside it."""
    choices = dict.fromkeys((heads, kv_heads, 1))
    return pd.DataFrame([{"heads": kind(heads, kv), "KV heads": kv, "bytes": model_bytes(layers, kv, head_dim, length, DTYPES[dtype], sequences)}
                         for kv in choices])


def calculator_sentence(layers, kv_heads, head_dim, length, dtype, sequences):
    """The formula with its numbers."""
    size = DTYPES[dtype]
    total = model_bytes(layers, kv_heads, head_dim, length, size, sequences)
    return (f"2 (K and V) x {layers} layers x {kv_heads} KV heads x {head_dim} x {length:,} tokens x {size} byte{'s' if size > 1 else ''} x {sequences:,} "
            f"sequence{'s' if sequences > 1 else ''} = {total:,} bytes = {readable(total)}")


def readable(count):
    """Bytes in the largest binary unit that leaves at least 1."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:,.4g} {unit}"
        count /= 1024
