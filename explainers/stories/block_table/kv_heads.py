"""The KV head of each query head, and the reads of each byte of the cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import WORDS, Paged
from explainers.story import axes, stage
from explainers.story.glossary import count, short
from explainers.story.scene import Group, Lane, Lanes, Scene, Span
from explainers.story.words import Row
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run

WANTS = ("walk_k", "walk_v", "write", "o")
DTYPES = {"fp32": 4, "fp16 or bf16": 2, "fp8": 1}
NAMES = {"MHA": " (multi-head)", "GQA": " (grouped)", "MQA": " (multi-query)"}


@dataclass(frozen=True)
class Sized(Scene):
    """The picture, and the types of the calculator below it: name -> bytes."""

    types: Mapping[str, int] = field(default_factory=lambda: DTYPES)


@dataclass(frozen=True)
class CacheReads:
    """The reads of K or of V.

    held: distinct bytes that any sequence reads.
    read: all requested bytes.
    least, most: the reads of the least and the most read element for one sequence.
    """

    held: int
    read: int
    least: int
    most: int


@dataclass(frozen=True)
class HeadReads:
    """The use of K and V by the traced loads of a whole Run.

    links: pairs (query head, KV head) from the logged addresses.
    by_head: requested bytes of both for each query head.
    """

    num_heads: int
    num_kv_heads: int
    k: CacheReads
    v: CacheReads
    links: list[tuple[int, int]]
    by_head: list[int]

    @property
    def title(self) -> str:
        return kind(self.num_heads, self.num_kv_heads)

    @property
    def held(self) -> int:
        """The distinct bytes of K and V."""
        return self.k.held + self.v.held

    @property
    def read(self) -> int:
        """All requested bytes of K and V."""
        return self.k.read + self.v.read


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages and logs its loads of K and V."""
    return paging.accepts(spec)


def kind(num_heads: int, num_kv_heads: int) -> str:
    """The field's name for a ratio of heads, with the ratio."""
    name = "MHA" if num_kv_heads == num_heads else "MQA" if num_kv_heads == 1 else "GQA"
    return f"{name} {num_heads}:{num_kv_heads}"


