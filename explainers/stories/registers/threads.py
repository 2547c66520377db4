"""Which thread touches which element: the grid's blocks, a block's warps, a warp's lanes, and at each step their
elements of every matrix and their lines.

Everything follows from the trace. An access of global memory is an element by its offset; a value by its keys; an
access of shared memory by the store that put its element there, which is of what that thread loaded or logged just
before. An ldmatrix hands out what 32 lanes address among all of them, so no element is told of it, only its line.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.stories.any_kernel import generic
from explainers.stories.registers.frames import Moment, Plane, ThreadsMeta
from explainers.stories.tiling import tiling
from explainers.story import axes, glossary, picture, probed, stage
from explainers.story.glossary import count
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import WRITES
from kernels.trace.probes import Site, Sites, sites_of

RECTANGLE = ("step", "plane", "kind", "thread", "row0", "row1", "col0", "col1")
KINDS = ("loads", "stores", "computes", "reads")  # from and to global memory, in registers, from shared memory
MOST = 200_000  # rectangles that the browser is sent; later steps have none
MOST_RECORDS = 400_000  # of a run whose reads of shared memory are followed; that takes a second for each 400,000
_NAMED = {"query": "row", "slot": "token"}  # an axis of a tensor -> the axis of the picture that it lies along
_DRAWN = {"dim", "key", "token"}  # a tensor is drawn if its last axis in the picture is one of these
_KEY = {"col": "key"}  # the same of a value's key


@dataclass(frozen=True)
class Threads:
    """steps: of the trace. planes: the matrices, in the order in which they are drawn: name -> (axis of its rows, of
    its columns). rects: step, plane, kind, thread, row0, row1, col0, col1: what a thread touches, as rectangles,
    sorted. ran: [steps, most threads of a block], which of `lines` a thread ran in a step, -1 for none. lines: sets
    of FILE:LINE. left_out: sentences on what was too much to show."""

    steps: pd.DataFrame
    planes: dict[str, tuple[str, str]]
    rects: pd.DataFrame
    ran: np.ndarray
    lines: list[list[str]]
    left_out: list[str] = field(default_factory=list)


def accepts(spec: KernelSpec) -> bool:
    """A kernel with marks that touches global memory."""
    return bool(probed.marks(spec)) and probed.accesses(spec, "global")


def keeps_weights(spec: KernelSpec) -> bool:
    """Whether the weights P never leave the registers: they are logged, and no memory holds a tensor of them. A tensor
    of queries by keys without a declared part could hold them."""
    request = probed.sample(spec)
    kept = any({"query", "key"} <= set(tensor.axes) for tensor in axes.tensors(request).values())
    return "p" in probed.values(spec) and "P" not in picture.places(request).values() and not kept


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel that keeps its weights in registers, one on tensor cores before others; the last of all if none
    does."""
    given = list(specs)
    keeping = sorted((spec for spec in given if keeps_weights(spec)), key=lambda spec: not spec.tensor_products)
    return keeping[0] if keeping else given[-1]


def explain(run: Run) -> Threads:
    """The Threads of any Run with a trace."""
    elements, steps = _elements(run)
    rects, step = elements.all(), elements.step
    ran, lines = _lines(elements.table, step, elements.site, elements.sites, len(steps))
    planes = {name: found_axes for name, found_axes in elements.planes.items() if (rects.plane == name).any()}
    order = [name for name in "QKVSPO" if name in planes]
    planes = {name: planes[name] for name in [*order, *(n for n in planes if n not in order)]}
    left_out = ["What is read from shared memory is not told of so large a run."] if len(step) > MOST_RECORDS else []
    left_out += (
        ["So large a run has more elements than are drawn: the last steps show none."] if len(rects) > MOST else []
    )
    return Threads(steps, planes, rects[:MOST], ran, lines, left_out)


def reads(run: Run, name: str, space: str) -> pd.DataFrame:
    """step, row, col of each time that a lane reads an element of that plane, from global or shared memory; none from
    shared memory of a run that is too large to be followed (MOST_RECORDS)."""
    return _elements(run)[0].reads(name, space)


