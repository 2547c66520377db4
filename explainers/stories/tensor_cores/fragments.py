"""The products of a run on tensor cores, with the owner and the origin of every element of A, B and C.

All places follow from the run's own addresses. A store into shared memory has the element of its thread's last load,
and a box by TMA the elements of the requested box. So each address of an ldmatrix is an element of Q, K or V. Lane 8
i + r addresses row r of matrix i. ldmatrix hands this row to lanes 4 r to 4 r + 3, two neighbours each, as word i. A
transposed ldmatrix hands each four lanes a column. Elements of C and of A = P belong to the lane of their record.

The trace has no record of a product. A meets B if both have the same dims (or keys), in the order of their fetches. C
    between the first and the last product of a tile is computed here: sixteen products plus C, rounded once to the
    type of the sum. C before the first product and after the last comes from the trace.
"""

import numpy as np

from explainers.stories.tensor_cores.fragment_reader import FragmentReader
from explainers.stories.tensor_cores.gradient_reader import GradientReader
from explainers.stories.tensor_cores.tensor_products import Kind, Product, Products, walks_queries
from explainers.story import axes, picture
from kernels.core.request import Request
from kernels.run.results import Run


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


def element(made: Products, product: Product, row: int, col: int) -> tuple[float, list[float]]:
    """One element of C: before the tile's first product, and after each product of its group up to this one."""
    group = [p for p in made.products if p.part == product.part and p.k <= product.k]
    before = 0.0
    if made.kinds[product.c].grows:
        known = made.before[product.c][made.tiles.index(product.tile)]
        c = made.matrices[product.c]
        at = row - c.row0, col - c.col0
        before = float(known[at]) if at[0] < known.shape[0] and at[1] < known.shape[1] else 0.0  # beyond an edge
    kind, now, after = np.float16 if made.sum_bits == 16 else np.float32, before, []
    for p in group:
        products = [x * y for _, x, y in factors(made, p, row, col)]
        with np.errstate(over="ignore", invalid="ignore"):
            now = float(kind(float(kind(now)) + float(np.sum(products))))
        after.append(now)
    return before, after


def disagreeing(made: Products) -> tuple[int, int]:
    """(wrong, all): the first elements of all parts of C, and the number with a logged value other than the sum
    of A times B, beyond rounding (1 % of the largest number of C). A build can read too early or at a wrong address.
    Its real operands then differ from the elements here."""
    wrong = compared = 0
    for p in made.last.values():
        kind, row, col = made.kinds[p.c], p.rows[0], p.cols[0]
        due = element(made, p, row, col)[1][-1] * (made.scale if kind.scaled else 1)
        c = made.matrices[p.c]
        values = made.after[p.c][made.tiles.index(p.tile)] if kind.grows else c.value
        at = (col - c.row0, row - c.col0) if "C" in kind.turned else (row - c.row0, col - c.col0)
        if at[0] >= len(c.lane) or at[1] >= c.lane.shape[1] or c.lane[at] < 0:
            continue  # hidden, or beyond an edge
        if made.walks == "query" and not np.isfinite(values).any():
            continue  # not logged
        found = float(values[at])
        compared += 1
        span = np.max(np.abs(values), where=np.isfinite(values), initial=0)
        wrong += not (abs(due - found) <= 0.01 * span or due == found or np.isnan(due) == np.isnan(found) == 1)
    return int(wrong), compared


def factors(made: Products, product: Product, row: int, col: int) -> list[tuple[int, float, float]]:
    """The factors of one element of C: (dim, key or query, of A, of B). 0 beyond an edge, and for the weight of a
    hidden key."""
    kind = made.kinds[product.c]
    return [(n, _at(made, kind, "A", row, n), _at(made, kind, "B", n, col)) for n in range(*product.k)]


def _at(made: Products, kind: Kind, letter: str, row: int, col: int) -> float:
    m = made.matrices[kind.name(letter)]
    if letter in kind.turned:
        row, col = col, row
    row, col = row - m.row0, col - m.col0
    if not (0 <= row < m.value.shape[0] and 0 <= col < m.value.shape[1]):
        return 0.0
    value = float(m.value[row, col])
    return 0.0 if np.isnan(value) and not (m.attributes["lane"][row, col] >= 0) else value
