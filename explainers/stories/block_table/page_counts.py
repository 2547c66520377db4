"""How often each byte of each page of a KV cache is read, and by whom, from a trace."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.block_table import kv_heads, paging
from explainers.stories.block_table.paging import K_AXES, V_AXES, Paged
from explainers.story import axes
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace.kinds import READS

CACHES = (K_AXES, V_AXES)


@dataclass(frozen=True)
class Reads:
    """The reads of K and V together in one run. Bytes are int64.

    kernel: its name.
    heads: the ratio of heads, from kv_heads.kind.
    readers: query heads of sequences, or the items of the launch if a block works for several query heads.
    asked: bytes of all accesses, [readers, pages].
    distinct: bytes, each counted once for its reader, [readers, pages].
    page_distinct: bytes, each counted once, [pages].
    blocks: thread blocks with a read, [readers, pages].
    least, most: reads of the least and the most read byte, [pages].
    filled: bytes of slots with a token, [pages].
    lengths: name of a sequence -> its tokens.
    """

    kernel: str
    heads: str
    readers: list[str]
    asked: np.ndarray
    distinct: np.ndarray
    blocks: np.ndarray
    page_distinct: np.ndarray
    least: np.ndarray
    most: np.ndarray
    filled: np.ndarray
    lengths: dict[str, int]

    @property
    def page_asked(self) -> np.ndarray:
        return self.asked.sum(0)

    @property
    def times(self) -> np.ndarray:
        """Returns the mean reads of a byte of each page, [pages]. 0 for a page without a read."""
        return self.page_asked / np.maximum(1, self.page_distinct)

    @property
    def empty(self) -> int:
        """Returns the distinct read bytes of slots without a token."""
        return int(np.maximum(0, self.page_distinct - self.filled).sum())


def count_reads(run: Run, names: Sequence[str]) -> Reads:
    """Returns the Reads of a whole Run. names: its sequences."""
    paged = Paged(run.request)
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[frame.event.isin(READS) & (frame.space == "global")]
    parts = [_spans(frame[frame.tensor == symbol], cache) for symbol, cache in (paged.k, paged.v)]
    spans = pd.concat([part.assign(cache=number) for number, part in enumerate(parts)], ignore_index=True)
    keys, reader, readers = _readers(run, spans, names)
    pages = axes.length(paged.k[1], "page")
    shape = (len(readers), pages)
    requested = _sums(shape, reader, spans.page, spans.bytes)
    cell = pd.DataFrame({"reader": reader, "page": spans.page, "block": keys.block, "launch": keys.launch})
    blocks = _sums(shape, *(cell.drop_duplicates()[name] for name in ("reader", "page")))
    distinct, page_distinct, least, most = np.zeros(shape, np.int64), *np.zeros((3, pages), np.int64)
    least[:] = np.iinfo(np.int64).max
    for part, own in ((part, reader[spans.cache == number]) for number, part in enumerate(parts)):
        unit, who, at, page = _units(part, own)
        each = pd.DataFrame({"reader": who, "page": page, "at": at})
        once = each.drop_duplicates()
        distinct += unit * _sums(shape, once.reader, once.page)
        times = each.groupby(["page", "at"]).size().reset_index(name="times")
        page_distinct += unit * _sums((pages,), times.page)
        by_page = times.groupby("page").times
        least[by_page.min().index] = np.minimum(least[by_page.min().index], by_page.min())
        most[by_page.max().index] = np.maximum(most[by_page.max().index], by_page.max())
    least[most == 0] = 0
    kind = kv_heads.kind(paged.num_heads, paged.num_kv_heads)
    counts = (requested, distinct, blocks, page_distinct, least, most, _filled(run))
    lengths = dict(zip(names, map(int, paging.lengths(run))))
    return Reads(run.request.kernel.name, kind, readers, *counts, lengths)


def _spans(loads: pd.DataFrame, cache: Tensor) -> pd.DataFrame:
    """Returns launch, block, offset, bytes and page of each access to one cache."""
    page = axes.coordinates(cache, loads.offset.to_numpy())[cache.axes.index("page")]
    return loads[["launch", "block", "offset", "bytes"]].astype(np.int64).assign(page=page).reset_index(drop=True)


def _readers(run: Run, spans: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Returns the spans, the number of each span's reader, and the names of the readers in the order of the grid."""
    plan, heads = run.request.plan, Paged(run.request).num_heads
    item = np.zeros(len(spans), np.int64)
    for number, launch in enumerate(plan.launches):
        own = (spans.launch == number).to_numpy()
        item[own] = spans.block[own] // launch.blocks_per_item
    every, reader = np.unique(np.stack([spans.launch, item]), axis=1, return_inverse=True)
    several = len(set(every[0])) > 1

    def called(launch: int, item: int) -> str:
        word = plan.launches[launch].item or "block"
        if word == paging.ITEM:
            return f"{names[item // heads]} {word} {item % heads}"
        return (f"launch {launch + 1}, " if several else "") + f"{word} {item}"

    return spans, reader.ravel(), [called(int(launch), int(item)) for launch, item in every.T]


def _units(spans: pd.DataFrame, reader: np.ndarray) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bytes of a unit (the largest common part of all accesses), and reader, number and page of each read
    unit."""
    width, offset = spans.bytes.to_numpy(), spans.offset.to_numpy()
    unit = max(1, int(np.gcd.reduce(np.concatenate([width, offset])))) if len(spans) else 1
    times = width // unit
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return unit, np.repeat(reader, times), np.repeat(offset // unit, times) + within, np.repeat(spans.page, times)


def _sums(shape: tuple[int, ...], *index: pd.Series | np.ndarray) -> np.ndarray:
    """Returns sums by place.

    The first len(shape) arguments are the places. The next one is the amount. If it is missing, the sum is a count.
    """
    at = np.ravel_multi_index([np.asarray(i, np.int64) for i in index[: len(shape)]], shape)
    weights = np.asarray(index[len(shape)], np.float64) if len(index) > len(shape) else None
    return np.bincount(at, weights, int(np.prod(shape))).astype(np.int64).reshape(shape)


def _filled(run: Run) -> np.ndarray:
    """Returns the bytes of K and V in slots with a token, [pages]."""
    paged, size = Paged(run.request), Paged(run.request).block_size
    filled = np.zeros(axes.length(paged.k[1], "page"), np.int64)
    for sequence, length in enumerate(paging.lengths(run)):
        for entry, page in enumerate(paging.pages_of(run, sequence)):
            filled[page] = max(filled[page], min(size, int(length) - entry * size))
    return filled * 2 * paged.num_kv_heads * paged.page_bytes // size
