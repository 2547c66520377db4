"""Who reads a page: each kernel's reads of the same cache."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.charts.palette import kernel_colour
from explainers.stories.block_table.kv_cache import numbers_said
from explainers.stories.block_table.page_counts import CACHES, Reads
from explainers.stories.block_table.paging import TABLE
from explainers.stories.block_table.walk_types import PageReadsFrame, PageReadsMeta, PageReadsRow
from explainers.story import axes, probed, stage
from explainers.story.glossary import count, figure, listed
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role
from kernels.trace.kinds import READS

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