def reads(run: Run) -> HeadReads:
    """The HeadReads of a whole Run.

    Rule: the KV head of a load is the index of its element along the axis kv_head of the cache.
    """
    paged, per_item = Paged(run.request), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[(frame.launch == 0) & (frame.event == "load") & (frame.space == "global")]
    links: set[tuple[int, int]] = set()
    by_head = np.zeros(paged.num_heads, np.int64)
    caches = []
    for symbol, cache in (paged.k, paged.v):
        own = frame[frame.tensor == symbol]
        sequence, head = np.divmod(own.block.to_numpy() // per_item, paged.num_heads)
        kv_head = axes.coordinates(cache, own.offset.to_numpy())[cache.axes.index("kv_head")]
        links |= set(zip(head.tolist(), kv_head.tolist()))
        np.add.at(by_head, head, own.bytes.to_numpy(np.int64))
        caches.append(_reads_of(own, cache, sequence))
    k, v = caches
    return HeadReads(paged.num_heads, paged.num_kv_heads, k, v, sorted(links), by_head.tolist())


def _reads_of(loads: pd.DataFrame, cache: Tensor, sequence: np.ndarray) -> CacheReads:
    """The reads of one cache. sequence: of each load."""
    unit, offset, width = cache.itemsize, loads.offset.to_numpy(np.int64), loads.bytes.to_numpy(np.int64)
    count = width // unit
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    starts = np.repeat(offset, count) + unit * within
    _, times = np.unique(np.repeat(sequence, count) * cache.nbytes + starts, return_counts=True)
    held = len(np.unique(starts)) * unit
    return CacheReads(int(held), int(width.sum()), int(times.min()), int(times.max()))


def stage_of(found: Sequence[HeadReads], provenance: stage.Provenance, tabs: Sequence[stage.Tab] = ()) -> stage.Stage:
    """The whole stage, with a step for each query head. found: from `reads`, one for each ratio of heads."""
    frames, most, least = WORDS.frames(steps_of(found), {"view": "heads"}), found[0], found[-1]
    ends = [{"title": one.title, "held": one.held, "each": one.k.least, "read": one.read} for one in (most, least)]
    text = WORDS.say("reads", {"most": ends[0], "least": ends[1], "times": short(most.held / least.held, 3)})
    table = stage.table(reads_table(found), WORDS.say("reads_rule", {}))
    return stage.Stage(
        headline=WORDS.say("heads", {}),
        frames=frames,
        views=[stage.View("heads", "heads", "Heads", picture(found))],
        state=states(found),
        tabs=[stage.Tab("reads", "Bytes held and read", [stage.text(text), table]), *tabs],
        provenance=provenance,
        questions=WORDS.questions(asked(found), len(frames) - 1),
    )


def picture(found: Sequence[HeadReads]) -> Sized:
    """For each ratio the query heads, and the KV head under the query heads that read it."""
    groups, rows, spans = list[Group](), list[Lane](), list[Span]()
    for n, one in enumerate(found):
        title = one.title + NAMES.get(one.title.split()[0], "")
        groups.append(Group(title=title, value=f"holds {one.held:,} bytes of K and V"))
        rows += [Lane(name="query heads", group=n), Lane(name="KV heads", group=n)]
        queries, stores = 2 * n, 2 * n + 1
        for head, store in one.links:
            spans.append(
                Span(
                    row=queries,
                    start=head,
                    end=head + 1,
                    texts=[f"Q{head}", str(head)],
                    colour="Q",
                    datum={"panel": n, "head": head},
                    now=[head],
                    since=head,
                    tip=f"{title}: query head {head} reads KV head {store}",
                )
            )
        for store in range(one.num_kv_heads):
            heads = [head for head, read in one.links if read == store]
            readers = f"query head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"
            for run in _neighbours(heads):
                spans.append(
                    Span(
                        row=stores,
                        start=run[0],
                        end=run[-1] + 1,
                        colour="K",
                        now=run,
                        since=run[0],
                        texts=[f"KV{store}", str(store)],
                        value=f"read by {count(len(heads), 'query head')}",
                        datum={"panel": n, "store": store},
                        tip=f"{title}: KV head {store} is read by {readers}",
                    )
                )
    lanes = Lanes(groups=groups, rows=rows, spans=spans, length=found[0].num_heads)
    return Sized([[lanes]], legend=[("Q", "query head"), ("K", "KV head")])


def _neighbours(numbers: Sequence[int]) -> list[list[int]]:
    """The numbers in runs without a gap."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    return [[number for _, number in run] for _, run in runs]


def states(found: Sequence[HeadReads]) -> list[stage.State]:
    """The strip: the held bytes and the bytes read so far, for each ratio of heads."""
    entries = []
    for one in found:
        read = np.cumsum(one.by_head).tolist()
        entries += [
            stage.State(f"{one.title} holds", [f"{one.held:,} B"] * len(read)),
            stage.State(f"{one.title} asked for", read, "B", colour="load"),
        ]
    return entries


def steps_of(found: Sequence[HeadReads]) -> list[Row]:
    """A row for each query head.

    ratios: a row for each ratio of heads: title, others (query heads that read its KV head, too), known (whether an
        earlier one has read it).
    """
    rows = []
    for head, asks in enumerate(found[0].by_head):
        ratios, stores = [], []
        for one in found:
            store = next(store for query, store in one.links if query == head)
            sharers = [query for query, other in one.links if other == store]
            ratios.append({"title": one.title, "others": len(sharers) - 1, "known": min(sharers) < head})
            stores.append(store)
        again = head > 0 and asks == found[0].by_head[0]
        rows.append(
            {"tile": stores[min(1, len(found) - 1)], "head": head, "asks": asks, "again": again, "ratios": ratios}
        )
    return rows


def reads_table(found: Sequence[HeadReads]) -> pd.DataFrame:
    """A row for each ratio of heads: bytes held, bytes read, and reads of each byte for a sequence."""
    return pd.DataFrame(
        [
            {
                "heads": one.title,
                "K and V bytes that tokens fill": one.held,
                "K and V bytes read": one.read,
                "each K byte is read": _times(one.k),
                "each V byte is read": _times(one.v),
            }
            for one in found
        ]
    )


def _times(cache: CacheReads) -> str:
    return str(cache.least) if cache.least == cache.most else f"{cache.least} to {cache.most}"


def asked(found: Sequence[HeadReads]) -> Row:
    """The names for the questions about the gain of grouped queries.

    full, least: the ratios with the most and with the least bytes. times: their quotient.
    """
    sizes = [{"held": one.held, "kv_heads": one.num_kv_heads} for one in found]
    full, least = max(sizes, key=lambda one: one["held"]), min(sizes, key=lambda one: one["held"])
    by_head = found[0].by_head
    return {
        **{"view": "heads", "num_heads": found[0].num_heads, "full": full, "least": least},
        **{"times": round(full["held"] / least["held"]), "sizes": [f"{one['held']:,}" for one in sizes]},
        **{"each": by_head[0], "total": sum(by_head), "asked_so_far": [f"{n:,}" for n in np.cumsum(by_head)]},
    }
