"""The products of a run on tensor cores, with the owner and the origin of every element of A, B and C.

All places follow from the run's own addresses. A store into shared memory has the element of its thread's last load,
and a box by TMA the elements of the requested box. So each address of an ldmatrix is an element of Q, K or V. Lane 8
i + r addresses row r of matrix i. ldmatrix hands this row to lanes 4 r to 4 r + 3, two neighbours each, as word i. A
transposed ldmatrix hands each four lanes a column. Elements of C and of A = P belong to the lane of their record.

The trace has no record of a product. A meets B if both have the same dims (or keys), in the order of their fetches. C
    between the first and the last product of a tile is computed here: sixteen products plus C, rounded once to the
    type of the sum. C before the first product and after the last comes from the trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explainers.stories.tensor_cores.fragment_reader import FragmentReader
from explainers.stories.tensor_cores.gradient_reader import GradientReader
from explainers.stories.tensor_cores.tensor_products import (
    FORWARD,
    Kind,
    Matrix,
    Part,
    Product,
    Products,
    part_of,
    walks_queries,
)
from explainers.story import axes, picture
from explainers.story.frames import Frame
from explainers.story.words import Words
from kernels.core.request import Request
from kernels.run.results import Run

WORDS = Words.of(str(__package__))


class Sums(NamedTuple):
    """C of the shown products, derived. Each has [rows, columns] of float32, one after the other.

    places: [products, 3], the place of C before it (-1: zeros), of C after it, and of its last numbers (-1: not the
        last product of its part of C).
    c: rounded to the type of the sum.
    logged: the kernel's own number (NaN: not logged), after the last product. due: C after it, times the scale if the
        kernel logs it so, NaN where both are equal.
    error: logged less the same sum in float64, from the tile's first product on.
    """

    places: np.ndarray
    c: np.ndarray
    due: np.ndarray
    logged: np.ndarray
    error: np.ndarray


@dataclass(frozen=True)
class Story(Products):
    """The Products, the numbers of the shown ones, their sums, and a frame for each.

    compared: the first elements of all parts of C with a logged value. wrong: those with another value than the sum of
        A times B, beyond rounding (1 % of the largest number of C). A build can read too early or at a wrong address.
        Its real operands then differ from the elements here.
    """

    steps: list[int]
    sums: Sums
    compared: int
    wrong: int
    frames: list[Frame]

    @property
    def shown(self) -> list[Product]:
        return [self.products[n] for n in self.steps]


def explain(run: Run, unit: int = 0, key_tile: int = 0) -> Story:
    """The Story of one warp or warpgroup of the traced block, from a key tile on. ProblemError if the block has no such
    warp or tile."""
    reader = GradientReader if walks_queries(run.request) else FragmentReader
    made = reader(run).read(unit, key_tile)
    steps = steps_of(made)
    sums, wrong, compared = added_up(made, steps)
    rows = list(_rows(made, steps))
    names = {"walks": made.walks, "instruction": made.instruction, "kinds": len(made.kinds)}
    return Story(**vars(made), steps=steps, sums=sums, wrong=wrong, compared=compared, frames=WORDS.frames(rows, names))


def key_tiles(request: Request) -> int:
    """How many key tiles the traced query tile meets. Rule: tiles of BLOCK_KV keys, as far as its last row sees. For a
    block of keys: the query tiles of a head."""
    if walks_queries(request):
        queries = axes.length(picture.tensor_at(request, "Q"), "query")
        return -(-queries // (request.value_of("query_rows") or queries))
    keys = axes.length(picture.tensor_at(request, "K"), "key")
    _, _, end = picture.query_rows(request)
    if request.problem.causal:
        keys = max(1, min(keys, end + picture.mask_offset(request)))
    return -(-keys // picture.block_kv(request, keys))


def steps_of(made: Products) -> list[int]:
    """The numbers of the shown products: of each kind the first ones of the first tile and the last one there, then the
    last one of the second tile and of all. All others do the same on other numbers."""
    first = 3 if len(made.kinds) < 3 else 2
    found = set[int]()
    for c in made.kinds:
        own = [n for n, p in enumerate(made.products) if p.c == c and p.tile == made.first_tile]
        found |= {*own[:first], *own[-1:]}
    last = {p.tile: n for n, p in enumerate(made.products)}
    return sorted(found | {last[tile] for tile in (*made.tiles[1:2], *made.tiles[-1:]) if tile in last})


def added_up(made: Products, steps: list[int]) -> tuple[Sums, int, int]:
    """The sums of the shown products, and of all: wrong, compared (Story)."""
    number = np.float16 if made.sum_bits == 16 else np.float32
    last = {id(product) for product in made.last.values()}
    now: dict[Part, tuple[np.ndarray, np.ndarray]] = {}  # part -> C, C without rounding
    kept: dict[int, int] = {}  # id of a sent C -> its place
    c, ends, places = list[np.ndarray](), list[tuple[np.ndarray, ...]](), []
    wrong = compared = 0

    def place(array: np.ndarray) -> int:
        if id(array) not in kept:
            kept[id(array)] = sum(one.size for one in c)
            c.append(array)
        return kept[id(array)]

    for n, p in enumerate(made.products):
        kind, tile, matrix = made.kinds[p.c], made.tiles.index(p.tile), made.matrices[p.c]
        if p.part in now:
            before, exact = now[p.part]
        else:
            zeros = np.zeros((p.rows[1] - p.rows[0], p.cols[1] - p.cols[0]))
            before = exact = _window(matrix, made.before[p.c][tile], p, kind, "C") if kind.grows else zeros
        starts = p.part not in now and not kind.grows
        with np.errstate(over="ignore", invalid="ignore"):
            terms = _taken(made, p, kind, "A") @ _taken(made, p, kind, "B")
            after = (before.astype(number).astype(np.float64) + terms).astype(number).astype(np.float64)
            exact = exact + terms
        now[p.part] = after, exact
        end = -1
        if id(p) in last:
            factor = made.scale if kind.scaled else 1.0
            values = made.after[p.c][tile] if kind.grows else matrix.value
            logged = _window(matrix, values, p, kind, "C", np.nan)
            with np.errstate(over="ignore", invalid="ignore"):
                due = (np.float32(factor) * after.astype(np.float32)).astype(np.float64)
                error = logged - factor * exact
            seen = _window(matrix, matrix.lane, p, kind, "C", -1)[0, 0] >= 0  # not hidden, and within the edges
            if seen and (made.walks == "key" or np.isfinite(values).any()):
                compared += 1
                span = np.max(np.abs(values), where=np.isfinite(values), initial=0)
                a, b = float(np.float32(due[0, 0])), float(np.float32(logged[0, 0]))
                wrong += not (abs(a - b) <= 0.01 * span or a == b or np.isnan(a) == np.isnan(b) == 1)
            if n in steps:
                end = sum(one[0].size for one in ends)
                ends.append((np.where(due == logged, np.nan, due), logged, error))
        if n in steps:
            places.append((-1 if starts else place(before), place(after), end))
    flat = [
        np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)]).astype(np.float32)
        for arrays in (c, *(zip(*ends) if ends else ((),) * 3))
    ]
    return Sums(np.array(places, np.int64).reshape(-1, 3), *flat), int(wrong), compared


def _window(m: Matrix, values: np.ndarray, p: Product, kind: Kind, letter: str, beyond: float = 0) -> np.ndarray:
    """The part of a matrix in a product, [rows, columns] as the product has it. beyond: what lies past an edge."""
    spans = {"A": (p.rows, p.k), "B": (p.k, p.cols), "C": (p.rows, p.cols)}[letter]
    down, across = spans[::-1] if letter in kind.turned else spans
    rows, cols = np.arange(*down) - m.row0, np.arange(*across) - m.col0
    here = (rows >= 0) & (rows < values.shape[0]), (cols >= 0) & (cols < values.shape[1])
    found = np.full((len(rows), len(cols)), beyond, np.float64)
    found[np.ix_(*here)] = values[np.ix_(rows[here[0]], cols[here[1]])]
    return found.T if letter in kind.turned else found


def taken(m: Matrix) -> np.ndarray:
    """The numbers of an operand as the instruction takes them: 0 for the weight of a hidden key."""
    return np.where(np.isnan(m.value) & (m.lane < 0), 0, m.value)


def _taken(made: Products, product: Product, kind: Kind, letter: str) -> np.ndarray:
    m = made.matrices[kind.name(letter)]
    return _window(m, taken(m), product, kind, letter)


def _rows(story: Products, steps: list[int]) -> Iterator[dict[str, object]]:
    """A row for the words of each shown product. passed: the products since the step before."""
    numbers: dict[int, int] = {}
    since: list[Product] = []
    totals = {tile: sum(p.tile == tile for p in story.products) for tile in {p.tile for p in story.products}}
    for n, product in enumerate(story.products):
        number = numbers[product.tile] = numbers.get(product.tile, 0) + 1
        since.append(product)
        if n not in steps:
            continue
        kind = story.kinds[product.c]
        a, b = part_of(kind.a), part_of(kind.b)
        in_lanes = a in ("P", "dS") and bool((story.matrices[kind.a].lane >= 0).any())
        yield {
            "tile": product.tile,
            "phase": product.c,
            "lines": {line: 1 for one in since for line in one.lines},
            "passed": len(since) - 1,
            "cols": list(product.cols),
            "k": list(product.k),
            "number": number,
            "total": totals[product.tile],
            "nth": [*story.kinds].index(product.c) + 1,
            "along": axis_words(kind.axes[2]),
            "across": axis_words(kind.axes[1]),
            "noun": {"S": "score", "O": "output"}.get(product.c),
            "size": (product.rows[1] - product.rows[0]) * (product.cols[1] - product.cols[0]),
            "a": a,
            "b": b,
            "c": kind.label("C"),
            "past_end": _past_end(story, product),
            "fetched": [name for name, n in ((a, product.a), (b, product.b)) if n >= 0],
            "stays": product.a < 0 and in_lanes and product.c not in FORWARD,
            "in_lanes": in_lanes,
            "ends": number == totals[product.tile] and kind.axes[2] != "dim",
        }
        since = []


def axis_words(axis: str) -> str:
    """The numbers of an axis in the plural."""
    return {"query": "queries", "key": "keys", "dim": "dims"}[axis]


def _past_end(story: Products, product: Product) -> list[dict[str, object]]:
    """The queries and keys past the end. Tiles are whole, with zeros there."""
    found, ends = [], {"query": story.queries, "key": story.keys}
    for axis, (first, end) in zip(story.kinds[product.c].axes, (product.rows, product.cols, product.k)):
        last = ends.get(axis, end)
        if end > last:
            name = "Rows" if axis == "query" and product.c in FORWARD else axis_words(axis).capitalize()
            found.append({"name": name, "first": max(first, last), "last": end - 1})
    return found
