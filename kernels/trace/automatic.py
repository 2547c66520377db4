"""The sites of automatic probes. A plain kernel has no probe lines, so they come from its trace."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from kernels.errors import TraceError
from kernels.trace.probes import Site, Sites
from kernels.trace.trace import Trace

START, BARRIER = "kernel_start", "barrier"
"""The marks of every plain kernel: the start of a thread, and each barrier."""
PHASE = "phase"  # the key of both: the barriers of the thread up to here
_IDENTITY = ("file", "line", "event", "space", "tensor", "bytes")
_Identity = tuple[str, int, str, str, str, int]


@dataclass(frozen=True)
class LoggedSites(Sites):
    """The sites of a trace with automatic probes. A line has one for each event, tensor and number of bytes."""

    def index(self, table: pa.Table) -> np.ndarray:
        """The site's number of each record, int64 [records]. Raises TraceError for another trace."""
        number, found = _identities(table)
        known = {
            (site.file, site.line, site.event, site.space or "", site.tensor or "", site.bytes): place
            for place, site in enumerate(self.listed)
        }
        if odd := [each for each in found if each not in known]:
            raise TraceError(f"The trace names {odd[0][0]}:{odd[0][1]}, a line of another run. Run the kernel again.")
        return np.array([known[each] for each in found], np.int64)[number]


def sites_in(trace: Trace, files: tuple[tuple[str, str], ...]) -> Sites:
    """The sites of a plain kernel's trace, in the order of its files and lines."""
    number, found = _identities(trace.table)
    firsts = np.unique(number, return_index=True)[1]
    keyed = {name: trace.table[name].is_valid().to_numpy() for name in trace.keys}
    valued = trace.table["value"].is_valid().to_numpy()
    listed = []
    for (file, line, event, space, tensor, size), first in zip(found, firsts):
        keys = tuple(name for name, valid in keyed.items() if valid[first])
        kind = "access" if space else "value" if valued[first] else "mark"
        listed.append(Site(file, line, kind, event, keys, space or None, tensor or None, size, line))
    order = {name: place for place, (name, _) in enumerate(files)}
    return LoggedSites(tuple(sorted(listed, key=lambda site: (order.get(site.file, len(order)), site.line))))


def _identities(table: pa.Table) -> tuple[np.ndarray, list[_Identity]]:
    """The number of each record's identity, int64 [records], and the identities by number."""
    code = np.zeros(table.num_rows, np.int64)
    columns = [_column(table, name) for name in _IDENTITY]
    for numbers, _ in columns:
        code = code * (int(numbers.max(initial=0)) + 1) + numbers
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    values = [[words[n] if words else n for n in numbers[first].tolist()] for numbers, words in columns]
    return number, cast("list[_Identity]", list(zip(*values)))


def _column(table: pa.Table, name: str) -> tuple[np.ndarray, list[str]]:
    """A column as numbers, and the word of each number, or no words for a column of numbers."""
    column = table[name].unify_dictionaries().combine_chunks()
    if not isinstance(column, pa.DictionaryArray):
        return column.fill_null(0).to_numpy().astype(np.int64), []
    return column.indices.fill_null(-1).to_numpy().astype(np.int64) + 1, ["", *column.dictionary.to_pylist()]
