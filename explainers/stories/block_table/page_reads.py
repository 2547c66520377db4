"""Who reads a page, and how often: each kernel's reads of the same cache, from its trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.charts.palette import kernel_colour
from explainers.stories.block_table import kv_heads, paging
from explainers.stories.block_table.kv_cache import numbers_said
from explainers.stories.block_table.paging import K_AXES, TABLE, V_AXES, Paged
from explainers.story import axes, probed, stage
from explainers.story.frames import Frame
from explainers.story.glossary import count, figure, listed
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.run.results import Run
from kernels.trace.kinds import READS


class PageReadsFrame(Frame):
    """A kernel at a ratio of heads.

    row: its place in the list of rows.
    """

    row: int


class PageReadsRow(TypedDict):
    """The reads of each page by a kernel at a ratio of heads.

    colour: the kernel's.
    readers: names of the readers.
    asked, distinct: bytes of K and V, by page.
    least, most: reads of a byte of the page.
    """

    kernel: str
    heads: str
    colour: str
    readers: list[str]
    asked: list[int]
    distinct: list[int]
    least: list[int]
    most: list[int]


class PageReadsMeta(TypedDict):
    """The fields of the view.

    holders, colours: of each page, its sequences and their colours.
    absent: kernels without counts, with the reason.

    Columns, row by row, reader by reader, with an entry for each page: asked, distinct (bytes of this reader), blocks
        (thread blocks of this reader).
    """

    frames: list[PageReadsFrame]
    rows: list[PageReadsRow]
    holders: Sequence[Sequence[str]]
    colours: Sequence[Sequence[str]]
    absent: Sequence[str]


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


WANTS = ()
MOST_NAMED = 6  # most kinds of readers in a sentence


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel finds pages of K and V by a table, and logs its reads of both."""
    request = probed.sample(spec)
    caches = [axes.with_axes(request, *names, role=Role.INPUT) for names in CACHES]
    sites = [site for site in probed.probes(spec) if site.space == "global" and site.event in READS]
    reads = all(any(site.tensor in found for site in sites) for found in caches)
    return reads and bool(axes.with_axes(request, *TABLE, role=Role.INPUT))


def stage_of(
    found: Sequence[Reads],
    holders: Sequence[Sequence[str]],
    colours: Sequence[Sequence[str]],
    provenance: stage.Provenance,
    absent: Sequence[str] = (),
    tabs: Sequence[stage.Tab] = (),
) -> stage.Stage:
    """Returns the whole stage, with a step for each kernel and ratio of heads.

    found: the Reads of each step.
    holders, colours: for each page, its sequences and their colours.
    provenance: of the runs.
    absent: sentences about missing kernels.
    tabs: the other tabs.
    """
    frames = [_frame(found, holders, number) for number in range(len(found))]
    rows: list[PageReadsRow] = [
        {
            "kernel": one.kernel,
            "heads": one.heads,
            "colour": kernel_colour(one.kernel),
            "readers": one.readers,
            "asked": one.page_asked.tolist(),
            "distinct": one.page_distinct.tolist(),
            "least": one.least.tolist(),
            "most": one.most.tolist(),
        }
        for one in found
    ]
    meta: PageReadsMeta = {"frames": frames, "rows": rows, "holders": holders, "colours": colours, "absent": absent}
    columns = {
        name: np.concatenate([np.asarray(getattr(one, name)).ravel() for one in found])
        for name in ("asked", "distinct", "blocks")
    }
    rule = "Counted in the traces of whole runs. An access counts for the page of its first element."
    table = [stage.text(sentence(found)), stage.table(reads_table(found), rule), *map(stage.text, absent)]
    return stage.Stage(
        headline=f"{_held(found[0].lengths)}. With one block for each query head, a kernel reads a page once for each.",
        frames=frames,
        views=[stage.View("page_reads", "page_reads", "Reads of pages", meta, columns)],
        state=states(found),
        tabs=[stage.Tab("asked", "Bytes asked for and distinct", table), *tabs],
        provenance=provenance,
    )


def states(found: Sequence[Reads]) -> list[stage.State]:
    """Returns the strip: requested bytes of each kernel, distinct bytes, and bytes of slots without a token."""
    requested = [int(one.page_asked.sum()) for one in found]
    distinct = [int(one.page_distinct.sum()) for one in found]
    return [
        stage.State("bytes asked for", requested, "B", colour="load"),
        stage.State("distinct bytes", distinct, "B", colour="K"),
        stage.State("times asked for", [figure(a / d) for a, d in zip(requested, distinct)]),
        stage.State("most read page, times", [figure(float(one.times.max())) for one in found]),
        stage.State("distinct, of empty slots", [one.empty for one in found], "B"),
    ]


def _frame(found: Sequence[Reads], holders: Sequence[Sequence[str]], number: int) -> PageReadsFrame:
    one = found[number]
    requested, distinct, page = int(one.page_asked.sum()), int(one.page_distinct.sum()), int(one.times.argmax())
    read = one.most > 0
    alike = one.least[read].min() == one.most.max()
    each = f"each is asked for {figure(requested / distinct)} times{'' if alike else ' on average'}"
    empty = f", {one.empty:,} of these in slots without a token" if one.empty else ""
    return {
        "tile": [*dict.fromkeys(one.kernel for one in found)].index(one.kernel),
        "title": f"{one.kernel} · {one.heads}",
        "phase": one.kernel,
        "sentence": f"{one.kernel} with {one.heads} asks for {requested:,} bytes of K and V. {distinct:,} are distinct"
        f"{empty}: {'none is asked for twice' if requested == distinct else each}. {_most_read(one, holders, page)}",
        "row": number,
    }


