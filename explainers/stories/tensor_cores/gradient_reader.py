"""Reads the products of a kernel whose blocks keep keys and walk over query tiles, with their matrices: inputs, logged
squares and sums, and the lanes that own their numbers.

The summed axis of an operand from shared memory follows from its fetch: a transposed ldmatrix sums over the rows of the
tensor, another one over its dims. Part and axis name the product. For wgmma the mark of the step names it. The
operand with known addresses comes last, and has the columns of C. A has the rows of C.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.tensor_cores.reader import Reader
from explainers.stories.tensor_cores.tensor_products import (
    K,
    Kind,
    Matrix,
    Product,
    Products,
    of_whole_tiles,
    part_of,
)
from explainers.story import axes
from kernels.core.dtypes import element_type
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.probes import Site

KEYS_DOWN = (
    Kind("S", "K of S", "Q of S", ("key", "query", "dim"), "BC", scaled=True),
    Kind("dP", "V of dP", "dO of dP", ("key", "query", "dim"), "BC"),
)
QUERIES_DOWN = (
    Kind("S", "Q of S", "K of S", ("query", "key", "dim"), "B", scaled=True),
    Kind("dP", "dO of dP", "V of dP", ("query", "key", "dim"), "B"),
)
SUMS = (
    Kind("dV", "P of dV", "dO of dV", ("key", "dim", "query"), "A", grows=True),
    Kind("dK", "dS of dK", "Q of dK", ("key", "dim", "query"), "A", grows=True, scaled=True),
    Kind("dQ", "dS of dQ", "K of dQ", ("query", "dim", "key"), scaled=True),
)
SOURCE = {"S": "P", "dP": "dS"}  # a C without records -> the part with the same lanes and registers
EVENT_OF = {"S": "score", "dP": "dp", "P": "p", "dS": "ds", "dV": "dv", "dK": "dk", "dQ": "dq_part"}
OPERANDS = ("Q", "K", "V", "dO")
TALL, TALL_GROUP = 16, 64  # rows of an mma.sync and of a wgmma
PANEL = 64  # columns of a 16-bit operand of wgmma that shared memory keeps together: rows of 128 bytes


def _walk(products: list[Product]) -> list[int]:
    """The tiles of products in the order of the loop, which may go back from the last tile."""
    return [*dict.fromkeys(p.tile for p in products)]


class GradientReader(Reader):
    """Reads a run's trace: the records, and the matrices of one warp or warpgroup."""

    FETCHED = (*OPERANDS, "P", "dS")
    kinds: dict[str, Kind]
    head: int

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        first = self.frame[self.frame.event == self.event].iloc[0]
        self.records = self.frame[(self.frame.launch == first.launch) & (self.frame.block == first.block)]
        known = gradients.tensors(self.request)
        self.tensors = {part: known[part] for part in OPERANDS}
        self.queries, self.keys, self.dims = gradients.sizes(self.request)
        self.tile_rows = self.request.value_of("query_rows") or self.queries

    def read(self, unit: int, first_tile: int) -> Products:
        """The Products of a warp or warpgroup, from a query tile on."""
        self.choose(unit)
        if self.own[self.own.event == "p"].empty:
            raise ProblemError("This warp computes no weight: all its pairs are hidden. Choose another warp or tile.")
        self.head = self._head()
        down = KEYS_DOWN if self._keys_down() else QUERIES_DOWN
        self.kinds = {kind.c: kind for kind in (*down, *SUMS) if kind.c != "dQ" or self._logs("dQ")}
        self.matrices = self._matrices()
        every = self._first_head()
        shown, tiles = self._shown(every, first_tile)
        before, after = self._sums(_walk(every), tiles)
        windows = self._cut(shown)
        before, after = ({c: a[:, *windows[c]] for c, a in sums.items()} for sums in (before, after))
        return Products(
            products=shown,
            fetches=self.fetches,
            kinds=self.kinds,
            matrices=self.matrices,
            before=before,
            after=after,
            walks="query",
            tiles=tiles,
            scale=self.scale,
            sum_bits=32,
            instruction="wgmma" if self.by_group else "mma.sync",
            unit=unit,
            left_out=len(every) - len(shown),
            queries=self.queries,
            keys=self.keys,
            head=self.head,
        )

    def _shown(self, every: list[Product], first_tile: int) -> tuple[list[Product], list[int]]:
        """The products of whole tiles, at most MOST, and their tiles."""
        tiles = _walk(every)
        if first_tile and first_tile not in tiles:
            raise ProblemError(
                f"key_tile is {first_tile}. This block has the query tiles {min(tiles)} to {max(tiles)}, from 0 on."
            )
        shown = of_whole_tiles(every, tiles[tiles.index(first_tile) if first_tile else 0 :])
        return shown, _walk(shown)

    def _first_head(self) -> list[Product]:
        """The products of the first query head. The next one repeats them. So does a product ahead of the last tile."""
        found: dict[tuple[object, ...], Product] = {}
        for p in self._by_group() if self.by_group else self._by_warp():
            same = (p.c, p.rows, p.cols, p.k)
            if same in found and not self.by_group and p.tile < max(q.tile for q in found.values()):
                break
            found.setdefault(same, p)
        return [*found.values()]

    # ---- mma.sync ----

    def _by_warp(self) -> Iterator[Product]:
        """The products of a warp. Their operands come by ldmatrix, or from the lanes that made them."""
        tile_of, step = self.steps.table.tile.to_numpy(), -1
        a: dict[tuple[str, int, int], tuple[int, str]] = {}  # matrix, first row, first k -> fetch, line
        squares: dict[str, list[tuple[int, str, np.ndarray]]] = {}  # part -> its last fetches
        for fetch in self.fetched():
            if fetch.step != step:
                a, squares, step = {}, {}, fetch.step
                self.tile = int(tile_of[step])
            if fetch.part not in OPERANDS:
                squares.setdefault(fetch.part, []).append((fetch.number, fetch.site.place, fetch.offsets))
                continue
            kind, letter = self._kind_of(fetch.part, fetch.turned)
            corners = self.note(kind.name(letter), fetch, letter)
            if letter == "A":
                if there := [corner for corner in corners if corner]:
                    rows, k = (min(at) for at in zip(*there))
                    a[kind.c, rows - rows % TALL, k] = fetch.number, fetch.site.place
                continue
            for pair in range(0, len(corners), 2):
                there = [corner for corner in corners[pair : pair + 2] if corner]
                if not there:
                    continue
                row, col = (min(at) for at in zip(*there))  # of the tensor
                first_k, first_col = (row, col) if fetch.turned else (col, row)
                multiply = self.multiplied(fetch.site, rf"\b{kind.c}_\w+, ")  # the first line that names C
                lines = tuple(dict.fromkeys([fetch.site.place, *multiply]))
                yield from self._with(kind, first_k, first_col, lines, fetch.number, a, squares)

    def _kind_of(self, part: str, turned: bool) -> tuple[Kind, str]:
        """The product of an operand, and its side: A or B. turned: it is summed over the rows of its tensor."""
        for kind in self.kinds.values():
            for letter in "AB":
                if part_of(kind.name(letter)) == part and (kind.axes[2] != "dim") == turned:
                    return kind, letter
        raise ProblemError(f"A transposed ldmatrix of {part} belongs to no product of this page.")

    def _with(
        self,
        kind: Kind,
        k: int,
        col: int,
        lines: tuple[str, ...],
        number: int,
        a: dict[tuple[str, int, int], tuple[int, str]],
        squares: dict[str, list[tuple[int, str, np.ndarray]]],
    ) -> Iterator[Product]:
        """The products of an operand B, from this k and column on, with each A of this warp."""
        cols, span = (col, col + 8), (k, k + K)
        if part_of(kind.a) in OPERANDS:
            for (c, top, first), (fetch, where) in a.items():
                if c == kind.c and first == k:
                    tile = (col if kind.axes[1] == "query" else top) // self.tile_rows
                    yield Product(kind.c, tile, (top, top + TALL), cols, span, (where, *lines), fetch, number)
            return
        tops, fetched = self._tops(kind, TALL), squares.get(part_of(kind.a), [])
        for n, top in enumerate(tops):
            of_a, read = -1, lines
            if len(fetched) >= len(tops):
                of_a, place, offsets = fetched[n - len(tops)]
                read = (place, *lines)
                self._note_square(kind, top, k, offsets, of_a)
            tile = (top if kind.axes[0] == "query" else k) // self.tile_rows
            yield Product(kind.c, tile, (top, top + TALL), cols, span, read, of_a, number)

    def _tops(self, kind: Kind, tall: int) -> list[int]:
        """The first rows of C of this warp or warpgroup, of a product with so many. Of dQ: in the tile of this step."""
        rows = np.flatnonzero((self.matrices[kind.c].lane >= 0).any(axis=1))
        tops = sorted({int(row) // tall * tall for row in rows})
        if kind.axes[0] == "key":
            return tops
        return [top for top in tops if top // self.tile_rows == self.tile]

    def _note_square(self, kind: Kind, top: int, k: int, offsets: np.ndarray, number: int) -> None:
        """The owners of a square operand that came by ldmatrix, by PTX's layout of A. Its rows and k are those of the
        product. Of the other warps' numbers only these owners are known."""
        m, item = self.matrices[kind.a], self.tensors["Q"].itemsize
        r, c = np.meshgrid(np.arange(TALL), np.arange(K), indexing="ij")
        matrix = r // 8 + 2 * (c // 8)
        line, within = (c % 8, r % 8) if self.fetches[number].transposed else (r % 8, c % 8)
        by = 8 * matrix + line
        row, col = (k + c, top + r) if "A" in kind.turned else (top + r, k + c)
        m.set(row, col, byte=offsets[by] + within * item, fetch=number, by=by)
        m.set(row, col, lane=4 * (r % 8) + c % 8 // 2, half=c % 2, register=matrix)

    # ---- wgmma ----

    def _by_group(self) -> Iterator[Product]:
        """The products of a warpgroup. The tensor cores fetch B, and A of S and dP, from shared memory."""
        asked = self.own[self.own.event == "product"].sort_values(["step", "seq"])
        of_step = {int(step): part for step, part in asked.groupby("step")}
        phase, tile_of = self.steps.table.phase.to_numpy(), self.steps.table.tile.to_numpy()
        item = self.tensors["Q"].itemsize
        keys = np.flatnonzero((self.matrices["S"].lane >= 0).any(axis=0))
        rows = int(keys[0]) // 64 * 64, int(keys[0]) // 64 * 64 + 64
        waiting: list[tuple[Kind, Site, np.ndarray]] = []  # products with a mark before the copy of the tile
        for step, now in self.moments():
            kind = self.kinds.get(gradients.MARKS.get(str(phase[step]), "")) if step in of_step else None
            self.tile = int(tile_of[step])
            for record in of_step[step].itertuples() if kind else ():
                site = self.sites[int(record.site)]
                if kind and self.places.get(site.tensor or "", "") == part_of(kind.b):
                    region = np.arange(int(record.bytes) // item) + int(record.offset) // item
                    waiting.append((kind, site, region))
            late = []
            for one in waiting:
                made = self._group_products(*one, rows, now)
                late += [one] if made is None else []
                yield from made or ()
            waiting = late

    def _group_products(
        self, kind: Kind, site: Site, region: np.ndarray, rows: tuple[int, int], now: dict[str, np.ndarray]
    ) -> list[Product] | None:
        """The products of a warpgroup's rows with a tile of B: a sum over the dims, over the queries of the tile, or,
        for dQ, over the keys of the block. None before the copy of the tile."""
        item, part = self.tensors["Q"].itemsize, part_of(kind.b)
        lies = now[part][region[region < len(now[part])]]
        known = lies[:, 0] >= 0
        if not known.any():
            return None
        self.matrices[kind.b].set(lies[known, 0], lies[known, 1], byte=region[: len(lies)][known] * item)
        if part_of(kind.a) in OPERANDS:
            of_a = now[part_of(kind.a)]
            at = np.flatnonzero(of_a[:, 0] >= 0)
            self.matrices[kind.a].set(of_a[at, 0], of_a[at, 1], byte=at * item)
        start, dim = (int(n) for n in lies[known].min(axis=0))
        tile, end = start // self.tile_rows, start + self.tile_rows
        over = range(start, end, K) if kind.grows else range(0, self.dims, K)
        cols = (0, self.dims) if kind.grows else (start, end)
        if kind.c == "dQ":
            tile, cols, over = self.tile, (dim, dim + PANEL), range(start, start + len(region) // PANEL, K)
            if not (tops := self._tops(kind, TALL_GROUP)):
                return []
            rows = tops[0], tops[0] + TALL_GROUP
        return [Product(kind.c, tile, rows, cols, (k, k + K), (site.place,)) for k in over]

    # ---- the matrices ----

    def _keys_down(self) -> bool:
        """Whether the rows of a product's scores are keys: four neighbouring lanes then have few keys."""
        p = self.own[self.own.event == "p"]
        p = p[p.step == p.step.min()]
        fours = p.thread // 4
        return len(set(zip(fours, p.col))) < len(set(zip(fours, p.row)))

    def _head(self) -> int:
        """The first query head of this block's keys, counted over the batch: that of the first fetch of Q."""
        symbol = next(s for s, part in self.places.items() if part == "Q")
        loads = self.records[(self.records.tensor == symbol) & (self.records.space == "global")]
        q = self.tensors["Q"]
        along = dict(zip(q.axes, axes.coordinates(q, loads.offset.to_numpy(np.int64)[:1])))
        return int(along["batch"][0]) * axes.length(q, "head") + int(along["head"][0])

    def _matrices(self) -> dict[str, Matrix]:
        """The matrices of all kinds: operands with their inputs, and squares and sums with their records."""
        found: dict[str, Matrix] = {}
        kind16 = element_type(self.tensors["Q"].dtype).numpy
        for kind in self.kinds.values():
            for name in (kind.a, kind.b):
                part = part_of(name)
                if part in OPERANDS:
                    found[name] = Matrix.of(0, 0, gradients.values(self.run, part, self.head))
                else:
                    values = np.nan_to_num(self._square(self.records, part)).astype(kind16).astype(np.float32)
                    found[name] = Matrix.of(0, 0, values)
                    if kind.grows or not self.by_group:  # a warpgroup reads all keys of dS from shared memory
                        self._own_square(found[name], part, as_a=True)
            if kind.c in gradients.SQUARES:
                found[kind.c] = Matrix.of(0, 0, self._square(self.own, kind.c))
                logged = kind.c if (self.own.event == EVENT_OF[kind.c]).any() else SOURCE[kind.c]
                self._own_square(found[kind.c], logged, as_a=False)
            else:
                found[kind.c] = self._sum_owners(kind)
        return found

    def _of_first_head(self, part: str, records: pd.DataFrame) -> pd.DataFrame:
        """The records of a part, the first of each element: later ones belong to the next query heads."""
        own = records[records.event == EVENT_OF[part]]
        return own.drop_duplicates(["row", "col"])

    def _square(self, records: pd.DataFrame, part: str) -> np.ndarray:
        """A square part [queries, keys], NaN without a record."""
        values, own = np.full((self.queries, self.keys), np.nan, np.float32), self._of_first_head(part, records)
        values[own.row.astype(int), own.col.astype(int)] = own.value
        return values

    def _own_square(self, m: Matrix, part: str, as_a: bool) -> None:
        """The owners of a square part. Rule: a lane has two rows of each sixteen and pairs of neighbours in each."""
        own = self._of_first_head(part, self.own)
        row, col = own.row.to_numpy(int), own.col.to_numpy(int)
        down, across = (col, row) if self._keys_down() else (row, col)
        lane, lower = own.thread.to_numpy() % self.size, down % TALL // 8
        if as_a:
            m.set(row, col, lane=lane, register=lower + 2 * (across % TALL // 8), half=across % 2)
        else:
            eights = across % self.tile_rows // 8 if self.by_group else np.zeros_like(across)
            m.set(row, col, lane=lane, register=4 * eights + 2 * lower + across % 2)

    def _sum_owners(self, kind: Kind) -> Matrix:
        """The owners of a sum with a row of queries or keys, and the numbers of dQ."""
        axis, rows = ("row", self.queries) if kind.axes[0] == "query" else ("col", self.keys)
        m = Matrix.of(0, 0, np.full((rows, self.dims), np.nan))
        if not self._logs(kind.c):
            return m
        own = self.own[self.own.event == EVENT_OF[kind.c]].drop_duplicates([axis, "dim"])
        row, dim = own[axis].to_numpy(int), own.dim.to_numpy(int)
        eights = dim % PANEL // 8 if self.by_group else np.zeros_like(dim)
        register = 4 * eights + 2 * (row % TALL // 8) + dim % 2
        m.set(row, dim, lane=own.thread.to_numpy() % self.size, register=register)
        m.value[row, dim] = own.value
        return m

    def _logs(self, part: str) -> bool:
        return bool((self.own.event == EVENT_OF[part]).any())

    def _sums(self, every: list[int], tiles: list[int]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The growing sums before and after each shown tile. A sum starts at zero. Without a record, `before` is added
        up here, and `after` is unknown."""
        before, after = {}, {}
        for kind in (k for k in self.kinds.values() if k.grows):
            m = self.matrices[kind.c]
            logged = np.full((max(every) + 1, *m.value.shape), np.nan, np.float32)
            if self._logs(kind.c):
                own = self.own[self.own.event == EVENT_OF[kind.c]].drop_duplicates(["tile", "col", "dim"])
                logged[own.tile.astype(int), own.col.astype(int), own.dim.astype(int)] = own.value
            factor = self.scale if kind.scaled else 1.0
            a, b = self.matrices[kind.a].value, self.matrices[kind.b].value
            starts, now = {}, np.zeros(m.value.shape, np.float32)
            for tile in every:
                starts[tile] = now
                rows = slice(tile * self.tile_rows, (tile + 1) * self.tile_rows)
                now = logged[tile] / np.float32(factor) if self._logs(kind.c) else now + a[rows].T @ b[rows]
            before[kind.c] = np.stack([starts[tile] for tile in tiles])
            after[kind.c] = logged[tiles]
        return before, after

    def _cut(self, shown: list[Product]) -> dict[str, tuple[slice, slice]]:
        """Cuts each matrix to the shown products. Returns the window of each C."""
        windows = {}
        for kind in self.kinds.values():
            mine = [p for p in shown if p.c == kind.c]
            for letter, spans in {"A": ("rows", "k"), "B": ("k", "cols"), "C": ("rows", "cols")}.items():
                ends = [[getattr(p, name) for p in mine] or [(0, 0)] for name in spans]
                down, across = ((min(e[0] for e in all_), max(e[1] for e in all_)) for all_ in ends)
                if letter in kind.turned:
                    down, across = across, down
                m, at = self.matrices[kind.name(letter)], (slice(*down), slice(*across))
                cut = {key: a[at] for key, a in m.attributes.items()}
                self.matrices[kind.name(letter)] = Matrix(down[0], across[0], m.value[at], cut)
                if letter == "C":
                    windows[kind.c] = at
        return windows
