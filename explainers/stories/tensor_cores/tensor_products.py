"""The products of a run on tensor cores: instructions, operands, fetches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernels.core.request import Request
from kernels.trace.probes import sites_of

K = 16  # terms of an instruction: dims of Q and K, or keys of P and V
KEY_ITEM = "key tile"  # the item of a block that walks over query tiles
MOST = 320  # products in the picture. The next tile starts only below this number
NUMBERS = 2**18  # of C after each product in the picture, likewise
LANES = 32  # threads of a warp
GROUP = 128  # threads of a warpgroup


@dataclass(frozen=True)
class Kind:
    """One kind of product, C = A @ B or C += A @ B.

    c, a, b: the names of their matrices.
    axes: of the rows of C, of its columns, and of the sum: query, key or dim.
    turned: the letters among A, B and C whose matrix is stored with rows and columns exchanged.
    grows: whether C keeps its sum from tile to tile.
    scaled: whether the kernel logs C times the scale.
    """

    c: str
    a: str
    b: str
    axes: tuple[str, str, str]
    turned: str = ""
    grows: bool = False
    scaled: bool = False

    def name(self, letter: str) -> str:
        """The matrix of A, B or C."""
        return {"A": self.a, "B": self.b, "C": self.c}[letter]

    def label(self, letter: str) -> str:
        """The matrix in words. A transposed one has a T."""
        return part_of(self.name(letter)) + ("ᵀ" if letter in self.turned else "")


def part_of(name: str) -> str:
    """The part of a matrix. `Q of dK` is the part Q, as the operand of dK."""
    return name.split(" ")[0]


Part = tuple[str, int, tuple[int, int], tuple[int, int]]  # of C: its kind, tile, rows and columns
FORWARD = {
    "S": Kind("S", "Q", "K", ("query", "key", "dim"), "B", scaled=True),
    "O": Kind("O", "P", "V", ("query", "dim", "key"), grows=True),
}


@dataclass
class Matrix:
    """The shown part of a matrix. Each array has [rows, cols], with -1 for no entry.

    row0, col0: its first row (query or key) and column (dim or key).
    value: float32, NaN without a record.
    lane: the owner: a lane of the warp, or a thread of the warpgroup's 128.
    register: of the owner's part of A, B or C.
    half: 0 or 1 in the register, -1 for an element that fills it.
    byte: the offset in its tensor's shared memory.
    fetch, by: the ldmatrix of the element, and the lane with the address of its row.
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
        """Sets attributes of elements by query or key and dim, except for elements outside."""
        row, col = np.broadcast_arrays(np.asarray(row) - self.row0, np.asarray(col) - self.col0)
        inside = (row >= 0) & (row < self.value.shape[0]) & (col >= 0) & (col < self.value.shape[1])
        for name, values in known.items():
            self.attributes[name][row[inside], col[inside]] = np.broadcast_to(values, row.shape)[inside]


ATTRIBUTES = ("lane", "register", "half", "byte", "fetch", "by")


@dataclass(frozen=True)
class Fetch:
    """An ldmatrix of the warp: its tensor, source line and wavefronts, and the smallest possible number of
    wavefronts."""

    tensor: str
    place: str
    wavefronts: int
    ideal: int
    transposed: bool


@dataclass(frozen=True)
class Product:
    """One product.

    c: the name of its kind, such as S or O.
    rows, cols, k: [first, end) of C, and of the summed dims or keys.
    a, b: the fetches of the operands, or -1.
    lines: of the source.
    """

    c: str
    tile: int
    rows: tuple[int, int]
    cols: tuple[int, int]
    k: tuple[int, int]
    lines: tuple[str, ...]
    a: int = -1
    b: int = -1

    @property
    def part(self) -> Part:
        """Its part of C, in its key tile."""
        return self.c, self.tile, self.rows, self.cols


@dataclass(frozen=True)
class Products:
    """The products of a warp or warpgroup.

    products: in order.
    kinds: C -> its kind.
    matrices: A, B and C of each kind. A growing C only has owners.
    before, after: a growing C -> [tiles, rows, cols], its numbers before the first product of each tile, and after it.
    walks: key or query, the axis of the tiles.
    tiles: those of the picture, in the order of the loop.
    instruction: its name.
    unit: the number of the warp or warpgroup.
    left_out: the number of products outside the picture.
    queries, keys: of the head.
    head: the first query head, counted over the batch.
    """

    products: list[Product]
    fetches: list[Fetch]
    kinds: dict[str, Kind]
    matrices: dict[str, Matrix]
    before: dict[str, np.ndarray]
    after: dict[str, np.ndarray]
    walks: str
    tiles: list[int]
    scale: float
    sum_bits: int
    instruction: str
    unit: int
    left_out: int
    queries: int
    keys: int
    head: int

    @property
    def first_tile(self) -> int:
        """The tile of the first product."""
        return self.tiles[0]

    @property
    def last(self) -> dict[Part, Product]:
        """part -> its last product."""
        return {p.part: p for p in self.products}


def of_whole_tiles(products: Sequence[Product], tiles: Iterable[int]) -> list[Product]:
    """The products of the first tile, and of the next tiles as long as the picture takes them."""
    shown: list[Product] = []
    numbers = 0
    for tile in tiles:
        of_tile = [p for p in products if p.tile == tile]
        more = sum((p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) for p in of_tile)
        if shown and (len(shown) + len(of_tile) > MOST or numbers + more > NUMBERS):
            break
        shown += of_tile
        numbers += more
    return shown


def walks_queries(request: Request) -> bool:
    """Whether a block keeps keys and walks over query tiles."""
    return any(launch.item == KEY_ITEM for launch in request.plan.launches)


def units(request: Request) -> tuple[str, int]:
    """The unit of a product, warp or warpgroup, and its number in a block. A warpgroup has 64 rows of the block's tile.
    Otherwise all warps of the block are units."""
    if any(site.event == "product" for site in sites_of(request)):
        rows = request.value_of("key_rows") if walks_queries(request) else request.value_of("query_rows")
        return "warpgroup", max(1, (rows or 64) // 64)
    return "warp", max(1, request.plan.launches[-1].threads // LANES)
