"""The logged records of a run, sorted by step."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.story import axes
from kernels.core.distinct import distinct
from kernels.core.request import Request
from kernels.core.tensors import Tensor
from kernels.trace.kinds import WRITES
from kernels.trace.probes import Site, Sites


@dataclass(frozen=True)
class Records:
    """The records of the trace within a step.

    table: the records.
    step, site: for each record, its step and the place of its site in `sites`.
    """

    table: pa.Table
    step: np.ndarray
    site: np.ndarray
    sites: Sites

    def of(self, wanted: list[int]) -> np.ndarray:
        """The places of the records of these sites."""
        among = np.zeros(len(self.sites), bool)
        among[wanted] = True
        return np.flatnonzero(among[self.site])

    def values(self) -> pd.DataFrame:
        """The logged values in their order: step, event, keys, value."""
        at = self.of([n for n, site in enumerate(self.sites) if site.kind == "value"])
        names = [
            name
            for name in self.table.column_names
            if name not in ("file", "line", "space", "tensor", "offset", "bytes")
        ]
        frame = self.table.select(names).take(pa.array(at)).to_pandas()
        events = np.array([site.event for site in self.sites], object)[self.site[at]]
        frame = frame.assign(step=self.step[at], event=events)
        return frame.sort_values(["step", "launch", "block", "thread", "seq"], kind="stable", ignore_index=True)

    def events(self) -> dict[str, tuple[str, ...]]:
        """event -> keys of every logged value, in the order of the source. An event of several probes has the keys of
        the first probe."""
        logged = set(np.unique(self.site).tolist())
        found: dict[str, tuple[str, ...]] = {}
        for number, site in enumerate(self.sites):
            if site.kind == "value" and number in logged:
                found.setdefault(site.event, site.keys)
        return found

    def accesses(self, steps: int) -> list[list[tuple[Site, int]]]:
        """For each step the sites of its accesses, in the order of the source, and how often each was passed."""
        size = max(1, len(self.sites))
        counts = np.bincount(self.step * size + self.site, minlength=size * steps).reshape(steps, size)
        kept = [[(self.sites[n], int(row[n])) for n in np.flatnonzero(row).tolist()] for row in counts]
        return [[(site, times) for site, times in row if site.kind == "access"] for row in kept]


def touches_of(request: Request, records: Records, known: dict[str, Tensor]) -> dict[str, pd.DataFrame]:
    """symbol -> step, kind (load or store), element, bytes. Each element of global memory is there once for each step
    and kind, with the bytes of all its accesses."""
    found = {}
    for symbol, tensor in known.items():
        own = [n for n, site in enumerate(records.sites) if site.space == "global" and site.tensor == symbol]
        boxed = [n for n in own if records.sites[n].event == "tma"]
        parts = [_touched(request, records, tensor, [n for n in own if n not in boxed], False)]
        if request.plan.has_map(tensor):  # else bulk copies: the trace does not say their elements
            parts.append(_touched(request, records, tensor, boxed, True))
        code, width, element, size = (np.concatenate(each) for each in zip(*parts))
        if not len(code):
            continue
        each = distinct(np.repeat(code, width) * np.int64(tensor.size) + element)
        code_of, element = np.divmod(each, tensor.size)
        moved = np.bincount(code, size)
        kind = np.array(["load", "store"])[code_of % 2]
        columns = {"step": code_of // 2, "kind": kind, "element": element, "bytes": moved[code_of].astype(np.int64)}
        found[symbol] = pd.DataFrame(columns)
    return found


def _touched(
    request: Request, records: Records, tensor: Tensor, own: list[int], boxed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each record of the sites `own`: twice its step, plus 1 for a store, the number of its elements, these elements
    in turn, and its bytes.

    boxed: whether a record is a box of a tensor map. A box has no elements beyond the end of the tensor.
    """
    at = records.of(own)
    writes = np.array([site.event in WRITES for site in records.sites], bool)[records.site[at]]
    code = 2 * records.step[at] + writes
    first = records.table["offset"].take(pa.array(at, pa.int64())).to_numpy() // tensor.itemsize
    if boxed:
        boxes = [axes.box(request, tensor, int(n)) for n in first]
        width = np.array([len(box) for box in boxes], np.int64)
        return code, width, np.concatenate([np.zeros(0, np.int64), *boxes]), width * tensor.itemsize
    size = np.array([site.bytes for site in records.sites], np.int64)[records.site[at]]
    width = np.maximum(1, size // tensor.itemsize)
    element = np.repeat(first, width)
    element += np.arange(len(element)) - np.repeat(np.cumsum(width) - width, width)
    return code, width, element, size