def _elements(run: Run) -> "tuple[_Elements, pd.DataFrame]":
    """What finds the elements of a run's records, and the steps."""
    sites = sites_of(run.request)
    steps = cutting.cut(run.trace, sites)
    keep = steps.of_record >= 0
    table, site = run.trace.table.filter(pa.array(keep)), sites.index(run.trace.table)[keep]
    return _Elements(run.request, table, steps.of_record[keep], site, sites), steps.table


def view(run: Run, steps: Sequence[int] | None = None, story: Threads | None = None) -> stage.View:
    """The picture `threads`. steps: for each frame of the stage the step of the trace that it shows, where the
    frames are not those steps themselves."""
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
    planes: list[Plane] = [{"name": name, "row": row, "col": col} for name, (row, col) in story.planes.items()]
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


def beside(run: Run, id: str = "threads", title: str = "Threads", lit: str = "lines") -> list[stage.View]:
    """The picture with steps of its own, those of the trace, beside pictures whose steps are other ones; none of a
    kernel without marks. lit: where the stage's code finds a frame's lines (stage.Code)."""
    if not accepts(run.request.kernel):
        return []
    made, told = view(run), generic.explain(run)
    own = {
        "clock": True,
        "frames": [
            {name: frame[name] for name in ("tile", "title", "sentence")} | {lit: frame["lines"]}
            for frame in told.frames
        ],
        "state": [asdict(state) for state in generic.states(told)],
    }
    return [stage.View("threads", id, title, {**made.meta, **own}, made.columns)]


def holders(story: Threads, row: int) -> list[str]:
    """For each step, which lanes compute or store elements of that row, in words; empty where none does."""
    rects = story.rects
    of_row = [name for name, (along, _) in story.planes.items() if along == "row"]
    held = rects[
        rects.plane.isin(of_row) & rects.kind.isin(("computes", "stores")) & (rects.row0 <= row) & (row <= rects.row1)
    ]
    said = {step: lanes(part.thread) for step, part in held.groupby("step")}
    return [said.get(step, "") for step in range(len(story.steps))]


def first_held(story: Threads, row: int) -> int:
    """The first step in which some lane holds a part of that row; 0 if none does."""
    return next((step for step, said in enumerate(holders(story, row)) if said), 0)


def states(tiles: tiling.Tiling, story: Threads, row: int) -> list[stage.State]:
    """The strip: which lanes hold the row, and how many bytes of P lie in shared memory."""
    held = [weight_bytes(tiles, frame) for frame in tiles.frames]
    where = "global memory" if "P" in tiles.places.values() else "registers"
    return [
        stage.State(f"row {row} is held by", [said or "no lane yet" for said in _lasting(holders(story, row))]),
        stage.State("P in shared memory", held if any(held) else [f"none: in {where}"] * len(held), "B", colour="P"),
    ]


def _lasting(said: list[str]) -> list[str]:
    """What was said last stands until the next."""
    last, found = "", []
    for text in said:
        last = text or last
        found.append(last)
    return found


def weight_bytes(tiles: tiling.Tiling, frame: Any) -> int:
    """Bytes of the weights P that a block holds in shared memory after a step."""
    return sum(held["bytes"] for symbol, held in frame["resident"].items() if tiles.places.get(symbol) == "P")


def weights_said(run: Run) -> str:
    """Where the weights P lie in a run: shared memory, with the most bytes that a block holds, global memory, or
    neither."""
    tiles = tiling.explain(run)
    held = max(weight_bytes(tiles, frame) for frame in tiles.frames)
    places = {place: symbol for symbol, place in picture.places(run.request).items()}
    stored = axes.tensors(run.request).get(places.get("P", ""))
    said = [f"global memory ({stored.nbytes:,} bytes in all)"] if stored else []
    said += [f"shared memory ({held:,} bytes)"] if held else []
    return " and ".join(said) or "registers only"


