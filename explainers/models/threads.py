"""The threads of each element: the grid's blocks, a block's warps, a warp's lanes, and at each step their elements of
every matrix and their lines.

Everything comes from the trace. An access of global memory gives an element by its offset, a value by its keys. An
access of shared memory gives the element of the last store there. A store has the element of the thread's last load
or value. An ldmatrix distributes the elements at 32 addresses among all lanes, so it gives only a line.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.models import generic
from explainers.models.frames import Moment, Plane, ThreadsMeta
from explainers.story import axes, picture, probed, stage
from kernels.core.distinct import distinct
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import BOXES, WRITES
from kernels.trace.probes import Site

KINDS = ("loads", "stores", "computes", "reads")  # from and to global memory, in registers, from shared memory
MOST_RECORDS = 400_000  # of a run with followed reads of shared memory. This takes a second for each 400,000
_NAMED = {"query": "row", "slot": "token"}  # an axis of a tensor -> its axis in the picture
_DRAWN = {"dim", "key", "token"}  # the last axes of the matrices of attention
_KEY = {"col": "key"}  # the same of a value's key
RECTANGLE = ("step", "plane", "kind", "thread", "row0", "row1", "col0", "col1")
MOST = 200_000  # rectangles in the browser. Later steps have none


@dataclass(frozen=True)
class Threads:
    """The elements and lines of each thread.

    planes: the matrices in the order of the picture: name -> (axis of its rows, of its columns).
    """

    steps: pd.DataFrame  # of the trace
    planes: dict[str, tuple[str, str]]
    rects: pd.DataFrame  # step, plane, kind, thread, row0, row1, col0, col1, sorted
    ran: np.ndarray  # [steps, most threads of a block], a place in `lines`, or -1
    lines: list[list[str]]  # sets of FILE:LINE
    left_out: list[str] = field(default_factory=list)  # sentences on the parts left out for their size


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has marks, touches global memory, and launches no kernels."""
    return not spec.launches_children and bool(probed.marks(spec)) and probed.accesses(spec, "global")


