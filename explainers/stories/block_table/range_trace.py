"""Decoding over a work list, as one query head of one sequence sees it: the lists, and the records of the trace.

The pages of all sequences are cut into equal ranges. A *unit* is a piece of a sequence. A range has one unit or more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NotRequired, TypedDict

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.story import axes
from explainers.story.frames import Frame, Number
from kernels.core.request import Request
from kernels.kv_cache.work_list import FIELDS
from kernels.run.results import Run
from kernels.trace import steps as cutting


class RangesFrame(Frame):
    """A step of decoding over a work list.

    read: the step's bytes from global memory.
    unit: its place in RangesMeta.units, or -1.
    page, entry, bytes: of a copied page.
    tokens, warp: of a tile, with first and last token.
    m, l: after a tile, a unit or the merge.
    written: the step writes O.
    merged: the step merges partial results.
    """

    read: int
    unit: int
    page: NotRequired[int]
    entry: NotRequired[int]
    bytes: NotRequired[int]
    tokens: NotRequired[list[int]]
    warp: NotRequired[int]
    m: NotRequired[Number]
    l: NotRequired[Number]
    written: NotRequired[bool]
    merged: NotRequired[bool]


class RangesTile(TypedDict):
    """Tokens first to end of one warp, and its m and l after them.

    since: the step with the first m and l.
    """

    first: int
    end: int
    warp: int
    m: float
    l: float
    since: int


class RangesUnit(TypedDict):
    """A piece of the followed sequence.

    list: its launch.
    number: its row in the work list.
    entries, tokens: [first, end).
    pages: {entry, page, stage, slot, since} of its copies.
    since: the step with the first values.
    m, l: of the unit.
    weight: e^(m_i - m), if there is a merge.
    """

    list: int
    number: int
    range: int
    block: int
    entries: list[int]
    tokens: list[int]
    partition: int
    pages: list[dict[str, int]]
    tiles: list[RangesTile]
    since: int
    m: NotRequired[float]
    l: NotRequired[float]
    weight: NotRequired[float]


class RangesList(TypedDict):
    """A work list end to end.

    shared: a list of prefixes.
    cells: [sequence, entry, page] each.
    units: [number, range, first cell, cells] each.
    sharers: the sequences of each unit.
    """

    shared: bool
    ranges: int
    cells: list[list[int]]
    units: list[list[int]]
    sharers: dict[int, list[int]]


class RangesMeta(TypedDict):
    """The fields of the view.

    names, colours: of the sequences.
    sequence, head, kv_head: the followed ones.
    length: tokens.
    size: slots of a page.
    units: of the sequence.
    stages, stage_pages: of the ring in shared memory.
    warps: the number of warps with products.
    merged: m and l of the sequence.

    Columns: scores [length], NaN without a score. o [head_dim].
    """

    frames: list[RangesFrame]
    names: list[str]
    colours: list[str]
    sequence: int
    head: int
    kv_head: int
    length: int
    size: int
    lists: list[RangesList]
    units: list[RangesUnit]
    stages: int
    stage_pages: int
    warps: int
    merged: dict[str, float]


LIST_AXES = ("unit", "field")
SEQ, FIRST, PAGES, NEXT, TOKENS, SLOT, PARTITION, PARTITIONS = range(len(FIELDS))


@dataclass(frozen=True)
class WorkList:
    """The list of a launch.

    launch: the launch.
    table: int [units, 8], a row of FIELDS for each unit.
    ranges: the number of ranges.
    shared: whether the units belong to prefixes. The field seq is then the first of `partitions` sharers.
    range_of: the range of each unit.
    """

    launch: int
    table: np.ndarray
    ranges: int
    shared: bool

    @cached_property
    def range_of(self) -> list[int]:
        found = [-1] * len(self.table)
        for number in range(self.ranges):
            unit = number
            while unit >= 0:
                found[unit] = number
                unit = int(self.table[unit, NEXT])
        return found

    def sequences(self, unit: int) -> list[int]:
        """Returns the sequences of a unit."""
        first = int(self.table[unit, SEQ])
        return list(range(first, first + int(self.table[unit, PARTITIONS]))) if self.shared else [first]

    @cached_property
    def in_order(self) -> list[int]:
        """Returns the units in the order of their pages."""
        return sorted(range(len(self.table)), key=lambda n: (self.table[n, SEQ], self.table[n, FIRST]))


def work_lists(run: Run) -> list[WorkList]:
    """Returns the work list of each launch. All but the last are of prefixes."""
    launches, names = run.request.plan.launches, list_names(run.request)
    last = len(launches) - 1
    return [
        WorkList(n, np.asarray(run.arrays[name]), launch.blocks // launch.blocks_per_item, n < last)
        for n, (name, launch) in enumerate(zip(names, launches))
    ]


def list_names(request: Request) -> list[str]:
    """Returns the name of each launch's work list among the arrays."""
    known = {tensor.name for tensor in axes.with_axes(request, *LIST_AXES).values()}
    return [
        next(name for name in launch.args if isinstance(name, str) and name in known)
        for launch in request.plan.launches
    ]


