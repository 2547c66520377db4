"""The elements of each thread, from the logged offsets and keys, as rectangles."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.story import axes, picture
from kernels.core.distinct import distinct
from kernels.core.request import Request
from kernels.trace.kinds import WRITES
from kernels.trace.probes import Site, Sites

KINDS = ("loads", "stores", "computes", "reads")  # from and to global memory, in registers, from shared memory
MOST_RECORDS = 400_000  # of a run with followed reads of shared memory. This takes a second for each 400,000
_NAMED = {"query": "row", "slot": "token"}  # an axis of a tensor -> its axis in the picture
_DRAWN = {"dim", "key", "token"}  # the picture draws a tensor with one of these as its last axis
_KEY = {"col": "key"}  # the same of a value's key


class Cells(NamedTuple):
    """Elements of one site: of each the record it comes from, its row and its column."""

    record: np.ndarray
    row: np.ndarray
    col: np.ndarray


class _Sources(NamedTuple):
    """The elements of all loads and values, in the order of their records.

    For each record: the place of its first element (or -1) and the number of its elements. For each element: plane,
        row and column.
    """

    first: np.ndarray
    many: np.ndarray
    plane: np.ndarray
    row: np.ndarray
    col: np.ndarray


class Elements:
    """Finds the elements of all records. planes: name -> its axes, as they are met."""

    def __init__(self, request: Request, table: pa.Table, step: np.ndarray, site: np.ndarray, sites: Sites) -> None:
        self.request, self.table, self.step, self.site, self.sites = request, table, step, site, sites
        self.tensors, self.places = axes.tensors(request), picture.places(request)
        self.launch, self.block, self.thread = (table[name].to_numpy() for name in ("launch", "block", "thread"))
        self.planes: dict[str, tuple[str, str]] = {}

    def all(self) -> pd.DataFrame:
        """The rectangles of Threads."""
        found, source = self._outside()
        found += [(KINDS.index("reads"), plane, made) for plane, made in self._shared(source)]
        if not found:
            return pd.DataFrame({name: [] for name in RECTANGLE})
        kinds = np.repeat([kind for kind, _, _ in found], [len(plane) for _, plane, _ in found])
        planes = np.concatenate([plane for _, plane, _ in found])
        record, row, col = (np.concatenate([made[n] for _, _, made in found]) for n in range(3))
        rects = rectangles(self.step[record], planes, kinds, self.thread[record], row, col)
        return rects.assign(plane=np.array(self.names)[rects.plane], kind=np.array(KINDS)[rects.kind])

    def reads(self, name: str, space: str) -> pd.DataFrame:
        """step, row, col of each read of that plane's elements by a lane, from global or shared memory. For an
        ldmatrix, a lane reads the row at its address."""
        found, source = self._outside()
        if name not in self.names:
            return pd.DataFrame({"step": [], "row": [], "col": []})
        if space == "shared":
            parts = [(plane, made) for plane, made in self._shared(source, ("load", "ldmatrix"), False)]
        else:
            parts = [(plane, made) for kind, plane, made in found if KINDS[kind] == "loads"]
        own_records = [
            pd.DataFrame({"step": self.step[made.record], "row": made.row, "col": made.col})[
                plane == self.names.index(name)
            ]
            for plane, made in parts
        ]
        return pd.concat(own_records) if own_records else pd.DataFrame({"step": [], "row": [], "col": []})

    def _outside(self) -> tuple[list[tuple[int, np.ndarray, Cells]], dict[int, tuple[int, Cells]]]:
        """The elements outside shared memory: kind, plane of each element, elements. And for loads and values (they can
        go to shared memory): site -> plane, elements."""
        found: list[tuple[int, np.ndarray, Cells]] = []
        source = {}
        for number, site in enumerate(self.sites):
            at = np.flatnonzero(self.site == number)
            if not len(at) or site.kind not in ("value", "access") or site.space == "shared":
                continue
            known = self._value(site, at) if site.kind == "value" else self._global(site, at)
            if known is None:
                continue
            name, made = known
            kind = "computes" if site.kind == "value" else "stores" if site.event in WRITES else "loads"
            found.append((KINDS.index(kind), np.full(len(made.record), self.names.index(name)), made))
            if kind != "stores":
                source[number] = (self.names.index(name), made)
        return found, source

    @property
    def names(self) -> list[str]:
        return list(self.planes)

    def _key(self, name: str, at: np.ndarray) -> np.ndarray:
        return self.table[name].take(pa.array(at)).to_numpy()

    def _name(self, symbol: str) -> str:
        return self.places.get(symbol, symbol)

    def _value(self, site: Site, at: np.ndarray) -> tuple[str, Cells] | None:
        """Rule: a value belongs to the matrix of its name, a score to S. It is an element if it has a key along the
        columns."""
        col = next((key for key in ("col", "dim", "token") if key in site.keys), None)
        if col is None:
            return None
        symbols = {symbol.lower(): symbol for symbol in self.tensors}
        name = "S" if site.event == "score" else self._name(symbols.get(site.event, site.event.upper()))
        row = next((key for key in ("row", "partition") if key in site.keys), None)
        self.planes.setdefault(name, (row or "head", _KEY.get(col, col)))
        return name, Cells(at, self._key(row, at) if row else self._head(at), self._key(col, at))

    def _head(self, at: np.ndarray) -> np.ndarray:
        """The query head of a block, if items are query heads."""
        o = next((t for t in self.tensors.values() if "head" in t.axes and "query" not in t.axes), None)
        items = np.array([launch.blocks_per_item for launch in self.request.plan.launches])[self.launch[at]]
        return self.block[at] // items % (axes.length(o, "head") if o else 1)

    def _global(self, site: Site, at: np.ndarray) -> tuple[str, Cells] | None:
        """Rule: the element is offset / bytes of an element. Its row and column are its indices along the last two
        axes. In a paged cache the row is the token of the record, and the column the dim."""
        tensor = self.tensors.get(site.tensor or "")
        if tensor is None or len(tensor.axes) < 2:
            return None
        width = max(1, site.bytes // tensor.itemsize)
        first = self._key("offset", at) // tensor.itemsize
        if site.event == "tma" and not self.request.plan.has_map(tensor):
            return None  # a bulk copy: the trace does not say the elements of its pieces
        if site.event == "tma":
            boxes = [axes.box(self.request, tensor, int(n)) for n in first]
            element, record = np.concatenate(boxes), np.repeat(at, [len(box) for box in boxes])
        else:
            element, record = (first[:, None] + np.arange(width)).ravel(), np.repeat(at, width)
        index = dict(zip(tensor.axes, np.unravel_index(element, tensor.shape)))
        if "slot" in index:
            if "token" not in site.keys:
                return None  # a slot of a page: the trace does not say its token
            start = dict(zip(tensor.axes, np.unravel_index(np.repeat(first, width), tensor.shape)))["slot"]
            row, names = np.repeat(self._key("token", at), width) + index["slot"] - start, ("token", "dim")
            col = index["dim"] if "dim" in index else index["piece"] * axes.length(tensor, "element") + index["element"]
        else:
            row, col = (index[axis] for axis in tensor.axes[-2:])
            names = (_NAMED.get(tensor.axes[-2], tensor.axes[-2]), _NAMED.get(tensor.axes[-1], tensor.axes[-1]))
        if names[1] not in _DRAWN:
            return None
        name = self._name(site.tensor or "")
        self.planes[name] = names
        return name, Cells(record, row, col)

    # ---- shared memory ----

    def _shared(
        self, source: dict[int, tuple[int, Cells]], events: Sequence[str] = ("load",), once: bool = True
    ) -> list[tuple[np.ndarray, Cells]]:
        """The reads from shared memory, as elements and the plane of each.

        source: site -> plane and elements of the loads and values.
        events: the kinds of reads.
        once: whether to leave out repeated reads of a thread in a step.
        """
        shared = [site.space == "shared" for site in self.sites]
        is_write = np.array([present and site.event in WRITES for present, site in zip(shared, self.sites)])
        is_read = np.array([present and site.event in events for present, site in zip(shared, self.sites)])
        if not source or not is_write[self.site].any() or not is_read[self.site].any() or len(self.site) > MOST_RECORDS:
            return []
        elements = self._sources(source)
        stores, came_from = self._pairs(is_write[self.site], elements)
        found = []
        for memory in sorted({site.tensor or "" for site in self.sites}):
            own = np.array([site.tensor == memory for site in self.sites])
            own_records, reads = own[self.site[stores]], np.flatnonzero((own & is_read)[self.site])
            if own_records.any() and len(reads):
                found += self._read(
                    stores[own_records], came_from[own_records], self._once(reads) if once else reads, elements
                )
        return found

    def _sources(self, source: dict[int, tuple[int, Cells]]) -> "_Sources":
        record = np.concatenate([made.record for _, made in source.values()])
        plane = np.concatenate([np.full(len(made.record), number) for number, made in source.values()])
        row, col = (np.concatenate([made[n] for _, made in source.values()]) for n in (1, 2))
        order = np.argsort(record, kind="stable")
        many = np.bincount(record, minlength=len(self.site))
        return _Sources(np.where(many, np.cumsum(many) - many, -1), many, plane[order], row[order], col[order])

    def _pairs(self, is_write: np.ndarray, elements: "_Sources") -> tuple[np.ndarray, np.ndarray]:
        """(stores, records): each store into shared memory, and its load or value. -1 if it is not known, for example
        for the zeros at the end of a tile.

        is_write: of each record.

        Rule: the last load, value or store of the same tensor in that thread and step, unless it is a store. Else the
            thread's last record, if it is a value.
        """
        symbols = [
            self._name(s.tensor) if s.tensor else "S" if s.event == "score" else self._name(s.event.upper())
            for s in self.sites
        ]
        names = sorted(set(symbols))
        is_value, first = np.array([s.kind == "value" for s in self.sites])[self.site], elements.first
        among = np.flatnonzero(is_write | (first >= 0))
        name = np.array([names.index(s) for s in symbols])[self.site[among]]
        who = (
            (self.launch[among].astype(np.int64) << 40)
            | (self.block[among].astype(np.int64) << 12)
            | self.thread[among]
        )
        order = np.lexsort((among, self.step[among], name, who))
        at, key = among[order], list(zip((who[order], name[order], self.step[among][order])))
        before = np.r_[-1, at[:-1]]
        same = np.r_[False, np.all([(k[0][1:] == k[0][:-1]) for k in key], axis=0)]
        good = is_write[at] & same & ~is_write[before]
        stores, came_from = at[good], before[good]
        rest = at[is_write[at] & ~good]
        near = np.maximum(rest - 1, 0)
        fits = (
            is_value[near]
            & (first[near] >= 0)
            & (self.step[near] == self.step[rest])
            & (self.thread[near] == self.thread[rest])
        )
        return np.r_[stores, rest], np.r_[came_from, np.where(fits, near, -1)]

    def _once(self, reads: np.ndarray) -> np.ndarray:
        """One record for each (step, thread, offset)."""
        offset = self._key("offset", reads)
        code = (self.step[reads].astype(np.int64) * (1 << 12) + self.thread[reads]) * (
            int(offset.max(initial=0)) + 1
        ) + offset
        return reads[np.unique(code, return_index=True)[1]]

    def _read(
        self, stores: np.ndarray, came_from: np.ndarray, reads: np.ndarray, elements: "_Sources"
    ) -> list[tuple[np.ndarray, Cells]]:
        """The elements of these reads of one array in shared memory: the last stored ones of an earlier step, or else
        of the same step."""
        text = came_from >= 0
        if not text.any():
            return []
        size = np.array([s.bytes for s in self.sites])
        item = int(np.min(size[self.site[stores[text]]] // elements.many[came_from[text]]))  # bytes of an element
        if item < 1:
            return []
        many = np.where(text, elements.many[came_from], size[self.site[stores]] // item)
        ordinal = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        cell = np.repeat(self._key("offset", stores) // item, many) + ordinal
        element = np.where(np.repeat(text, many), np.repeat(elements.first[came_from], many) + ordinal, -1)
        where = self._cells(np.repeat(stores, many), cell)
        when = np.repeat(self.step[stores], many)
        steps = int(self.step.max()) + 2
        order = np.lexsort((np.repeat(stores, many), when, where))
        where, when, element = where[order], when[order], element[order]
        count = np.maximum(1, size[self.site[reads]] // item)
        ordinal = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        record = np.repeat(reads, count)
        wanted = self._cells(record, np.repeat(self._key("offset", reads) // item, count) + ordinal)
        code = where * steps + when
        last = np.searchsorted(code, wanted * steps + self.step[record], "left") - 1
        at_once = np.searchsorted(code, wanted * steps + self.step[record], "right") - 1
        here = np.where((last >= 0) & (where[last] == wanted), last, at_once)
        known = (here >= 0) & (where[here] == wanted) & (element[here] >= 0)
        got, record = element[here[known]], record[known]
        return [(elements.plane[got], Cells(record, elements.row[got], elements.col[got]))]

    def _cells(self, record: np.ndarray, cell: np.ndarray) -> np.ndarray:
        return ((self.launch[record].astype(np.int64) << 20) + self.block[record]) * (1 << 20) + cell


RECTANGLE = ("step", "plane", "kind", "thread", "row0", "row1", "col0", "col1")


def rectangles(
    step: np.ndarray, plane: np.ndarray, kind: np.ndarray, thread: np.ndarray, row: np.ndarray, col: np.ndarray
) -> pd.DataFrame:
    """Elements as rectangles: first runs along a row, then equal runs in neighbouring rows. plane, kind: as numbers."""
    sizes = [int(column.max()) + 1 for column in (step, plane, kind, thread, row, col)]
    code = np.zeros(len(step), np.int64)
    for column, size in zip((step, plane, kind, thread, row, col), sizes):
        code = code * size + column
    code = distinct(code)
    starts = np.flatnonzero(np.r_[True, (np.diff(code) != 1) | (code[1:] % sizes[5] == 0)])  # runs along a row
    rest, first = np.divmod(code[starts], sizes[5])
    last = code[np.r_[starts[1:], len(code)] - 1] % sizes[5]
    group, row = np.divmod(rest, sizes[4])
    order = np.lexsort((row, last, first, group))
    group, row, first, last = (column[order] for column in (group, row, first, last))
    same = (np.diff(group) == 0) & (np.diff(first) == 0) & (np.diff(last) == 0) & (np.diff(row) == 1)
    starts = np.flatnonzero(np.r_[True, ~same])
    ends = np.r_[starts[1:], len(row)] - 1
    named: list[np.ndarray] = []
    left = group[starts]
    for size in reversed(sizes[:4]):
        left, column = np.divmod(left, size)
        named.insert(0, column)
    return pd.DataFrame(dict(zip(RECTANGLE, (*named, row[starts], row[ends], first[starts], last[starts]))))
