"""The products of a run on tensor cores, with the owner and the origin of every element of A, B and C.

All places follow from the run's own addresses. A store into shared memory has the element of its thread's last load,
and a box by TMA the elements of the requested box. So each address of an ldmatrix is an element of Q, K or V. Lane 8
i + r addresses row r of matrix i. ldmatrix hands this row to lanes 4 r to 4 r + 3, two neighbours each, as word i. A
transposed ldmatrix hands each four lanes a column. Elements of C and of A = P belong to the lane of their record.

The trace has no record of a product. A meets B if both have the same dims (or keys), in the order of their fetches. C
    between the first and the last product of a tile is computed here: sixteen products plus C, rounded once to the
    type of the sum. C before the first product and after the last comes from the trace.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from explainers.stories.tensor_cores.fragment_reader import FragmentReader
from explainers.stories.tensor_cores.gradient_reader import GradientReader
from explainers.stories.tensor_cores.tensor_products import Kind, Matrix, Part, Product, Products, walks_queries
from explainers.story import axes, picture
from kernels.core.request import Request
from kernels.run.results import Run


@dataclass(frozen=True)
class Sums:
    """C of every product, derived. Each has [rows, columns] of float32, one after the other.

    places: [products, 3], the place of C before it (-1: zeros), of C after it, and of its last numbers (-1: not the
        last product of its part of C).
    c: rounded to the type of the sum. After the products' C come those before the first product of a tile.
    added: by the product. It has the places of C after it.
    due, logged: of the last product: C times the scale if the kernel logs it so, and the kernel's own number (NaN:
        not logged).
    error: logged less the same sum in float64, from the tile's first product on.
    """

    places: np.ndarray
    c: np.ndarray
    added: np.ndarray
    due: np.ndarray
    logged: np.ndarray
    error: np.ndarray


def read(run: Run, unit: int = 0, key_tile: int = 0) -> Products:
    """The Products of one warp or warpgroup of the traced block, from a key tile on. ProblemError if the block has no
    such warp or tile."""
    reader = GradientReader if walks_queries(run.request) else FragmentReader
    return reader(run).read(unit, key_tile)


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


def sums(made: Products) -> Sums:
    """C before and after every product, in the order of the frames."""
    number = np.float16 if made.sum_bits == 16 else np.float32
    last = {part: id(product) for part, product in made.last.items()}
    now: dict[Part, tuple[int, np.ndarray, np.ndarray]] = {}  # part -> place of its C, C, C without rounding
    afters, added, befores, ends = [], [], [], []
    places = np.full((len(made.products), 3), -1, np.int64)
    size = sum((p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) for p in made.products)
    after_at = end_at = 0
    for n, p in enumerate(made.products):
        kind, tile = made.kinds[p.c], made.tiles.index(p.tile)
        c = made.matrices[p.c]
        if p.part not in now and kind.grows:
            before = _window(c, made.before[p.c][tile], p, kind, "C")
            now[p.part] = size, before, before
            befores.append(before)
            size += before.size
        zeros = np.zeros((p.rows[1] - p.rows[0], p.cols[1] - p.cols[0]))
        at, before, exact = now.get(p.part, (-1, zeros, zeros))
        with np.errstate(over="ignore", invalid="ignore"):
            terms = _taken(made, p, kind, "A") @ _taken(made, p, kind, "B")
            after = (before.astype(number).astype(np.float64) + terms).astype(number).astype(np.float64)
            exact = exact + terms
        now[p.part] = after_at, after, exact
        afters.append(after)
        added.append(terms)
        places[n, :2] = at, after_at
        after_at += after.size
        if last[p.part] != id(p):
            continue
        places[n, 2], end_at = end_at, end_at + after.size
        factor = made.scale if kind.scaled else 1.0
        logged = _window(c, made.after[p.c][tile] if kind.grows else c.value, p, kind, "C", np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            due = (np.float32(factor) * after.astype(np.float32)).astype(np.float64)
            ends.append((due, logged, logged - factor * exact))
    flat = [_flat(arrays) for arrays in (afters + befores, added, *(zip(*ends) if ends else ((), (), ())))]
    return Sums(places, *flat)


def _flat(arrays: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)]).astype(np.float32)


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


def disagreeing(made: Products, made_sums: Sums) -> tuple[int, int]:
    """(wrong, all): the first elements of all parts of C, and the number with a logged value other than the sum
    of A times B, beyond rounding (1 % of the largest number of C). A build can read too early or at a wrong address.
    Its real operands then differ from the elements here."""
    wrong = compared = 0
    for p, (_, _, end) in zip(made.products, made_sums.places):
        if end < 0:
            continue
        kind, c = made.kinds[p.c], made.matrices[p.c]
        values = made.after[p.c][made.tiles.index(p.tile)] if kind.grows else c.value
        if _window(c, c.lane, p, kind, "C", -1)[0, 0] < 0:
            continue  # hidden, or beyond an edge
        if made.walks == "query" and not np.isfinite(values).any():
            continue  # not logged
        due, found = float(made_sums.due[end]), float(made_sums.logged[end])
        compared += 1
        span = np.max(np.abs(values), where=np.isfinite(values), initial=0)
        wrong += not (abs(due - found) <= 0.01 * span or due == found or np.isnan(due) == np.isnan(found) == 1)
    return int(wrong), compared
