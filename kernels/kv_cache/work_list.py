"""The work list of paged_v3: every page of every sequence, cut into equal ranges, made anew for each decoding step."""

from typing import NamedTuple

import numpy as np

FIELDS = ("seq", "first", "pages", "next", "tokens", "slot", "partition", "partitions")


class WorkList(NamedTuple):
    """units: int32 [units, 8], a row of FIELDS each: pages [first, first + pages) of a sequence of `tokens` tokens. Its
    result is one of the sequence's `partitions`, kept at slot + partition of the partial results. Rows 0 to ranges - 1
    begin the ranges, in order; next: the row that follows in the same range, or -1. ranges: how many there are. slots:
    partial results per query head."""

    units: np.ndarray
    ranges: int
    slots: int


def work_list(firsts: np.ndarray, pages: np.ndarray, tokens: np.ndarray, ranges: int) -> WorkList:
    """The pages of all sequences, end to end, cut into at most `ranges` ranges that are equal within a page.

    firsts, pages, tokens: int [sequences], the first page that counts, how many there are from it on, at least one,
    and the sequence's tokens. Sequences that no cut divides have one partition and no slot.
    """
    ends = np.cumsum(pages)
    total = int(ends[-1])
    ranges = min(ranges, total)
    cuts = np.arange(ranges + 1) * total // ranges
    begins = ends - pages
    edges = np.concatenate((begins, cuts))
    edges.sort()
    edges = edges[np.flatnonzero(np.diff(edges, prepend=-1))]  # each once; the last is the end
    at = edges[:-1]
    seq = ends.searchsorted(at, "right")
    partitions = np.bincount(seq, minlength=len(pages))
    first_of = np.cumsum(partitions) - partitions  # the first unit of each sequence
    divided = np.where(partitions > 1, partitions, 0)
    slots = np.cumsum(divided)
    number = np.arange(len(at))
    opens = at == cuts[cuts.searchsorted(at)]  # units that begin a range
    row = np.where(opens, np.cumsum(opens) - 1, ranges + number - np.cumsum(opens))
    follows = np.empty(len(at), np.int64)
    follows[:-1] = np.where(opens[1:], -1, row[1:])
    follows[-1] = -1
    units = np.empty((len(at), len(FIELDS)), np.int32)
    units[row] = np.stack(
        (
            seq,
            firsts[seq] + at - begins[seq],
            edges[1:] - at,
            follows,
            tokens[seq],
            (slots - divided)[seq],
            number - first_of[seq],
            partitions[seq],
        ),
        axis=1,
    )
    return WorkList(units, ranges, int(slots[-1]))
