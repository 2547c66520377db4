"""How often each page of a KV cache is read, and by whom: counted in whole runs of several kernels at several ratios of
query heads to KV heads, side by side.

Every byte is one that a probe logged: of a load its lane's bytes, of a bulk copy the run of bytes that it brings. Rule:
an access lies in the page of its first element.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.charts.palette import kernel_colour
from explainers.stories.block_table import kv_heads, paging
from explainers.stories.block_table.kv_cache import numbers_said
from explainers.stories.block_table.paging import K_AXES, TABLE, V_AXES, Paged
from explainers.stories.tiling.tiling import listed
from explainers.story import axes, probed, stage
from explainers.story.frames import PageReadsFrame, PageReadsMeta, PageReadsRow
from explainers.story.glossary import count, figure
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.run.results import Run
from kernels.trace.kinds import READS

WANTS = ()
CACHES = (K_AXES, V_AXES)
MOST_NAMED = 6  # kinds of readers in a sentence


@dataclass(frozen=True)
class Reads:
    """What a run reads of K and V together. kernel: its name; heads: the ratio, as kv_heads.kind has it. readers: who
    reads: a query head of a sequence where a block works for one, else what the launch's items are.

    Bytes, int64: asked [readers, pages], of all accesses; distinct [readers, pages], each counted once for its reader;
    page_distinct [pages], each counted once. blocks [readers, pages]: thread blocks that read there. least, most
    [pages]: how often the least and the most read byte is read. filled [pages]: bytes of slots that hold a token.
    lengths: of each sequence, by its name.
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
        """How often a byte of each page is read on average, [pages]; 0 where none is."""
        return self.page_asked / np.maximum(1, self.page_distinct)

    @property
    def empty(self) -> int:
        """Distinct bytes that are read of slots without a token."""
        return int(np.maximum(0, self.page_distinct - self.filled).sum())


def accepts(spec: KernelSpec) -> bool:
    """A kernel that finds pages of K and V by a table and logs how it reads both."""
    request = probed.sample(spec)
    caches = [axes.with_axes(request, *names, role=Role.INPUT) for names in CACHES]
    sites = [site for site in probed.probes(spec) if site.space == "global" and site.event in READS]
    reads = all(any(site.tensor in found for site in sites) for found in caches)
    return reads and bool(axes.with_axes(request, *TABLE, role=Role.INPUT))


def count_reads(run: Run, names: Sequence[str]) -> Reads:
    """The Reads of a whole Run. names: of its sequences."""
    paged = Paged(run.request)
    frame = run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")
    frame = frame[frame.event.isin(READS) & (frame.space == "global")]
    parts = [_spans(frame[frame.tensor == symbol], cache) for symbol, cache in (paged.k, paged.v)]
    spans = pd.concat([part.assign(cache=number) for number, part in enumerate(parts)], ignore_index=True)
    keys, reader, readers = _readers(run, spans, names)
    pages = axes.length(paged.k[1], "page")
    shape = (len(readers), pages)
    asked = _sums(shape, reader, spans.page, spans.bytes)
    cell = pd.DataFrame({"reader": reader, "page": spans.page, "block": keys.block, "launch": keys.launch})
    blocks = _sums(shape, *(cell.drop_duplicates()[name] for name in ("reader", "page")))
    distinct, page_distinct, least, most = np.zeros(shape, np.int64), *np.zeros((3, pages), np.int64)
    least[:] = np.iinfo(np.int64).max
    for part, mine in ((part, reader[spans.cache == number]) for number, part in enumerate(parts)):
        unit, who, at, page = _units(part, mine)
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
    counts = (asked, distinct, blocks, page_distinct, least, most, _filled(run))
    lengths = dict(zip(names, map(int, paging.lengths(run))))
    return Reads(run.request.kernel.name, kind, readers, *counts, lengths)


def _spans(loads: pd.DataFrame, cache: Tensor) -> pd.DataFrame:
    """launch, block, offset, bytes and page of each access of one cache."""
    page = axes.coordinates(cache, loads.offset.to_numpy())[cache.axes.index("page")]
    return loads[["launch", "block", "offset", "bytes"]].astype(np.int64).assign(page=page).reset_index(drop=True)


