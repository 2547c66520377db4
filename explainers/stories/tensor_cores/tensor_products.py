"""The products of a run on tensor cores: instructions, operands, fetches."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernels.core.request import Request
from kernels.trace.probes import sites_of

K = 16  # what an instruction adds up: dims of Q and K, or keys of P and V
LANES = 32  # threads of a warp
GROUP = 128  # threads of a warpgroup
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
    rows: tuple[int, int]
    cols: tuple[int, int]
    k: tuple[int, int]
    lines: tuple[str, ...]
    a: int = -1
    b: int = -1

    @property
    def part(self) -> tuple[str, int, tuple[int, int], tuple[int, int]]:
        """The part of C that it adds to, in its key tile."""
        return self.c, self.tile, self.rows, self.cols


@dataclass(frozen=True)
class Products:
    """products: in order. matrices: Q, K, V, P and S. o_after [tiles, rows, dims]: O as it stands after each key tile,
    and o_before as the tile's first product finds it; matrices["O"] says who holds it. instruction: its name. unit:
    which warp or warpgroup. units: how many there are. left_out: products that are not shown. queries,
    keys: of the head."""

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
    queries: int
    keys: int

    @property
    def last(self) -> dict[tuple, Product]:
        """part -> the last product that adds to it."""
        return {p.part: p for p in self.products}


def units(request: Request) -> tuple[str, int]:
    """What multiplies together, warp or warpgroup, and how many of a block do. By the rows of a query tile: 64 for a
    warpgroup; else the block's warps."""
    if any(site.event == "product" for site in sites_of(request)):
        return "warpgroup", max(1, (request.value_of("query_rows") or 64) // 64)
    return "warp", max(1, request.plan.launches[-1].threads // LANES)