def questions(run: Run, tiles: tiling.Tiling, story: Threads, row: int) -> list[stage.Question]:
    """What can be asked of the mapping before it is read. The keys come from the launch and the trace."""
    launch = run.request.plan.launches[-1]
    step = first_held(story, row)
    held = holders(story, row)[step]
    made = [
        stage.Question(
            "threads",
            f"This run's last launch has a grid of {launch.grid[0]} x {launch.grid[1] * launch.grid[2]} blocks, and "
            f"each makes "
            f"its part of O. How many threads work on one block's part?",
            "number",
            launch.threads,
            f"A block of {launch.entry} has {launch.threads} threads: {count(-(-launch.threads // 32), 'warp')} of "
            f"32 lanes.",
            step=step,
            view="threads",
            unit="threads",
            veils=("picture", "tabs"),
        )
    ]
    if not held:
        return made
    rects = story.rects[(story.rects.step == step) & (story.rects.kind == "computes")]
    rects = rects[(rects.row0 <= row) & (row <= rects.row1)]
    number = int(rects.thread.nunique())
    made.append(
        stage.Question(
            "lanes",
            f"How many lanes hold row {row}'s part of the first tile?",
            "number",
            number,
            f"{held[0].upper()}{held[1:]}: each of these {number} lanes holds a part of the row.",
            step=step,
            view="threads",
            unit="lanes",
            veils=("strip",),
        )
    )
    where = weights_said(run)
    options = ["In shared memory", "In registers only", "In global memory"]
    right = next(n for n, word in ((2, "global"), (0, "shared"), (1, "registers")) if word in where)
    last = next((n for n, f in enumerate(tiles.frames) if weight_bytes(tiles, f)), step)
    text, veils = "Where do this kernel's weights P lie?", ("sentence", "strip", "headline", "tabs")
    made.append(
        stage.Question("weights", text, "options", right, f"P: {where}.", options, last, view="matrices", veils=veils)
    )
    return made


