"""The KV head of each query head, and the reads of each byte of the cache."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pandas as pd

from explainers.stories.block_table import sharing
from explainers.stories.block_table.paging import WORDS, Paged, span
from explainers.story import axes, scene, stage
from explainers.story.glossary import count
from explainers.story.scene import Group, Lane, Lanes, Span
from explainers.story.words import Names, Row
from kernels.core.tensors import Tensor
from kernels.run.results import Run

NAMES = {"MHA": " (multi-head)", "GQA": " (grouped)", "MQA": " (multi-query)"}


def reads(run: Run) -> Row:
    """The use of K and V by the traced loads of a whole Run.

    title: the field's name for the ratio of heads, with the ratio.
    links: pairs (query head, KV head) from the logged addresses. The KV head of a load is the index of its element
        along the axis kv_head of the cache.
    by_head: requested bytes of both for each query head.
    k, v: {held, read, least, most}: distinct bytes that any sequence reads, all requested bytes, and the reads of the
        least and the most read element for one sequence. held, read: of both.
    """
    paged, per_item = Paged(run.request), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[(frame.launch == 0) & (frame.event == "load") & (frame.space == "global")]
    links: set[tuple[int, int]] = set()
    by_head = np.zeros(paged.num_heads, np.int64)
    found: Row = {"title": kind(paged.num_heads, paged.num_kv_heads), "num_heads": paged.num_heads}
    for name, (symbol, cache) in (("k", paged.k), ("v", paged.v)):
        own = frame[frame.tensor == symbol]
        sequence, head = np.divmod(own.block.to_numpy() // per_item, paged.num_heads)
        kv_head = axes.coordinates(cache, own.offset.to_numpy())[cache.axes.index("kv_head")]
        links |= set(zip(head.tolist(), kv_head.tolist()))
        np.add.at(by_head, head, own.bytes.to_numpy(np.int64))
        found[name] = _reads_of(own, cache, sequence)
    sums = {key: found["k"][key] + found["v"][key] for key in ("held", "read")}
    return {**found, **sums, "num_kv_heads": paged.num_kv_heads, "links": sorted(links), "by_head": by_head.tolist()}


def kind(num_heads: int, num_kv_heads: int) -> str:
    name = "MHA" if num_kv_heads == num_heads else "MQA" if num_kv_heads == 1 else "GQA"
    return f"{name} {num_heads}:{num_kv_heads}"


def _reads_of(loads: pd.DataFrame, cache: Tensor, sequence: np.ndarray) -> Row:
    """The reads of one cache. sequence: of each load."""
    unit, offset, width = cache.itemsize, loads.offset.to_numpy(np.int64), loads.bytes.to_numpy(np.int64)
    count = width // unit
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    starts = np.repeat(offset, count) + unit * within
    _, times = np.unique(np.repeat(sequence, count) * cache.nbytes + starts, return_counts=True)
    held = int(len(np.unique(starts)) * unit)
    return {"held": held, "read": int(width.sum()), "least": int(times.min()), "most": int(times.max())}


def stage_of(found: Sequence[Names], provenance: stage.Provenance, tabs: Sequence[stage.Tab] = ()) -> stage.Stage:
    """The whole stage, with a step for each query head. found: from `reads`, one for each ratio of heads."""
    frames = WORDS.frames(steps_of(found), {"view": "heads"})
    text = WORDS.say("reads", {"most": found[0], "least": found[-1]})
    table = stage.table(reads_table(found), WORDS.say("reads_rule", {}))
    return stage.Stage(
        headline=WORDS.say("heads", {}),
        frames=frames,
        views=[picture(found), sharing.view()],
        state=states(found),
        tabs=[stage.Tab("reads", "Bytes held and read", [stage.text(text), table]), *tabs],
        provenance=provenance,
        questions=sharing.questions(found),
    )


def picture(found: Sequence[Names]) -> stage.View:
    """For each ratio the query heads, and the KV head under the query heads that read it."""
    groups, rows, spans = list[Group](), list[Lane](), list[Span]()
    for n, one in enumerate(found):
        title = one["title"] + NAMES.get(one["title"].split()[0], "")
        groups.append(Group(title=title, value=f"holds {one['held']:,} bytes of K and V"))
        rows += [Lane(name="query heads", group=n), Lane(name="KV heads", group=n)]
        queries, stores = 2 * n, 2 * n + 1
        for head, store in one["links"]:
            tip, datum = f"{title}: query head {head} reads KV head {store}", {"panel": n, "head": head}
            made = span(queries, head, head + 1, "Q", datum, tip, [f"Q{head}", str(head)], head)
            spans.append(replace(made, go=None))
        for store in range(one["num_kv_heads"]):
            heads = [head for head, read in one["links"] if read == store]
            readers = f"query head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"
            tip, datum = f"{title}: KV head {store} is read by {readers}", {"panel": n, "store": store}
            for run in _neighbours(heads):
                made = span(stores, run[0], run[-1] + 1, "K", datum, tip, [f"KV{store}", str(store)], run[0])
                spans.append(replace(made, go=None, now=run, value=f"read by {count(len(heads), 'query head')}"))
    lanes = Lanes(groups=groups, rows=rows, spans=spans, length=found[0]["num_heads"])
    legend = [("Q", "query head"), ("K", "KV head")]
    return scene.view("heads", "Heads of the run", [[lanes]], legend=legend)


def _neighbours(numbers: Sequence[int]) -> list[list[int]]:
    """The numbers in runs without a gap."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    return [[number for _, number in run] for _, run in runs]


def states(found: Sequence[Names]) -> list[stage.State]:
    """The strip: the held bytes and the bytes read so far, for each ratio of heads."""
    entries = []
    for one in found:
        read = np.cumsum(one["by_head"]).tolist()
        entries += [
            stage.State(f"{one['title']} holds", [f"{one['held']:,} B"] * len(read)),
            stage.State(f"{one['title']} asked for", read, "B", colour="load"),
        ]
    return entries


def steps_of(found: Sequence[Names]) -> list[Row]:
    """A row for each query head.

    ratios: a row for each ratio of heads: title, others (query heads that read its KV head, too), known (whether an
        earlier one has read it).
    """
    rows = []
    for head, asks in enumerate(found[0]["by_head"]):
        ratios, stores = [], []
        for one in found:
            store = next(store for query, store in one["links"] if query == head)
            sharers = [query for query, other in one["links"] if other == store]
            ratios.append({"title": one["title"], "others": len(sharers) - 1, "known": min(sharers) < head})
            stores.append(store)
        again = head > 0 and asks == found[0]["by_head"][0]
        rows.append(
            {"tile": stores[min(1, len(found) - 1)], "head": head, "asks": asks, "again": again, "ratios": ratios}
        )
    return rows


def reads_table(found: Sequence[Names]) -> pd.DataFrame:
    """A row for each ratio of heads: bytes held, bytes read, and reads of each byte for a sequence."""
    rows = []
    for one in found:
        row = {"heads": one["title"], "K and V bytes that tokens fill": one["held"], "K and V bytes read": one["read"]}
        for key in ("k", "v"):
            least, most = one[key]["least"], one[key]["most"]
            row[f"each {key.upper()} byte is read"] = str(least) if least == most else f"{least} to {most}"
        rows.append(row)
    return pd.DataFrame(rows)