def _readers(run: Run, spans: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """(spans, the place of each span's reader in the list, what the readers are called, in the order of the grid)."""
    plan, heads = run.request.plan, Paged(run.request).num_heads
    item = np.zeros(len(spans), np.int64)
    for number, launch in enumerate(plan.launches):
        mine = (spans.launch == number).to_numpy()
        item[mine] = spans.block[mine] // launch.blocks_per_item
    every, reader = np.unique(np.stack([spans.launch, item]), axis=1, return_inverse=True)
    several = len(set(every[0])) > 1

    def called(launch: int, item: int) -> str:
        word = plan.launches[launch].item or "block"
        if word == paging.ITEM:
            return f"{names[item // heads]} {word} {item % heads}"
        return (f"launch {launch + 1}, " if several else "") + f"{word} {item}"

    return spans, reader.ravel(), [called(int(launch), int(item)) for launch, item in every.T]


def _units(spans: pd.DataFrame, reader: np.ndarray) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(bytes of a unit: the largest of which all accesses are made; reader, number and page of each unit that is
    read)."""
    width, offset = spans.bytes.to_numpy(), spans.offset.to_numpy()
    unit = max(1, int(np.gcd.reduce(np.concatenate([width, offset])))) if len(spans) else 1
    times = width // unit
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return unit, np.repeat(reader, times), np.repeat(offset // unit, times) + within, np.repeat(spans.page, times)


def _sums(shape: tuple[int, ...], *index: pd.Series | np.ndarray) -> np.ndarray:
    """Sums by place: the first len(shape) arguments say where, one more how much; without it, how many."""
    at = np.ravel_multi_index([np.asarray(i, np.int64) for i in index[: len(shape)]], shape)
    weights = np.asarray(index[len(shape)], np.float64) if len(index) > len(shape) else None
    return np.bincount(at, weights, int(np.prod(shape))).astype(np.int64).reshape(shape)


def _filled(run: Run) -> np.ndarray:
    """Bytes of K and V in each page's slots that hold a token, [pages]."""
    paged, size = Paged(run.request), Paged(run.request).block_size
    filled = np.zeros(axes.length(paged.k[1], "page"), np.int64)
    for sequence, length in enumerate(paging.lengths(run)):
        for entry, page in enumerate(paging.pages_of(run, sequence)):
            filled[page] = max(filled[page], min(size, int(length) - entry * size))
    return filled * 2 * paged.num_kv_heads * paged.page_bytes // size


# ---- the stage ----


def stage_of(
    found: Sequence[Reads],
    holders: Sequence[Sequence[str]],
    colours: Sequence[Sequence[str]],
    provenance: stage.Provenance,
    absent: Sequence[str] = (),
    tabs: Sequence[stage.Tab] = (),
) -> stage.Stage:
    """The whole stage: a step is a kernel at a ratio of heads. holders, colours: of each page, the sequences that hold
    it and their colours. absent: why other kernels are not there."""
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
    rule = "Counted in the traces of whole runs; an access lies in the page of its first element."
    table = [stage.text(sentence(found)), stage.table(reads_table(found), rule), *map(stage.text, absent)]
    return stage.Stage(
        headline=f"{_held(found[0].lengths)}. A kernel that gives each query head a block of its own reads a page "
        "again for each of them.",
        frames=frames,
        views=[stage.View("page_reads", "page_reads", "Reads of pages", meta, columns)],
        state=states(found),
        tabs=[stage.Tab("asked", "Bytes asked for and distinct", table), *tabs],
        provenance=provenance,
    )


def states(found: Sequence[Reads]) -> list[stage.State]:
    """The strip: what each kernel asks for, how much of it differs, and what it reads of slots without a token."""
    asked = [int(one.page_asked.sum()) for one in found]
    distinct = [int(one.page_distinct.sum()) for one in found]
    return [
        stage.State("bytes asked for", asked, "B", colour="load"),
        stage.State("distinct bytes", distinct, "B", colour="K"),
        stage.State("times asked for", [figure(a / d) for a, d in zip(asked, distinct)]),
        stage.State("most read page, times", [figure(float(one.times.max())) for one in found]),
        stage.State("distinct, of empty slots", [one.empty for one in found], "B"),
    ]


def _frame(found: Sequence[Reads], holders: Sequence[Sequence[str]], number: int) -> PageReadsFrame:
    one = found[number]
    asked, distinct, page = int(one.page_asked.sum()), int(one.page_distinct.sum()), int(one.times.argmax())
    read = one.most > 0
    alike = one.least[read].min() == one.most.max()
    each = f"each is asked for {figure(asked / distinct)} times{'' if alike else ' on average'}"
    empty = f", {one.empty:,} of these in slots without a token" if one.empty else ""
    return {
        "tile": [*dict.fromkeys(one.kernel for one in found)].index(one.kernel),
        "title": f"{one.kernel} · {one.heads}",
        "phase": one.kernel,
        "sentence": f"{one.kernel} with {one.heads} asks for {asked:,} bytes of K and V. {distinct:,} are distinct"
        f"{empty}: {'none is asked for twice' if asked == distinct else each}. {_most_read(one, holders, page)}",
        "row": number,
    }


def _most_read(one: Reads, holders: Sequence[Sequence[str]], page: int) -> str:
    """Which page is read most, how often and by whom; or that all are read alike."""
    who = _readers_said([who for who, asked in zip(one.readers, one.asked[:, page]) if asked])
    if one.least[one.most > 0].min() == one.most.max():
        return f"All pages are read alike, {_times(one, page)}; page {page} by {who}."
    held = f"{listed(list(holders[page]))} {'holds' if len(holders[page]) == 1 else 'hold'}"
    return f"Page {page}, which {held}, is read most, {_times(one, page)}, by {who}."


def _readers_said(readers: Sequence[str]) -> str:
    """ "8 readers: A query head 0 to 3 and B query head 0 to 3": those of a kind are drawn together."""
    kinds: dict[str, list[int]] = {}
    for kind, _, number in (reader.rpartition(" ") for reader in readers):
        kinds.setdefault(kind, []).append(int(number))
    said = [f"{kind} {numbers_said(numbers)}" for kind, numbers in kinds.items()]
    if len(said) > MOST_NAMED:
        said = [*said[: MOST_NAMED - 1], f"{len(said) - MOST_NAMED + 1} more"]
    return said[0] if len(readers) == 1 else f"{count(len(readers), 'reader')}: {listed(said)}"


def _held(lengths: dict[str, int]) -> str:
    """Who is in the cache."""
    if len(lengths) == 1:
        ((name, tokens),) = lengths.items()
        return f"A cache of 1 sequence, {name}, {count(tokens, 'token')} long"
    said = [f"{name} ({tokens})" for name, tokens in lengths.items()]
    return f"A cache of {count(len(said), 'sequence')}, {listed(said)} tokens long"


def often(times: float) -> str:
    """ "once", "2.5 times"."""
    return "once" if figure(times) == "1" else f"{figure(times)} times"


def _times(one: Reads, page: int) -> str:
    """How often each byte of a page is read."""
    low, high = int(one.least[page]), int(one.most[page])
    if low != high:
        return f"its bytes {low} to {high} times"
    return f"each byte {often(high)}"


def reads_table(found: Sequence[Reads]) -> pd.DataFrame:
    """A row for each kernel and ratio of heads: bytes asked for, distinct, of empty slots, and how often a byte is
    read."""
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
    """The point of the comparison, with its numbers: who asks for the most and the least bytes of those that hold the
    same cache."""
    shown = max(dict.fromkeys(one.heads for one in found), key=lambda heads: _spread(found, heads))
    least, most = (pick([one for one in found if one.heads == shown], key=_asked) for pick in (min, max))
    if _asked(least) == _asked(most):
        return f"With {shown}, {count(_asked(most), 'byte')} of K and V are asked for, whatever the kernel."
    return (
        f"With {shown}, {most.kernel} asks for {_asked(most):,} bytes of K and V, "
        f"{figure(_asked(most) / _asked(least))} times as many as {least.kernel}, {_asked(least):,}, of the same "
        "cache. What is asked for again may come out of the L1 or L2; these counts do not say where it comes from."
    )


def _asked(one: Reads) -> int:
    return int(one.page_asked.sum())


def _spread(found: Sequence[Reads], heads: str) -> float:
    asked = [_asked(one) for one in found if one.heads == heads]
    return max(asked) / min(asked)