def lanes(threads: Iterable[int]) -> str:
    """Threads of a block in words: lanes 8 to 11 of warp 0."""
    numbers = np.unique(np.asarray(list(threads), int))
    found = {int(warp): numbers[numbers // 32 == warp] % 32 for warp in np.unique(numbers // 32)}
    whole = [warp for warp, inside in found.items() if len(inside) == 32]
    parts = [f"all lanes of {spans('warp', whole)}"] if whole else []
    parts += [f"{spans('lane', inside)} of warp {warp}" for warp, inside in found.items() if warp not in whole]
    return glossary.listed(parts) if len(parts) < 4 else f"{len(numbers)} lanes of {spans('warp', list(found))}"


def spans(noun: str, numbers: Iterable[int]) -> str:
    """Numbers in words: lane 3, lanes 8 to 11, lanes 0 to 3 and 8."""
    given = np.unique(np.asarray(list(numbers), int))
    runs = np.split(given, np.flatnonzero(np.diff(given) != 1) + 1)
    parts = [f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"{noun}{'s' if len(given) > 1 else ''} {glossary.listed(parts)}"


# ---- elements ----


class Cells(NamedTuple):
    """Elements of one site: of each the record it comes from, its row and its column."""

    record: np.ndarray
    row: np.ndarray
    col: np.ndarray


class _Sources(NamedTuple):
    """The elements of all loads and values, in the order of their records: of each record the place of its first one
    (or -1) and how many; of each element plane, row and column."""

    first: np.ndarray
    many: np.ndarray
    plane: np.ndarray
    row: np.ndarray
    col: np.ndarray


class _Elements:
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
        rects = _rectangles(self.step[record], planes, kinds, self.thread[record], row, col)
        return rects.assign(plane=np.array(self.names)[rects.plane], kind=np.array(KINDS)[rects.kind])

    def reads(self, name: str, space: str) -> pd.DataFrame:
        """step, row, col of each time that a lane reads an element of that plane, from global or from shared memory. Of
        an ldmatrix a lane reads the row that it addresses, whoever gets it."""
        found, source = self._outside()
        if name not in self.names:
            return pd.DataFrame({"step": [], "row": [], "col": []})
        if space == "shared":
            parts = [(plane, made) for plane, made in self._shared(source, ("load", "ldmatrix"), False)]
        else:
            parts = [(plane, made) for kind, plane, made in found if KINDS[kind] == "loads"]
        mine = [
            pd.DataFrame({"step": self.step[made.record], "row": made.row, "col": made.col})[
                plane == self.names.index(name)
            ]
            for plane, made in parts
        ]
        return pd.concat(mine) if mine else pd.DataFrame({"step": [], "row": [], "col": []})

    def _outside(self) -> tuple[list[tuple[int, np.ndarray, Cells]], dict[int, tuple[int, Cells]]]:
        """What is not in shared memory: kind, plane of each element, elements; and of the loads and values, which are
        what can be stored there, site -> plane, elements."""
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
        """Rule: a value belongs to the matrix of its name, a score to S; it is an element if it has a key along
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
        """The query head that a block works for, where items are query heads."""
        o = next((t for t in self.tensors.values() if "head" in t.axes and "query" not in t.axes), None)
        items = np.array([launch.blocks_per_item for launch in self.request.plan.launches])[self.launch[at]]
        return self.block[at] // items % (axes.length(o, "head") if o else 1)

    def _global(self, site: Site, at: np.ndarray) -> tuple[str, Cells] | None:
        """Rule: the element is offset / bytes of an element; its row and column are its indices along the last two
        axes. In a paged cache the row is the token, which the record says, and the column the dim."""
        tensor = self.tensors.get(site.tensor or "")
        if tensor is None or len(tensor.axes) < 2:
            return None
        width = max(1, site.bytes // tensor.itemsize)
        first = self._key("offset", at) // tensor.itemsize
        if site.event == "tma" and not self.request.plan.has_map(tensor):
            return None  # a bulk copy: which elements lie in its pieces is not said
        if site.event == "tma":
            boxes = [axes.box(self.request, tensor, int(n)) for n in first]
            element, record = np.concatenate(boxes), np.repeat(at, [len(box) for box in boxes])
        else:
            element, record = (first[:, None] + np.arange(width)).ravel(), np.repeat(at, width)
        index = dict(zip(tensor.axes, np.unravel_index(element, tensor.shape)))
        if "slot" in index:
            if "token" not in site.keys:
                return None  # a slot of a page: whose token it holds is not said
            begin = dict(zip(tensor.axes, np.unravel_index(np.repeat(first, width), tensor.shape)))["slot"]
            row, names = np.repeat(self._key("token", at), width) + index["slot"] - begin, ("token", "dim")
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
        """What is read from shared memory, as elements and the plane of each. source: site -> plane and elements of the
        loads and values. events: that read. once: what a thread reads again in a step does not count."""
        shared = [site.space == "shared" for site in self.sites]
        is_write = np.array([there and site.event in WRITES for there, site in zip(shared, self.sites)])
        is_read = np.array([there and site.event in events for there, site in zip(shared, self.sites)])
        if not source or not is_write[self.site].any() or not is_read[self.site].any() or len(self.site) > MOST_RECORDS:
            return []
        elements = self._sources(source)
        stores, came_from = self._pairs(is_write[self.site], elements)
        found = []
        for memory in sorted({site.tensor or "" for site in self.sites}):
            own = np.array([site.tensor == memory for site in self.sites])
            mine, reads = own[self.site[stores]], np.flatnonzero((own & is_read)[self.site])
            if mine.any() and len(reads):
                found += self._read(stores[mine], came_from[mine], self._once(reads) if once else reads, elements)
        return found

    def _sources(self, source: dict[int, tuple[int, Cells]]) -> "_Sources":
        record = np.concatenate([made.record for _, made in source.values()])
        plane = np.concatenate([np.full(len(made.record), number) for number, made in source.values()])
        row, col = (np.concatenate([made[n] for _, made in source.values()]) for n in (1, 2))
        order = np.argsort(record, kind="stable")
        many = np.bincount(record, minlength=len(self.site))
        return _Sources(np.where(many, np.cumsum(many) - many, -1), many, plane[order], row[order], col[order])

    def _pairs(self, is_write: np.ndarray, elements: "_Sources") -> tuple[np.ndarray, np.ndarray]:
        """(stores, records): each store into shared memory, and the load or value that it stores, or -1 if none is
        known, as of the zeros that fill up a tile. is_write: of each record.

        Rule: of the same tensor's loads, values and stores in that thread and step the one just before, if it is no
        store; else the thread's record just before, if it is a value.
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
        """The elements that these records read, of one array of shared memory: those that were stored there last, in a
        step before or, if there is none, in the same step."""
        told = came_from >= 0
        if not told.any():
            return []
        size = np.array([s.bytes for s in self.sites])
        item = int(np.min(size[self.site[stores[told]]] // elements.many[came_from[told]]))  # bytes of an element
        if item < 1:
            return []
        many = np.where(told, elements.many[came_from], size[self.site[stores]] // item)
        ordinal = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        cell = np.repeat(self._key("offset", stores) // item, many) + ordinal
        element = np.where(np.repeat(told, many), np.repeat(elements.first[came_from], many) + ordinal, -1)
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


def _rectangles(
    step: np.ndarray, plane: np.ndarray, kind: np.ndarray, thread: np.ndarray, row: np.ndarray, col: np.ndarray
) -> pd.DataFrame:
    """Elements as rectangles: first runs along a row, then equal runs in neighbouring rows. plane, kind: as numbers."""
    sizes = [int(column.max()) + 1 for column in (step, plane, kind, thread, row, col)]
    code = np.zeros(len(step), np.int64)
    for column, size in zip((step, plane, kind, thread, row, col), sizes):
        code = code * size + column
    code = np.unique(code)
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


def _windows(story: Threads) -> list[dict[str, list[int]]]:
    """For each step the part of each axis that is drawn: what is touched in its tile, over all matrices."""
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
        for axis, low, high in zip(story.planes[plane], bounds[::2], bounds[1::2]):
            here = window.get(axis, [low, high])
            window[axis] = [int(min(low, here[0])), int(max(high, here[1]))]
    for ahead in (found, found[::-1]):  # what a tile does not touch stays as it was; before the first, as it will be
        known: dict[str, list[int]] = {}
        for window in ahead:
            known = {**known, **window}
            window.update(known)
    return [found[n] for n in part_of]


def _lines(
    table: pa.Table, step: np.ndarray, site: np.ndarray, sites: Sites, steps: int
) -> tuple[np.ndarray, list[list[str]]]:
    """Which lines each thread ran in each step: `ran` and `lines` of Threads."""
    thread = table["thread"].to_numpy()
    places = list(dict.fromkeys(s.place for s in sites if s.kind in ("value", "access")))
    of_site = np.array([places.index(s.place) if s.kind in ("value", "access") else -1 for s in sites] or [-1])[site]
    threads = int(thread.max(initial=0)) + 1
    keep = of_site >= 0
    code = np.unique((step[keep].astype(np.int64) * threads + thread[keep]) * max(1, len(places)) + of_site[keep])
    who, place = np.divmod(code, max(1, len(places)))
    starts = np.flatnonzero(np.r_[True, np.diff(who) != 0]) if len(who) else np.zeros(0, int)
    known: dict[bytes, int] = {}
    ran = np.full(steps * threads, -1)
    for first, end in zip(starts, np.r_[starts[1:], len(who)]):
        ran[who[first]] = known.setdefault(place[first:end].tobytes(), len(known))
    sets = [[places[n] for n in np.frombuffer(key, place.dtype)] for key in known]
    return ran.reshape(steps, threads), sets


def _launches(request: Request) -> list[dict[str, Any]]:
    """Each launch as the picture draws it, with the expressions that made its grid and its block."""
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
