"""The first step of decoding over a work list: the lists in sentences."""

from collections.abc import Sequence

from explainers.stories.block_table.range_trace import RangeTrace
from explainers.stories.block_table.work_lists import PAGES, PARTITIONS, SEQ, WorkList
from explainers.story.glossary import count, listed


def plan_sentence(trace: RangeTrace) -> str:
    """Returns the prefixes, the ranges and the pieces of the followed sequence."""
    own, prefixes = trace.lists[-1], trace.lists[:-1]
    sequences = {sequence for unit in own.in_order for sequence in own.sequences(unit)}
    total = int(own.table[:, PAGES].sum())
    entries = f"{count(total, 'entry', 'entries')} of {count(len(sequences), 'block table')}"
    subject = f"What follows, {entries}" if prefixes else f"The {entries}"
    verb = "is" if prefixes or total == 1 else "are"
    said = [
        *(_prefix_sentence(trace, prefix) for prefix in prefixes),
        f"{subject}, end to end, {verb} cut into {count(own.ranges, 'range')} of {_span(_range_lengths(own))}, a "
        "thread block for each range and KV head.",
        _pieces_sentence(trace, own, prefixes),
    ]
    return " ".join(said)


def _range_lengths(work_list: WorkList) -> list[int]:
    """Returns the pages of each range."""
    lengths = [0] * work_list.ranges
    for unit, number in enumerate(work_list.range_of):
        lengths[number] += int(work_list.table[unit, PAGES])
    return lengths


def _pieces_sentence(trace: RangeTrace, own: WorkList, prefixes: Sequence[WorkList]) -> str:
    pieces = len(trace.own_units(own))
    lies = "lies" if len(trace.pages) == 1 else "lie"
    where = f"{pieces} of them" if pieces > 1 else "one"
    shared = any(trace.own_units(prefix) for prefix in prefixes)
    also = " and in the prefix's" if shared else ""
    return f"{trace.name}'s {count(len(trace.pages), 'page')} {lies} in {where}{also}."


def _prefix_sentence(trace: RangeTrace, prefix: WorkList) -> str:
    """Returns the sharers of each prefix and its pages.

    A list repeats a prefix for sequences beyond the columns of a block.
    """
    problem = trace.run.request.problem
    at_once = problem.cache_use.prefix_heads // trace.group
    said, known = [], set()
    for first in dict.fromkeys(int(prefix.table[unit, SEQ]) for unit in prefix.in_order):
        units = prefix.table[prefix.table[:, SEQ] == first]
        names = listed([trace.names[first + n] for n in range(units[0, PARTITIONS])])
        pages = tuple(problem.block_tables[first][: units[:, PAGES].sum()])
        if pages in known:
            said.append(
                f"They are listed once more for {names}: a block has columns for {at_once} sequences of "
                f"{count(trace.group, 'query head')}."
            )
        else:
            stands = "stands" if len(pages) == 1 else "stand"
            said.append(
                f"{names} begin with the same {count(len(pages), 'page')}, which {stands} once, in a list of prefixes."
            )
        known.add(pages)
    return f"{' '.join(said)} That list is cut into {count(prefix.ranges, 'range')}."


def _span(lengths: Sequence[int]) -> str:
    low, high = min(lengths), max(lengths)
    return count(high, "page") if low == high else f"{low} to {high} pages"
