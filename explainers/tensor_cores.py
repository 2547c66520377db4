"""Tensor cores: one mma.sync or wgmma at a time, with who holds every element of A, B and C, and the way it came.

What lies where follows from the run's own addresses. A store into shared memory is of what its thread loaded just
before, a box by TMA of the box that was asked for; so an address that a lane gives to ldmatrix is an element of Q, K or
V. ldmatrix then hands row r of its matrix i, which lane 8 i + r addresses, to lanes 4 r to 4 r + 3, two neighbours
each, as word i; transposed, a column to each four lanes. Elements of C and of A = P belong to the lane that logged
them.
No instruction that multiplies is logged: A meets B where both are of the same dims (or keys), in the order in which
the operands were fetched. What C holds between the first product of a tile and the last is added up here, sixteen
products and C, rounded once to the type of the sum; before the first and after the last it is the trace's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from explainers import axes, stage, stories, tiling
from explainers.frames import FragmentsMeta, ProductFrame
from explainers.glossary import count
from kernels.core.dtypes import element_type
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.memory import model
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import WRITES
from kernels.trace.probes import sites_of

K = 16  # what an instruction adds up: dims of Q and K, or keys of P and V
LANES, GROUP = 32, 128  # threads of a warp, of a warpgroup
MOST = 320  # products shown, after which no other key tile begins
WANTS = ("score", "p", "o", "rescale")
NEEDS = {"score": ("row", "col"), "p": ("row", "col"), "o": ("row", "tile", "dim"), "rescale": ("row", "tile")}
MADE_OF = {"S": ("Q", "K", "dim"), "O": ("P", "V", "key")}  # C -> A, B, and what is added up


@dataclass
class Matrix:
    """A matrix as far as it is shown. row0, col0: its first row (query or key) and column (dim or key).

    value: float32 [rows, cols], NaN where nothing was logged. lane, register, half: who holds the element (lane: of the
    warp, or of the warpgroup's 128 threads; register: of its part of A, B or C; half: 0 or 1, -1 where an element
    fills the register); byte: its offset in its tensor's shared memory; fetch, by: the ldmatrix that brought it, and
    the lane that addressed its row. -1 where there is none.
    """

    row0: int
    col0: int
    value: np.ndarray
    attributes: dict[str, np.ndarray] = field(default_factory=dict)

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["attributes"][name]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def of(cls, row0: int, col0: int, value: np.ndarray) -> "Matrix":
        nobody = {name: np.full(value.shape, -1, np.int32) for name in ATTRIBUTES}
        return cls(row0, col0, np.array(value, np.float32), nobody)

    def set(self, row: Any, col: Any, **known: Any) -> None:
        """Attributes of elements by query or key and dim; what lies outside is left out."""
        row, col = np.broadcast_arrays(np.asarray(row) - self.row0, np.asarray(col) - self.col0)
        inside = (row >= 0) & (row < self.value.shape[0]) & (col >= 0) & (col < self.value.shape[1])
        for name, values in known.items():
            self.attributes[name][row[inside], col[inside]] = np.broadcast_to(values, row.shape)[inside]


ATTRIBUTES = ("lane", "register", "half", "byte", "fetch", "by")


@dataclass(frozen=True)
class Fetch:
    """An ldmatrix of the warp: its tensor, source line and wavefronts, and the fewest that it could take."""

    tensor: str
    place: str
    wavefronts: int
    ideal: int
    transposed: bool


@dataclass(frozen=True)
class Product:
    """One instruction. c: S or O. rows, cols: of C. k: what is added up. Each [first, end). a, b: the fetches that
    brought the operands, -1 where there is none. lines: of the source."""

    c: str
    tile: int
    step: int
    rows: tuple[int, int]
    cols: tuple[int, int]
    k: tuple[int, int]
    a: int
    b: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Story:
    """products: in order. matrices: Q, K, V, P and S. o_after [tiles, rows, dims]: O as it stands after each key tile,
    and o_before as the tile's first product finds it; matrices["O"] says who holds it. instruction: its name. unit:
    which warp or warpgroup. units: how many there are. left_out: products that are not shown."""

    frames: list[ProductFrame]
    products: list[Product]
    fetches: list[Fetch]
    matrices: dict[str, Matrix]
    o_before: np.ndarray
    o_after: np.ndarray
    first_tile: int
    scale: float
    sum_bits: int
    instruction: str
    unit: int
    units: int
    left_out: int


def accepts(spec: KernelSpec) -> bool:
    """Attention of 16-bit numbers that logs its scores, weights and outputs, and whose operands come from shared memory
    by ldmatrix or as a product's."""
    if not tiling.accepts(spec) or not stories.logs(spec, NEEDS):
        return False
    request = stories.sample(spec)
    fetched = {site.tensor for site in sites_of(request) if site.event in ("ldmatrix", "product")}
    known = axes.tensors(request)
    return {"K", "V"} <= fetched and all(known[symbol].itemsize == 2 for symbol in fetched if symbol in known)


