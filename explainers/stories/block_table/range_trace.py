"""The trace of decoding over a work list, as one query head of one sequence sees it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.work_lists import WorkList, work_lists
from kernels.run.results import Run
from kernels.trace import steps as cutting


@dataclass(frozen=True)
class CacheErrors:
    """The errors of the followed head by a cache of 8 bits.

    scores: float64 [tokens], of each logged score against K before rounding.
    keys: float64 [tokens], the largest error of each token's K.
    output: the largest error of O.
    """

    scores: np.ndarray
    keys: np.ndarray
    output: float


class RangeTrace:
    """The records of a whole Run, and the ones of the followed head.

    names: the sequences.
    sequence, head, kv_head: the followed ones. name: the followed sequence.
    length, pages: the followed sequence's tokens and pages.
    lists: the work list of each launch.
    steps: the table of marked steps.
    records: every record, with its step, and its source line as `place`.
    own: the values of the followed head.
    errors: None for a cache in Q's type.
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
        self.errors = self._errors()

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

    def _errors(self) -> CacheErrors | None:
        problem = self.run.request.problem
        if not problem.cache_dtype:
            return None
        exact_scores = list(problem.scores(dequantised=False))[self.sequence][self.head]
        exact_output = problem.attention(dequantised=False)["o"][self.sequence, self.head]
        _, kept, _, first = list(problem.seen(True))[self.sequence]
        _, drawn, _, _ = list(problem.seen(False))[self.sequence]
        scores, keys = np.full(self.length, np.nan), np.full(self.length, np.nan)
        scores[first:] = np.abs(self.by_token("score")[first:] - exact_scores)
        keys[first:] = np.abs(kept - drawn)[:, self.kv_head].max(axis=-1)
        output = float(np.abs(self.output.astype(np.float64) - exact_output).max())
        return CacheErrors(scores, keys, output)


def value_of(values: pd.DataFrame, event: str) -> float:
    """Returns the first logged value of an event."""
    return float(values[values.event == event].value.iloc[0])
