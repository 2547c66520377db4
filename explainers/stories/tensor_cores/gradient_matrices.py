"""The matrices of the backward's products: inputs, logged squares and sums, and the lanes that own their numbers."""

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.tensor_cores.tensor_products import GROUP, LANES, Kind, Matrix, Product, part_of
from explainers.story import axes, picture
from kernels.core.dtypes import element_type
from kernels.run.results import Run
from kernels.trace import steps as cutting

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


class GradientMatrices:
    """The records of a run, and the matrices of one warp or warpgroup."""

    kinds: dict[str, Kind]
    matrices: dict[str, Matrix]
    own: pd.DataFrame
    head: int

    def __init__(self, run: Run) -> None:
        self.run, self.request, self.sites = run, run.request, run.sites
        self.steps = cutting.cut(run.trace, self.sites)
        table = run.trace.table
        frame = table.to_pandas(split_blocks=True).assign(step=self.steps.of_record, site=self.sites.index(table))
        self.by_group = any(site.event == "product" for site in self.sites)
        self.event = "product" if self.by_group else "ldmatrix"
        self.size = GROUP if self.by_group else LANES
        first = frame[(frame.event == self.event) & (frame.step >= 0)].iloc[0]
        self.records = frame[(frame.step >= 0) & (frame.launch == first.launch) & (frame.block == first.block)]
        self.of_symbol = picture.places(self.request)
        self.tensors = gradients.tensors(self.request)
        self.queries, self.keys, self.dims = gradients.sizes(self.request)
        self.tile_rows = self.request.value_of("query_rows") or self.queries
        self.texts = {name: text.splitlines() for name, text in self.request.kernel.files}
        self.scale = float(self.request.problem.scale)

    def _keys_down(self) -> bool:
        """Whether the rows of a product's scores are keys: four neighbouring lanes then have few keys."""
        p = self.own[self.own.event == "p"]
        p = p[p.step == p.step.min()]
        fours = p.thread // 4
        return len(set(zip(fours, p.col))) < len(set(zip(fours, p.row)))

    def _head(self) -> int:
        """The first query head of this block's keys, counted over the batch: that of the first fetch of Q."""
        symbol = next(s for s, part in self.of_symbol.items() if part == "Q")
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