def explain(run: Run, unit: int = 0, key_tile: int = 0) -> Story:
    """The Story of one warp, or one warpgroup, of the traced block, from a key tile on. ProblemError where there is no
    such one."""
    return _Reader(run).read(unit, key_tile)


def key_tiles(request: Request) -> int:
    """How many key tiles the traced query tile meets. Rule: tiles of BLOCK_KV keys, as far as its last row sees."""
    keys = axes.length(tiling.tensor_at(request, "K"), "key")
    _, _, end = tiling.query_rows(request)
    if getattr(request.problem, "causal", False):
        keys = max(1, min(keys, end + tiling.mask_offset(request)))
    return -(-keys // request.constants.get("BLOCK_KV", keys))


def units(request: Request) -> tuple[str, int]:
    """What multiplies together, warp or warpgroup, and how many of a block do. By the rows of a query tile: 64 for a
    warpgroup; else the block's warps."""
    if any(site.event == "product" for site in sites_of(request)):
        return "warpgroup", max(1, request.constants.get("BLOCK_Q", 64) // 64)
    return "warp", max(1, request.plan.launches[-1].threads // LANES)


class _Reader:
    """Reads a run's trace."""

    def __init__(self, run: Run) -> None:
        self.run, self.request, self.sites = run, run.request, sites_of(run.request)
        self.steps = cutting.cut(run.trace, self.sites)
        table = run.trace.table
        frame = table.to_pandas(split_blocks=True).assign(step=self.steps.of_record, site=self.sites.index(table))
        self.records = frame[(frame.step >= 0) & (frame.block == frame.block.min())]
        self.places = tiling.places(self.request)
        self.symbols = {place: symbol for symbol, place in self.places.items()}
        self.tensors = axes.tensors(self.request)
        self.by_group = any(site.event == "product" for site in self.sites)
        self.texts = {name: text.splitlines() for name, text in self.request.kernel.files}

    def read(self, unit: int, key_tile: int) -> Story:
        records, size = self.records, GROUP if self.by_group else LANES
        event = "product" if self.by_group else "ldmatrix"
        there = np.unique(records.thread[records.event == event] // size)
        if unit >= len(there):
            noun = "warpgroup" if self.by_group else "warp"
            raise ProblemError(f"{noun} is {unit}; {count(len(there), noun)} of this block multiply, from 0 on.")
        mine = records[records.thread // size == there[unit]]
        head, _, _ = tiling.query_rows(self.request)
        self.fetches: list[Fetch] = []
        self.matrices = self._matrices(mine, head)
        self._owners(mine)
        every = [*(self._by_group(mine) if self.by_group else self._by_warp(mine))]
        tiles = sorted({p.tile for p in every})
        if key_tile and key_tile not in tiles:
            raise ProblemError(
                f"key_tile is {key_tile}; this query tile meets {count(len(tiles), 'key tile')}, from 0 on."
            )
        later = [p for p in every if p.tile >= key_tile]
        shown: list[Product] = []
        for tile in (t for t in tiles if t >= key_tile):
            of_tile = [p for p in later if p.tile == tile]
            if shown and len(shown) + len(of_tile) > MOST:
                break
            shown += of_tile
        shown = shown[:MOST]
        before, after = self._outputs(mine, sorted({p.tile for p in shown}))
        self._window(shown)
        first = min((p.tile for p in shown), default=0)
        name = "wgmma" if self.by_group else "mma.sync"
        scale = float(self.request.problem.scale)
        story = Story(
            [],
            shown,
            self.fetches,
            self.matrices,
            before,
            after,
            first,
            scale,
            self.request.constants.get("SUM_BITS", 32),
            name,
            unit,
            len(there),
            len(every) - len(shown),
        )
        story.frames.extend(_frames(story))
        return story

    # ---- the matrices ----

    def _matrices(self, mine: pd.DataFrame, head: int) -> dict[str, Matrix]:
        """Q, K, V, P, S and O of the rows that this warp or warpgroup works on."""
        scores = mine[mine.event == "score"]
        if scores.empty:
            raise ProblemError("This warp computes no score: its rows lie beyond the last query. Choose another.")
        rows = 64 if self.by_group else 16
        row0 = int(scores.row.min())
        row0 -= (row0 - tiling.query_rows(self.request)[1]) % rows
        end = int(scores.row.max()) + 1
        q, k, v = (tiling.matrix(self.run, place, head) for place in "QKV")
        found = {
            "Q": Matrix.of(row0, 0, q[row0:end]),
            "K": Matrix.of(0, 0, k),
            "V": Matrix.of(0, 0, v),
        }
        nothing = np.full((end - row0, len(k)), np.nan, np.float32)
        for name, event in (("S", "score"), ("P", "p")):
            part = mine[mine.event == event]
            values = nothing.copy()
            values[part.row.astype(int) - row0, part.col.astype(int)] = part.value
            found[name] = Matrix.of(row0, 0, values)
        kind = element_type(tiling.tensor_at(self.request, "Q").dtype)
        with np.errstate(over="ignore"):
            found["P"].value = found["P"].value.astype(kind.numpy).astype(np.float32)
        found["O"] = Matrix.of(row0, 0, np.full((end - row0, v.shape[1]), np.nan))
        return found

    def _owners(self, mine: pd.DataFrame) -> None:
        """Who holds each element of S, P and O: who logged it. Rule for the register: of two rows that a lane has of
        sixteen the lower comes first, and of two neighbouring columns the left one; A's words go by eights of columns
        after that, a warpgroup's C by eights of columns before."""
        for name, event, col in (("S", "score", "col"), ("P", "p", "col"), ("O", "o", "dim")):
            part = mine[mine.event == event].drop_duplicates(["row", col])
            matrix = self.matrices[name]
            row, column = part.row.to_numpy(int), part[col].to_numpy(int)
            lane = part.thread.to_numpy() % (GROUP if self.by_group else LANES)
            lower = (row - matrix.row0) % 16 // 8
            if name == "P":
                matrix.set(row, column, lane=lane, register=lower + 2 * (column % 16 // 8), half=column % 2)
                continue
            eights = (column - self._tile_begin(column)) // 8 if self.by_group and name == "S" else column // 8
            register = 2 * lower + column % 2 + (4 * eights if self.by_group else 0)
            matrix.set(row, column, lane=lane, register=register)

    def _tile_begin(self, column: np.ndarray) -> np.ndarray:
        size = self.request.constants.get("BLOCK_KV", len(self.matrices["K"].value))
        return column // size * size

    def _outputs(self, mine: pd.DataFrame, tiles: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """O of these key tiles before the first product and after the last: [tiles, rows, dims] each. Before it, it is
        what the tile before left, times the rescale factor."""
        o = self.matrices["O"]
        after = np.full((len(tiles) + 1, *o.value.shape), np.nan, np.float32)  # of the tile before the first one, too
        factor = np.ones((len(tiles), o.value.shape[0], 1), np.float32)
        logged = mine[mine.event == "o"]
        place = {tile: n for n, tile in enumerate([(tiles or [0])[0] - 1, *tiles])}
        logged = logged[logged.tile.isin(list(place))]
        at = logged.tile.map(place).to_numpy(int)
        after[at, logged.row.to_numpy(int) - o.row0, logged.dim.to_numpy(int)] = logged.value
        scaled = mine[(mine.event == "rescale") & mine.tile.isin(tiles)]
        factor[scaled.tile.map(place).to_numpy(int) - 1, scaled.row.to_numpy(int) - o.row0, 0] = scaled.value
        before = after[:-1].copy()
        if tiles and tiles[0] == 0:
            before[0] = 0
        with np.errstate(invalid="ignore", over="ignore"):
            before = np.where(np.isnan(before) & (factor == 0), 0, before) * factor
        return before.astype(np.float32), after[1:]

    def _window(self, shown: Sequence[Product]) -> None:
        """Leaves of K, V, S and P only the keys that are shown."""
        keys = [p.cols if p.c == "S" else p.k for p in shown]
        low, high = min((k[0] for k in keys), default=0), max((k[1] for k in keys), default=0)
        for name in "KVSP":
            m, along = self.matrices[name], (slice(low, high), slice(None))
            part = along if name in "KV" else along[::-1]
            kept = {key: a[part] for key, a in m.attributes.items()}
            begin = (low, 0) if name in "KV" else (m.row0, low)
            self.matrices[name] = Matrix(*begin, m.value[part], kept)

    # ---- what lies in shared memory ----

    def _contents(self) -> "Iterator[tuple[int, dict[str, np.ndarray]]]":
        """step -> place of Q, K and V -> of each element of its shared memory [elements, 2] the row and dim that lie
        there after the step, -1 where that is not known or zeros beyond the last row."""
        writes = []
        for place in "QKV":
            symbol = self.symbols[place]
            tensor = self.tensors[symbol]
            for record in self._writes(symbol, tensor):
                writes.append((record[0], place, record[1], record[2]))
        writes.sort(key=lambda w: w[0])
        size = {place: 1 + max((int(w[2].max()) for w in writes if w[1] == place), default=0) for place in "QKV"}
        now = {place: np.full((size[place], 2), -1, np.int64) for place in "QKV"}
        at = 0
        for step in range(len(self.steps.table)):
            while at < len(writes) and writes[at][0] <= step:
                _, place, to, what = writes[at]
                now[place][to] = what
                at += 1
            yield step, now

    def _writes(self, symbol: str, tensor: Tensor) -> "Iterator[tuple[int, np.ndarray, np.ndarray]]":
        """step, elements of shared memory, row and dim of each [n, 2]: of every step that writes the tensor there."""
        part = self.records[self.records.tensor == symbol].sort_values(["thread", "seq"], kind="stable")
        writes = ((part.space == "shared") & part.event.isin(WRITES)).to_numpy()
        reads = (part.space == "global").to_numpy()
        part, writes = part[writes | reads], writes[writes | reads]
        offset, thread = part.offset.to_numpy(np.int64), part.thread.to_numpy()
        before = np.roll(np.arange(len(part)), 1)
        paired = ~writes[before] & (thread[before] == thread) & (np.arange(len(part)) > 0)
        source = np.where(paired, offset[before] // tensor.itemsize, -1)
        part = part.assign(source=source)[writes]
        row_axis = next(n for n, axis in enumerate(tensor.axes) if axis in ("query", "key"))
        dim_axis = tensor.axes.index("dim")
        for (step, event, width), made in part.groupby(["step", "event", "bytes"], observed=True, sort=True):
            first, source = made.offset.to_numpy(np.int64) // tensor.itemsize, made.source.to_numpy()
            n = int(width) // tensor.itemsize
            if event == "tma_smem":  # a box: rows of 128 bytes, swizzled
                wide = 128 // tensor.itemsize
                r, c = np.divmod(np.arange(n), wide)
                to = first[:, None] + r * wide + ((c // 8) ^ (r % 8)) * 8 + c % 8
                begin = np.unravel_index(np.maximum(source, 0), tensor.shape)
                row, dim = begin[row_axis][:, None] + r, begin[dim_axis][:, None] + c
                known = (row < tensor.shape[row_axis]) & (dim < tensor.shape[dim_axis])
            else:
                to = first[:, None] + np.arange(n)
                element = np.maximum(source, 0)[:, None] + np.arange(n)
                at = np.unravel_index(element, tensor.shape)
                row, dim = at[row_axis], at[dim_axis]
                known = np.broadcast_to(source[:, None] >= 0, row.shape)
            what = np.stack([np.where(known, row, -1), np.where(known, dim, -1)], axis=-1)
            yield int(step), to.ravel(), what.reshape(-1, 2)

    # ---- mma.sync ----

    def _by_warp(self, mine: pd.DataFrame) -> Iterator[Product]:
        """The products of a warp, whose operands come by ldmatrix."""
        loads = mine[mine.event == "ldmatrix"].sort_values(["step", "lane", "seq"], kind="stable")
        loads = loads.assign(nth=loads.groupby(["step", "lane"]).cumcount())
        steps = {int(step): part for step, part in loads.groupby("step")}
        tile_of = self.steps.table.tile.to_numpy()
        for step, now in self._contents():
            if step not in steps:
                continue
            a: dict[tuple[int, int], tuple[int, str]] = {}  # first row, first k -> fetch, line
            for _, part in steps[step].groupby("nth"):
                yield from self._fetched(part, now, a, step, int(tile_of[step]))

    def _fetched(
        self, part: pd.DataFrame, now: dict[str, np.ndarray], a: dict, step: int, tile: int
    ) -> Iterator[Product]:
        """What one ldmatrix brings, and the products that it makes possible."""
        site = self.sites[int(part.site.iloc[0])]
        place = self.places.get(site.tensor or "", "")
        if place not in ("Q", "K", "V"):
            return
        line = self.texts[site.file][site.code_line - 1]
        turned = "trans" in line
        offsets, active = np.zeros((1, LANES), np.int64), np.zeros((1, LANES), bool)
        offsets[0, part.lane], active[0, part.lane] = part.offset.to_numpy(), True
        (wavefronts,), (ideal,) = model.count_wavefronts(offsets, active, int(part.bytes.iloc[0]), "ldmatrix")
        number = len(self.fetches)
        self.fetches.append(Fetch(place, site.place, int(wavefronts), int(ideal), turned))
        item = self.tensors[self.symbols[place]].itemsize
        first = offsets[0][active[0]].reshape(-1, 8) // item  # [matrices, 8 rows]
        lies = now[place][first]  # row and dim of each row's first element
        corner: list[tuple[int, int] | None] = []  # of each matrix: its first row and dim, or None
        for i in range(len(first)):
            known = np.flatnonzero(lies[i, :, 0] >= 0)
            corner.append((int(lies[i, known[0], 0] - known[0]), int(lies[i, known[0], 1])) if len(known) else None)
            if corner[-1] is None:
                continue
            r, c = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
            lane, half = (4 * c + r // 2, r % 2) if turned else (4 * r + c // 2, c % 2)
            self.matrices[place].set(
                corner[-1][0] + r,
                corner[-1][1] + c,
                lane=lane,
                half=half,
                register=i if place == "Q" else i % 2,
                byte=(first[i][:, None] + c) * item,
                fetch=number,
                by=8 * i + r,
            )
        placed = [found for found in corner if found]
        if not placed:
            return
        if place == "Q":
            row0 = self.matrices["Q"].row0
            top = min(r for r, _ in placed)
            a[top - (top - row0) % 16, min(d for _, d in placed)] = (number, site.place)
            return
        for pair in range(0, len(corner), 2):
            pieces = [found for found in corner[pair : pair + 2] if found]
            if not pieces:
                continue
            row, dim = min(r for r, _ in pieces), min(d for _, d in pieces)
            multiply = self._line_of_product(site.file, site.code_line, pair // 2)
            lines = tuple(dict.fromkeys([site.place, *multiply]))
            if place == "K":
                for (top, k), (fetch, where) in a.items():
                    if k == dim:
                        yield Product(
                            "S", tile, step, (top, top + 16), (row, row + 8), (k, k + K), fetch, number, (where, *lines)
                        )
            else:
                tops = range(self.matrices["P"].row0, self.matrices["P"].row0 + len(self.matrices["P"].value), 16)
                for top in tops:
                    yield Product("O", tile, step, (top, top + 16), (dim, dim + 8), (row, row + K), -1, number, lines)

    def _line_of_product(self, file: str, line: int, which: int) -> list[str]:
        """The line of the source that multiplies, soon after the one that fetches: its which-th."""
        after = range(line, min(line + 6, len(self.texts[file])))
        found = [n + 1 for n in after if "mma<" in self.texts[file][n] or "mma(" in self.texts[file][n]]
        return [f"{file}:{found[min(which, len(found) - 1)]}"] if found else []

    # ---- wgmma ----

    def _by_group(self, mine: pd.DataFrame) -> Iterator[Product]:
        """The products of a warpgroup, whose operands the tensor cores fetch from shared memory."""
        asked = mine[mine.event == "product"].sort_values(["step", "seq"])
        steps = {int(step): part for step, part in asked.groupby("step")}
        row0, seen = self.matrices["S"].row0, set()
        for step, now in self._contents():
            for record in steps[step].itertuples() if step in steps else ():
                site = self.sites[int(record.site)]
                place = self.places.get(site.tensor or "", "")
                if place not in ("K", "V"):
                    continue
                item = self.tensors[self.symbols[place]].itemsize
                first, n = int(record.offset) // item, int(record.bytes) // item
                region = np.arange(first, min(first + n, len(now[place])))
                lies = now[place][region]
                known = lies[:, 0] >= 0
                if (place, record.tile) in seen or not known.any():
                    continue  # set off for a query tile that never comes: nobody reads it
                seen.add((place, record.tile))
                self.matrices[place].set(lies[known, 0], lies[known, 1], byte=region[known] * item)
                begin, dims = int(lies[known, 0].min()), self.matrices[place].value.shape[1]
                keys = n // dims
                if place == "K":
                    at = np.arange(len(now["Q"]))
                    mapped = now["Q"][:, 0] >= 0
                    self.matrices["Q"].set(now["Q"][mapped, 0], now["Q"][mapped, 1], byte=at[mapped] * item)
                    for k in range(0, dims, K):
                        yield Product(
                            "S",
                            int(record.tile),
                            step,
                            (row0, row0 + 64),
                            (begin, begin + keys),
                            (k, k + K),
                            -1,
                            -1,
                            (site.place,),
                        )
                else:
                    for k in range(begin, begin + keys, K):
                        yield Product(
                            "O", int(record.tile), step, (row0, row0 + 64), (0, dims), (k, k + K), -1, -1, (site.place,)
                        )


# ---- what C holds ----


def element(story: Story, product: Product, row: int, col: int) -> tuple[float, list[float]]:
    """One element of C: before the tile's first product, and after each of those of its group up to this one."""
    group = [
        p
        for p in story.products
        if (p.c, p.tile, p.rows, p.cols) == (product.c, product.tile, product.rows, product.cols) and p.k <= product.k
    ]
    a, b = (story.matrices[name] for name in MADE_OF[product.c][:2])
    before = 0.0
    if product.c == "O":
        o = story.o_before[product.tile - story.first_tile]
        at = row - story.matrices["O"].row0
        before = float(o[at, col]) if at < len(o) else 0.0  # beyond the last row C is 0, and stays it
    kind, now, after = np.float16 if story.sum_bits == 16 else np.float32, before, []
    for p in group:
        products = [x * y for _, x, y in factors(a, b, product.c, p.k, row, col)]
        with np.errstate(over="ignore", invalid="ignore"):
            now = float(kind(float(kind(now)) + float(np.sum(products))))
        after.append(now)
    return before, after


def factors(a: Matrix, b: Matrix, c: str, k: tuple[int, int], row: int, col: int) -> list[tuple[int, float, float]]:
    """What an instruction multiplies for one element of C: (dim or key, of A, of B); what lies beyond an edge, and the
    weight of a hidden key, is 0."""
    found = []
    for n in range(*k):
        x, y = _at(a, row, n), _at(b, *((col, n) if c == "S" else (n, col)))
        found.append((n, x, y))
    return found


def _at(m: Matrix, row: int, col: int) -> float:
    row, col = row - m.row0, col - m.col0
    if not (0 <= row < m.value.shape[0] and 0 <= col < m.value.shape[1]):
        return 0.0
    value = float(m.value[row, col])
    return 0.0 if np.isnan(value) and not (m.attributes["lane"][row, col] >= 0) else value


# ---- frames ----


def _frames(story: Story) -> Iterator[ProductFrame]:
    last = {(p.c, p.tile, p.rows, p.cols): p for p in story.products}
    numbers: dict[int, int] = {}
    totals = {tile: sum(p.tile == tile for p in story.products) for tile in {p.tile for p in story.products}}
    for product in story.products:
        number = numbers[product.tile] = numbers.get(product.tile, 0) + 1
        is_last = last[product.c, product.tile, product.rows, product.cols] == product
        yield {
            "tile": product.tile,
            "title": f"Key tile {product.tile} · product {number} of {totals[product.tile]}",
            "sentence": _said(story, product, is_last),
            "phase": product.c,
            "lines": {line: 1 for line in product.lines},
            "c": product.c,
            "at_tile": product.tile - story.first_tile,
            "rows": list(product.rows),
            "cols": list(product.cols),
            "k": list(product.k),
            "a": product.a,
            "b": product.b,
            "last": is_last,
        }


def _said(story: Story, product: Product, is_last: bool) -> str:
    """What the instruction multiplies, how its operands came, and what becomes of the first element of C."""
    a, b, along = MADE_OF[product.c]
    row, col = product.rows[0], product.cols[0]
    names = {"S": ("rows", "keys"), "O": ("rows", "dims")}[product.c]
    what = (
        f"{product.c} of {names[0]} {_span(product.rows)} and {names[1]} {_span(product.cols)}: {along}s "
        f"{_span(product.k)} of {a} and {b} are multiplied and added by one {story.instruction}."
    )
    came = [
        f"{name} came by ldmatrix in {count(story.fetches[n].wavefronts, 'wavefront')}"
        for name, n in ((a, product.a), (b, product.b))
        if n >= 0
    ]
    if not came:
        came = [
            "the tensor cores fetch both from shared memory"
            if product.c == "S"
            else f"{a} lies in registers, {b} in shared memory"
        ]
    before, after = element(story, product, row, col)
    was = after[-2] if len(after) > 1 else before
    moved = f"{product.c}[{row}, {col}] goes from {_short(was)} to {_short(after[-1])}."
    if is_last and product.c == "S":
        score = _logged(story, row, col)
        scaled = _short(after[-1] * story.scale)
        moved += f" Times {story.scale:g} it is the score: {scaled}; the kernel logged {_short(score)}."
    elif is_last:
        value = float(story.o_after[product.tile - story.first_tile, row - story.matrices["O"].row0, col])
        moved += f" That was the tile's last: the kernel logged {_short(value)}."
    return f"{what} {_upper(' and '.join(came))}. {moved}"


def _logged(story: Story, row: int, col: int) -> float:
    s = story.matrices["S"]
    return float(s.value[row - s.row0, col - s.col0])


def _span(pair: tuple[int, int]) -> str:
    return f"{pair[0]} to {pair[1] - 1}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _short(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "none (hidden)" if np.isnan(value) else str(value)


# ---- the stage ----


def view(run: Run, story: Story) -> stage.View:
    """The picture `fragments`."""
    matrices = story.matrices
    columns = {f"{name}_value": m.value for name, m in matrices.items() if name != "O"}
    for name, m in matrices.items():
        columns |= {f"{name}_{key}": a for key, a in m.attributes.items() if (a >= 0).any()}
    columns |= {"O_before": story.o_before, "O_after": story.o_after}
    meta: FragmentsMeta = {
        "instruction": story.instruction,
        "scale": story.scale,
        "sum_bits": story.sum_bits,
        "dtype": tiling.tensor_at(run.request, "Q").dtype,
        "matrices": {name: [m.row0, m.col0, *m.value.shape] for name, m in matrices.items()},
        "fetches": [
            {"tensor": f.tensor, "place": f.place, "wavefronts": f.wavefronts, "ideal": f.ideal} for f in story.fetches
        ],
        "bases": {place: _base(run.request, place) for place in "QKV"},
        "symbols": {place: symbol for symbol, place in tiling.places(run.request).items() if place in "QKV"},
        "frames": story.frames,
    }
    return stage.View("fragments", "fragments", "One product", meta, columns)


def _base(request: Request, place: str) -> list[int]:
    """In elements of its tensor: where the traced head's matrix begins, how far it is to the next row and the next
    dim; and the bytes of an element."""
    tensor, o = tiling.tensor_at(request, place), tiling.tensor_at(request, "O")
    rows = next(n for n, axis in enumerate(tensor.axes) if axis in ("query", "key"))
    dims, head = tensor.axes.index("dim"), tiling.query_rows(request)[0]
    outer = [n for n in range(len(tensor.axes)) if n not in (rows, dims)]
    number = head * axes.heads(tensor) // axes.heads(o)
    index = [0] * len(tensor.axes)
    for n, at in zip(outer, np.unravel_index(number, [tensor.shape[n] for n in outer])):
        index[n] = int(at)
    steps = [int(np.prod(tensor.shape[n + 1 :])) for n in range(len(tensor.axes))]
    return [sum(i * s for i, s in zip(index, steps)), steps[rows], steps[dims], tensor.itemsize]


def stage_of(run: Run, story: Story, provenance: stage.Provenance) -> stage.Stage:
    """The whole stage of a run."""
    left = (
        f"Shown are {count(len(story.products), 'product')} of {units(run.request)[0]} {story.unit}, from key tile "
        f"{story.first_tile} on; {story.left_out:,} are not. Another first key tile stands under More."
    )
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[view(run, story)],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=TABS,
        provenance=provenance,
        summary=left if story.left_out else "",
        questions=questions(story),
    )


TABS = [
    stage.Tab("layout", "Who holds what"),
    stage.Tab("fetches", "Fetches"),
    stage.Tab("builds", "Builds"),
    stage.Tab("data", "Data and labels"),
]


def states(story: Story) -> list[stage.State]:
    """The strip: multiply-adds and wavefronts so far, and what the operands' fetches cost."""
    work = [(p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) * K for p in story.products]
    found = [stage.State("multiply-adds so far", np.cumsum(work).tolist(), colour="P")]
    if not story.fetches:
        return [*found, stage.State("one instruction", [f"{n:,} multiply-adds" for n in work])]
    done = [max([p.a, p.b, *(q.b for q in story.products[:n])]) for n, p in enumerate(story.products)]
    first = min((n for p in story.products for n in (p.a, p.b) if n >= 0), default=0)
    sums = np.cumsum([f.wavefronts for f in story.fetches])
    before = int(sums[first - 1]) if first else 0
    found.append(stage.State("wavefronts of ldmatrix so far", [int(sums[n]) - before for n in done], colour="load"))
    for title, name in (("A came in", "a"), ("B came in", "b")):
        at = [getattr(p, name) for p in story.products]
        found.append(stage.State(title, [_cost(story.fetches[n]) if n >= 0 else "no fetch: in registers" for n in at]))
    return found


def _cost(fetch: Fetch) -> str:
    return f"{count(fetch.wavefronts, 'wavefront')}, {fetch.ideal} at best"


def questions(story: Story) -> list[stage.Question]:
    """Asked before the picture is read; the keys are the trace's."""
    if not story.products:
        return []
    first = story.products[0]
    s = story.matrices["S"]
    left, made = first.cols[0], []
    col = left + 5
    rows = s.lane[first.rows[0] - s.row0 : first.rows[1] - s.row0]
    seen = np.flatnonzero(rows[:, col - s.col0] >= 0) if col - s.col0 < rows.shape[1] else []
    if len(seen):
        row = first.rows[0] + int(seen[0])  # the first that sees this key, and those before it
        lane, register = (int(m[row - s.row0, col - s.col0]) for m in (s.lane, s.register))
        begin = [int(s.lane[row - s.row0, left - s.col0 + n]) % LANES for n in (0, 2)]
        text = (
            f"C ends in the registers of lanes. Lane {begin[0]} has S[{row}, {left}] and the one beside it, lane "
            f"{begin[1]} the next two of the row. Which lane has S[{row}, {col}]?"
        )
        why = f"S[{row}, {col}] was logged by lane {lane % LANES}, whose register c{register} it is."
        made.append(
            stage.Question("owner", text, "number", lane % LANES, why, view="fragments", veils=("picture", "tabs"))
        )
    if first.b >= 0:
        fetch = story.fetches[first.b]
        text = (
            f"B came by one ldmatrix: 32 lanes address 32 rows of 16 bytes, eight for each matrix. In how many "
            f"wavefronts does shared memory serve it here? At best it takes {fetch.ideal}."
        )
        why = f"{fetch.tensor} came in {_cost(fetch)}: " + (
            "the rows of a matrix begin in the same banks."
            if fetch.wavefronts > fetch.ideal
            else "each matrix's eight rows lie in all 32 banks."
        )
        asked: dict[str, Any] = {
            "unit": "wavefronts",
            "view": "fragments",
            "veils": ("sentence", "strip", "picture", "tabs"),
        }
        made.append(stage.Question("fetch", text, "number", fetch.wavefronts, why, **asked))
    return made


# ---- tables ----


def layout_table(story: Story) -> pd.DataFrame:
    """Where the first product of each kind has its elements, lane by lane, as found in this run: of each register of A,
    B and C (row, column) within the product; both halves of a word."""
    rows = []
    for c in "SO":
        product = next((p for p in story.products if p.c == c and p.tile == story.first_tile), None)
        for part, (name, low, left, high, wide, turned) in _parts(product).items() if product else ():
            m = story.matrices[name]
            lane = m.lane[low - m.row0 : low - m.row0 + high, left - m.col0 : left - m.col0 + wide]
            if not (lane >= 0).any():
                rows.append(
                    {
                        "of": f"{part} = {name}",
                        "lane": "none",
                        "register": "",
                        "elements": "in shared memory: the tensor cores fetch it",
                    }
                )
                continue
            register = m.register[low - m.row0 : low - m.row0 + high, left - m.col0 : left - m.col0 + wide]
            for one in (0, 1, 4, 31):
                for number in np.unique(register[lane == one])[:4]:
                    at = np.argwhere((lane == one) & (register == number))
                    said = ", ".join(f"[{c}, {r}]" if turned else f"[{r}, {c}]" for r, c in at)
                    rows.append(
                        {
                            "of": f"{part} = {name}",
                            "lane": str(one),
                            "register": f"{part.lower()}{number}",
                            "elements": said,
                        }
                    )
    return pd.DataFrame(rows)


def _parts(product: Product) -> dict[str, tuple[str, int, int, int, int, bool]]:
    """A, B and C of a product: matrix, first row, first column, rows and columns of it; and whether the matrix lies
    turned in the product, as K does."""
    a, b, _ = MADE_OF[product.c]
    (r0, r1), (c0, c1), (k0, k1) = product.rows, product.cols, product.k
    of_b = (b, c0, k0, c1 - c0, k1 - k0, True) if product.c == "S" else (b, k0, c0, k1 - k0, c1 - c0, False)
    return {"A": (a, r0, k0, r1 - r0, k1 - k0, False), "B": of_b, "C": (product.c, r0, c0, r1 - r0, c1 - c0, False)}


def fetches_table(story: Story) -> pd.DataFrame:
    """Source line by source line: how many ldmatrix, their wavefronts and the fewest that they could take."""
    rows = [
        {"source line": f.place, "of": f.tensor, "ldmatrix": 1, "wavefronts": f.wavefronts, "at best": f.ideal}
        for f in story.fetches
    ]
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows).groupby(["source line", "of"], as_index=False, sort=False).sum()