class RangeTrace:
    """The records of a whole Run, and the ones of the followed head.

    names: the sequences.
    sequence, head, kv_head: the followed ones. name: the followed sequence.
    length, pages: the followed sequence's tokens and pages.
    lists: the work list of each launch.
    steps: the table of marked steps.
    records: every record, with its step, and its source line as `place`.
    own: the values of the followed head.
    """

    def __init__(self, run: Run, names: Sequence[str], sequence: int, head: int) -> None:
        self.run, self.names, self.sequence, self.head = run, names, sequence, head
        self.paged = Paged(run.request)
        self.name, self.kv_head = names[sequence], self.paged.kv_head_of(head)
        self.length = int(paging.lengths(run)[sequence])
        self.pages = paging.pages_of(run, sequence)
        self.lists = work_lists(run)
        sites = run.sites
        cut = cutting.cut(run.trace, sites)
        self.steps = cut.table
        frame = run.trace.frame()
        places = np.array([site.place if site.kind in ("value", "access") else "" for site in sites])
        words = {name: frame[name].astype(str) for name in ("event", "tensor", "space")}
        self.records = frame.assign(step=cut.of_record, place=places[sites.index(run.trace.table)], **words)
        values = self.records[self.records.value.notna()]
        self.own = values[(values.sequence == sequence) & (values["head"] == head)]

    @property
    def group(self) -> int:
        """Returns the query heads of a KV head."""
        return self.paged.num_heads // self.paged.num_kv_heads

    @property
    def output(self) -> np.ndarray:
        """Returns the followed head's row of O, [head_dim]."""
        return self.run.arrays[self.paged.o[1].name][self.sequence, self.head]

    @property
    def partitions(self) -> int:
        """Returns the number of partial results of the followed sequence."""
        weights = self.own[self.own.event == "weight"]
        return max(1, int(weights.partition.nunique()))

    @property
    def merged(self) -> dict[str, float]:
        """Returns m and l of the followed head over its whole context."""
        return {key: value_of(self.own, f"{key}_all") for key in ("m", "l")}

    def own_units(self, work_list: WorkList) -> list[int]:
        """Returns the units of the followed sequence, in the order of its pages."""
        return [unit for unit in work_list.in_order if self.sequence in work_list.sequences(unit)]

    def by_token(self, event: str) -> np.ndarray:
        """Returns the logged value of each token, float32 [tokens], else NaN."""
        found = np.full(self.length, np.nan, np.float32)
        logged = self.own[self.own.event == event]
        found[logged.token.astype(int)] = logged.value
        return found


def value_of(values: pd.DataFrame, event: str) -> float:
    """Returns the first logged value of an event."""
    return float(values[values.event == event].value.iloc[0])
