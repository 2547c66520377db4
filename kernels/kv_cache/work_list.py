"""The work list of paged_v3: all pages of all sequences in equal ranges, new for each decoding step."""

from typing import NamedTuple

import numpy as np

FIELDS = ("seq", "first", "pages", "next", "tokens", "slot", "partition", "partitions")


class WorkList(NamedTuple):
    """The units of work of one step.

    units: int32 [units, 8], one row of FIELDS per unit: pages [first, first + pages) of a sequence of `tokens` tokens.
        Its result is one of the sequence's `partitions`, at slot + partition of the partials. Rows 0 to ranges - 1
        start the ranges, in order. `next` is the next row in the range, or -1.
    slots: number of partials per query head"""

    units: np.ndarray
    ranges: int
    slots: int


def work_list(firsts: np.ndarray, pages: np.ndarray, tokens: np.ndarray, ranges: int) -> WorkList:
    """The pages of all sequences, end to end, in at most `ranges` ranges with equal numbers of pages (within one).

    firsts: int [sequences], first relevant page
    pages: int [sequences], number of pages from there on. A sequence without pages has no unit.
    tokens: int [sequences], tokens of the sequence
    A sequence inside one range has one partition and no slot."""
    ends = np.cumsum(pages)
    total = int(ends[-1])
    ranges = min(ranges, total)
    cuts = np.arange(ranges + 1) * total // ranges
    begins = ends - pages
    edges = np.concatenate((begins, cuts))
    edges.sort()
    edges = edges[np.flatnonzero(np.diff(edges, prepend=-1))]  # each once, the end last
    at = edges[:-1]
    seq = ends.searchsorted(at, "right")
    partitions = np.bincount(seq, minlength=len(pages))
    first_of = np.cumsum(partitions) - partitions  # the first unit of each sequence
    divided = np.where(partitions > 1, partitions, 0)
    slots = np.cumsum(divided)
    number = np.arange(len(at))
    opens = at == cuts[cuts.searchsorted(at)]  # first units of the ranges
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


def padded(made: WorkList, most_ranges: int, sequences: int) -> np.ndarray:
    """The units as the GPU makes them, int32 [most_ranges + sequences, 8]: always as many rows for a graph.

    The units that open no range begin at row most_ranges. A row without a unit has no pages and no partition. Its
    result goes to the partial after the last.
    """
    units = np.zeros((most_ranges + sequences, len(FIELDS)), np.int32)
    units[:, FIELDS.index("next")] = -1
    units[:, FIELDS.index("slot")] = most_ranges + sequences
    moved = made.units.copy()
    following = moved[:, FIELDS.index("next")]
    following[following >= 0] += most_ranges - made.ranges
    units[: made.ranges] = moved[: made.ranges]
    units[most_ranges : most_ranges + len(moved) - made.ranges] = moved[made.ranges :]
    return units