def keeps_weights(spec: KernelSpec) -> bool:
    """Whether the weights P never leave the registers: the kernel logs them, and no memory holds a tensor with them. A
    tensor of queries by keys without a declared part could hold them."""
    request = probed.sample(spec)
    kept = any({"query", "key"} <= set(tensor.axes) for tensor in axes.tensors(request).values())
    return "p" in probed.values(spec) and "P" not in picture.places(request).values() and not kept


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel with its weights in registers, without tensor cores before others. Else the last kernel."""
    given = list(specs)
    keeping = sorted((spec for spec in given if keeps_weights(spec)), key=lambda spec: bool(spec.tensor_products))
    return keeping[0] if keeping else given[-1]


def explain(run: Run) -> Threads:
    """The Threads of any Run with a trace."""
    elements = Elements(run)
    rects = elements.all()
    ran, lines = _lines(elements)
    planes = {name: found_axes for name, found_axes in elements.planes.items() if (rects.plane == name).any()}
    order = [name for name in "QKVSPO" if name in planes]
    planes = {name: planes[name] for name in [*order, *(n for n in planes if n not in order)]}
    left_out = (
        ["This run is too large to show the reads from shared memory."] if len(elements.step) > MOST_RECORDS else []
    )
    left_out += ["This run has too many elements, so the last steps show none."] if len(rects) > MOST else []
    return Threads(elements.steps, planes, rects[:MOST], ran, lines, left_out)


def reads(run: Run, name: str, space: str) -> pd.DataFrame:
    """step, row, col of each read of that plane's elements by a lane, from global or shared memory. A run above
    MOST_RECORDS has no reads from shared memory."""
    return Elements(run).reads(name, space)


def view(run: Run, steps: Sequence[int] | None = None, story: Threads | None = None) -> stage.View:
    """The picture `threads`.

    steps: the step of the trace for each frame of the stage, if they differ.
    """
    story = story or explain(run)
    names, kinds = list(story.planes), list(KINDS)
    windows = _windows(story)
    rects = story.rects.assign(plane=story.rects.plane.map(names.index), kind=story.rects.kind.map(kinds.index))
    bounds = rects.groupby(["step", "plane", "kind"], sort=False).thread.agg(["size"]).reset_index()
    bounds["first"] = np.cumsum(bounds["size"]) - bounds["size"]
    parts: list[list[list[int]]] = [[] for _ in range(len(story.steps))]
    for number, *part in bounds[["step", "plane", "kind", "first", "size"]].itertuples(index=False):
        parts[int(number)].append([int(n) for n in part])
    moments: list[Moment] = [
        {"launch": int(step.launch), "block": int(step.block), "parts": parts[n], "windows": windows[n]}
        for n, step in enumerate(story.steps.itertuples())
    ]
    planes: list[Plane] = [
        {"name": name, "row": both[0], "col": both[1], "windows": _windows_of(name, both)}
        for name, both in story.planes.items()
    ]
    meta: ThreadsMeta = {
        "launches": _launches(run.request),
        "planes": planes,
        "kinds": kinds,
        "moments": moments,
        "of_frame": list(range(len(story.steps))) if steps is None else [int(n) for n in steps],
        "lines": story.lines,
        "threads": story.ran.shape[1],
        "left_out": story.left_out,
    }
    columns = {name: rects[name].to_numpy() for name in ("thread", "row0", "row1", "col0", "col1")}
    return stage.View("threads", "threads", "Threads", meta, columns | {"ran": story.ran})


def own_view(run: Run, id: str = "threads", title: str = "Threads", lit: str = "lines") -> list[stage.View]:
    """The picture with the steps of the trace as its own, next to pictures with other steps. An empty list for a kernel
    without marks.

    lit: the key of a frame's lines (stage.Code).
    """
    if not accepts(run.request.kernel):
        return []
    picture_view, steps_of_trace = view(run), generic.explain(run)
    own = {
        "clock": True,
        "frames": [
            {name: frame[name] for name in ("tile", "title", "sentence")} | {lit: frame["lines"]}
            for frame in steps_of_trace.frames
        ],
        "state": [asdict(state) for state in generic.states(steps_of_trace)],
    }
    return [stage.View("threads", id, title, {**picture_view.meta, **own}, picture_view.columns)]


def _windows_of(name: str, both: tuple[str, str]) -> list[str]:
    """The windows of a matrix: its axes, as matrices of attention share them. Another matrix has its own."""
    return [axis if both[1] in _DRAWN else f"{name} {axis}" for axis in both]


def _windows(story: Threads) -> list[dict[str, list[int]]]:
    """For each step, the drawn part of each window: the indices of its tile, over all its matrices."""
    steps = story.steps
    outer = steps.launch.astype(int) * 10**9 + steps.block.astype(int)
    changes = (outer != outer.shift()) | (steps.tile != steps.tile.shift())
    part_of = changes.cumsum().to_numpy() - 1
    found: list[dict[str, list[int]]] = [{} for _ in range(int(part_of.max(initial=-1)) + 1)]
    extents = story.rects.groupby(["step", "plane"]).agg(
        row0=("row0", "min"), row1=("row1", "max"), col0=("col0", "min"), col1=("col1", "max")
    )
    for (step, plane), *bounds in zip(extents.index, *(extents[name] for name in ("row0", "row1", "col0", "col1"))):
        window = found[part_of[int(step)]]
        for axis, low, high in zip(_windows_of(plane, story.planes[plane]), bounds[::2], bounds[1::2]):
            here = window.get(axis, [low, high])
            window[axis] = [int(min(low, here[0])), int(max(high, here[1]))]
    for ahead in (
        found,
        found[::-1],
    ):  # an axis without elements in a tile keeps its part, and gets the next part before the first tile
        known: dict[str, list[int]] = {}
        for window in ahead:
            known = {**known, **window}
            window.update(known)
    return [found[n] for n in part_of]


def _lines(elements: "Elements") -> tuple[np.ndarray, list[list[str]]]:
    """Which lines each thread ran in each step: `ran` and `lines` of Threads."""
    step, site, sites, steps = elements.step, elements.site, elements.sites, len(elements.steps)
    thread = elements.thread
    places = list(dict.fromkeys(s.place for s in sites if s.kind in ("value", "access")))
    of_site = np.array([places.index(s.place) if s.kind in ("value", "access") else -1 for s in sites] or [-1])[site]
    threads = int(thread.max(initial=0)) + 1
    keep = of_site >= 0
    code = distinct((step[keep].astype(np.int64) * threads + thread[keep]) * max(1, len(places)) + of_site[keep])
    who, place = np.divmod(code, max(1, len(places)))
    starts = np.flatnonzero(np.r_[True, np.diff(who) != 0]) if len(who) else np.zeros(0, int)
    known: dict[bytes, int] = {}
    ran = np.full(steps * threads, -1)
    for first, end in zip(starts, np.r_[starts[1:], len(who)]):
        ran[who[first]] = known.setdefault(place[first:end].tobytes(), len(known))
    sets = [[places[n] for n in np.frombuffer(key, place.dtype)] for key in known]
    return ran.reshape(steps, threads), sets


def _launches(request: Request) -> list[dict[str, object]]:
    """Each launch in the picture, with the expressions of its grid and its block."""
    found = []
    dense = request.plan.item == picture.ITEM and "O" in picture.places(request).values()
    rows = list(picture.tiles_of(request)) if dense else None
    for launch, text in zip(request.plan.launches, request.kernel.launch_texts):
        first_block, count = request.scope.blocks(launch, request.plan)
        found.append(
            {
                "entry": launch.entry,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "threads": launch.threads,
                "grid_of": [str(said) for said in text.grid],
                "block_of": [str(said) for said in text.block],
                "item": launch.item,
                "per_item": launch.blocks_per_item,
                "traced": [first_block, count],
                "rows": rows if launch.item == picture.ITEM else None,
            }
        )
    return found


# ---- the elements of each thread, from the logged offsets and keys ----


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
    """Finds the elements of all records within a step. planes: name -> its axes, as they are met."""

    def __init__(self, run: Run) -> None:
        self.request, self.sites = run.request, run.sites
        cut = cutting.cut(run.trace, self.sites)
        keep = cut.of_record >= 0
        self.steps, self.step = cut.table, cut.of_record[keep]
        self.table = run.trace.table.filter(pa.array(keep))
        self.site = self.sites.index(run.trace.table)[keep]
        self.tensors, self.places = axes.tensors(self.request), picture.places(self.request)
        self.launch, self.block, self.thread = (self.table[name].to_numpy() for name in ("launch", "block", "thread"))
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
        return rects.assign(plane=np.array([*self.planes])[rects.plane], kind=np.array(KINDS)[rects.kind])

    def reads(self, name: str, space: str) -> pd.DataFrame:
        """step, row, col of each read of that plane's elements by a lane, from global or shared memory. For an
        ldmatrix, a lane reads the row at its address."""
        found, source = self._outside()
        if name not in self.planes:
            return pd.DataFrame({"step": [], "row": [], "col": []})
        if space == "shared":
            parts = [(plane, made) for plane, made in self._shared(source, ("load", "ldmatrix"), False)]
        else:
            parts = [(plane, made) for kind, plane, made in found if KINDS[kind] == "loads"]
        own_records = [
            pd.DataFrame({"step": self.step[made.record], "row": made.row, "col": made.col})[
                plane == [*self.planes].index(name)
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
            found.append((KINDS.index(kind), np.full(len(made.record), [*self.planes].index(name)), made))
            if kind != "stores":
                source[number] = ([*self.planes].index(name), made)
        return found, source

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
        axes. In a paged cache the row is the token of the record, and the column the dim. A problem with a picture
        draws only tensors with an axis of _DRAWN as the last one. A vector of another problem is one row."""
        tensor = self.tensors.get(site.tensor or "")
        if tensor is None or not tensor.axes or len(tensor.axes) < 2 and self.places:
            return None
        width = max(1, site.bytes // tensor.itemsize)
        first = self._key("offset", at) // tensor.itemsize
        if site.event in BOXES and not self.request.plan.has_map(tensor):
            return None  # a bulk copy: the trace does not say the elements of its pieces
        if site.event in BOXES:
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
        elif len(tensor.axes) < 2:
            row, col, names = np.zeros_like(element), element, ("row", tensor.axes[0])
        else:
            row, col = (index[axis] for axis in tensor.axes[-2:])
            names = (_NAMED.get(tensor.axes[-2], tensor.axes[-2]), _NAMED.get(tensor.axes[-1], tensor.axes[-1]))
        if names[1] not in _DRAWN and self.places:
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
        record, row, col = (np.concatenate([made[n] for _, made in source.values()]) for n in range(3))
        plane = np.concatenate([np.full(len(made.record), number) for number, made in source.values()])
        order = np.argsort(record, kind="stable")
        many = np.bincount(record, minlength=len(self.site))
        first = np.where(many, np.cumsum(many) - many, -1)
        elements = _Sources(first, many, plane[order], row[order], col[order])
        stores, came_from = self._pairs(is_write[self.site], elements)
        found = []
        for memory in sorted({site.tensor or "" for site in self.sites}):
            own = np.array([site.tensor == memory for site in self.sites])
            own_records, reads = own[self.site[stores]], np.flatnonzero((own & is_read)[self.site])
            if once:  # of each step, thread and offset
                offset = self._key("offset", reads)
                code = (self.step[reads].astype(np.int64) * (1 << 12) + self.thread[reads]) * (
                    int(offset.max(initial=0)) + 1
                ) + offset
                reads = reads[np.unique(code, return_index=True)[1]]
            if own_records.any() and len(reads):
                found += self._read(stores[own_records], came_from[own_records], reads, elements)
        return found

    def _pairs(self, is_write: np.ndarray, elements: _Sources) -> tuple[np.ndarray, np.ndarray]:
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

    def _read(
        self, stores: np.ndarray, came_from: np.ndarray, reads: np.ndarray, elements: _Sources
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