def _most_read(one: Reads, holders: Sequence[Sequence[str]], page: int) -> str:
    """Returns the most read page, its reads and its readers, or the fact that all pages are read alike."""
    who = _readers_said([who for who, requested in zip(one.readers, one.asked[:, page]) if requested])
    if one.least[one.most > 0].min() == one.most.max():
        return f"All pages are read alike, {_times(one, page)}. Page {page} has {who}."
    held = f"{listed(list(holders[page]))} {'holds' if len(holders[page]) == 1 else 'hold'}"
    return f"The most read page is page {page}, {_times(one, page)}, by {who}. {held} it."


def _readers_said(readers: Sequence[str]) -> str:
    """Returns readers in words, with ranges: "8 readers: A query head 0 to 3 and B query head 0 to 3"."""
    kinds: dict[str, list[int]] = {}
    for kind, _, number in (reader.rpartition(" ") for reader in readers):
        kinds.setdefault(kind, []).append(int(number))
    said = [f"{kind} {numbers_said(numbers)}" for kind, numbers in kinds.items()]
    if len(said) > MOST_NAMED:
        said = [*said[: MOST_NAMED - 1], f"{len(said) - MOST_NAMED + 1} more"]
    return said[0] if len(readers) == 1 else f"{count(len(readers), 'reader')}: {listed(said)}"


def _held(lengths: dict[str, int]) -> str:
    """Returns the sequences in the cache."""
    if len(lengths) == 1:
        ((name, tokens),) = lengths.items()
        return f"A cache of 1 sequence, {name}, {count(tokens, 'token')} long"
    said = [f"{name} ({tokens})" for name, tokens in lengths.items()]
    return f"A cache of {count(len(said), 'sequence')}, {listed(said)} tokens long"


def often(times: float) -> str:
    """Returns a number of times in words: "once", "2.5 times"."""
    return "once" if figure(times) == "1" else f"{figure(times)} times"


def _times(one: Reads, page: int) -> str:
    """Returns the number of reads of each byte of a page."""
    low, high = int(one.least[page]), int(one.most[page])
    if low != high:
        return f"its bytes {low} to {high} times"
    return f"each byte {often(high)}"


def reads_table(found: Sequence[Reads]) -> pd.DataFrame:
    """Returns a row for each kernel and ratio of heads: requested and distinct bytes, and the reads of a byte."""
    return pd.DataFrame(
        [
            {
                "kernel": one.kernel,
                "heads": one.heads,
                "bytes asked for": int(one.page_asked.sum()),
                "distinct bytes": int(one.page_distinct.sum()),
                "distinct, of empty slots": one.empty,
                "asked for / distinct": round(float(one.page_asked.sum() / one.page_distinct.sum()), 4),
                "a byte is read, least": int(one.least[one.most > 0].min()),
                "a byte is read, most": int(one.most.max()),
                "readers": len(one.readers),
            }
            for one in found
        ]
    )


def sentence(found: Sequence[Reads]) -> str:
    """Returns the most and the least requested bytes for the same cache, in sentences."""
    shown = max(dict.fromkeys(one.heads for one in found), key=lambda heads: _spread(found, heads))
    least, most = (pick([one for one in found if one.heads == shown], key=_asked) for pick in (min, max))
    if _asked(least) == _asked(most):
        return f"With {shown}, each kernel asks for {count(_asked(most), 'byte')} of K and V."
    return (
        f"With {shown}, {most.kernel} asks for {_asked(most):,} bytes of K and V. {least.kernel} asks for "
        f"{_asked(least):,} bytes of the same cache, {figure(_asked(most) / _asked(least))} times fewer. "
        "The L1 or the L2 may serve the repeated reads. These counts do not tell."
    )


def _asked(one: Reads) -> int:
    return int(one.page_asked.sum())


def _spread(found: Sequence[Reads], heads: str) -> float:
    requested = [_asked(one) for one in found if one.heads == heads]
    return max(requested) / min(requested)


def asked(found: Sequence[Reads]) -> dict[str, object]:
    """The names for the questions: one read of a page for all query heads, or one for each.

    shared: the row with the most read page. least: the row with the same heads and the fewest bytes.
    busiest: first and last of shared's most read pages, if they are neighbours. Else None.
    """
    number = max(range(len(found)), key=lambda n: float(found[n].times.max()))
    one = found[number]
    same_heads = [n for n, other in enumerate(found) if other.heads == one.heads]
    totals = {n: _asked(found[n]) for n in same_heads}
    fewest = min(same_heads, key=lambda n: totals[n])
    page, top = int(one.times.argmax()), float(one.times.max())
    pages = [n for n, mean in enumerate(one.times) if mean == top]
    neighbours = pages == list(range(pages[0], pages[-1] + 1)) and len(pages) < int((one.most > 0).sum())
    requested, distinct = int(one.page_asked[page]), int(one.page_distinct[page])

    def row(n: int) -> dict[str, object]:
        reads = {"often": often(float(found[n].times.max())), "bytes": _asked(found[n])}
        return {"row": n, "kernel": found[n].kernel, "heads": found[n].heads, **reads}

    return {
        **{"view": "page_reads", "shared": row(number), "least": row(fewest)},
        "others": [found[n].kernel for n in same_heads if totals[n] != totals[fewest]],
        "totals": [f"{total:,}" for total in totals.values()],
        "busiest": [pages[0], pages[-1]] if neighbours else None,
        **{"page": page, "readers": int((one.asked[:, page] > 0).sum()), "asked": requested, "distinct": distinct},
        **{"each": often(requested / distinct), "most": figure(top)},
        "all_pages": figure(int(one.page_asked.sum()) / int(one.page_distinct.sum())),
        "covers": [{"row": number, "page": page}, *({"reader": n, "page": page} for n in range(len(one.asked)))],
    }
