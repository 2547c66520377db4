"""The picture of attention: the parts Q, K, V, S, P and O of a request, and the query tile of a scope.

A problem declares the part of each tensor (`Problem.picture`). Every story with a query tile reads it here.
"""

from functools import lru_cache

import numpy as np

from explainers.story import axes
from explainers.story.glossary import listed
from kernels.core.request import Request
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.probes import sites_of

ITEM = "query tile"  # the scope counts query tiles in a kernel with this item
WHOLE = "QKVO"  # the parts of every picture of attention


def without_parts(request: Request) -> str:
    """The reason against the picture of attention's forward in a sentence: a missing part of Q, K, V and O, or an O
    that the kernel only reads. Else an empty text."""
    found = {places(request).get(symbol): tensor for symbol, tensor in axes.tensors(request).items()}
    lacking = [part for part in WHOLE if part not in found]
    if not lacking and found["O"].role is Role.INPUT:
        return f"{request.kernel.name} reads O and does not write it. This picture shows how O is made."
    if not lacking:
        return ""
    declared = f"{request.kernel.problem_type.__name__}.picture"
    return (
        f"{request.kernel.name} has no tensor for {listed(lacking)}. Declare the tensor's part in {declared}, "
        "and pass the tensor to the kernel."
    )


def places(request: Request) -> dict[str, str]:
    """The probes' name of a tensor -> its part in the picture: Q, K, V, S, P or O. A tensor outside the picture has no
    entry.

    Rule: the problem's `picture` declares the part of each tensor by name. The name of a tensor of shared memory is
        its probe name in small letters. It has its part only if the kernel logs a value of that name for each row and
        col. The first tensor with a part keeps the part.
    """
    return dict(_places(request))


@lru_cache(maxsize=128)
def _places(request: Request) -> dict[str, str]:
    declared, sites = request.problem.picture, sites_of(request)
    of_name = {symbol: tensor.name for symbol, tensor in axes.tensors(request).items()}
    logged = {site.event for site in sites if site.kind == "value" and site.keys == ("row", "col")}
    shared = sorted({site.tensor or "" for site in sites if site.space == "shared"} - set(of_name))
    of_name |= {symbol: symbol.lower() for symbol in shared if symbol.lower() in logged}
    found: dict[str, str] = {}
    for symbol, name in of_name.items():
        if name in declared and declared[name] not in found.values():
            found[symbol] = declared[name]
    return found


def other_input(request: Request) -> str:
    """A floating-point input outside the picture, such as the angles that turn Q and K, or an empty text."""
    parts = places(request)
    given = {name: t for name, t in axes.tensors(request).items() if t.role is Role.INPUT and "float" in t.dtype}
    return next((name for name in given if name not in parts), "")


def plane(tensor: Tensor) -> tuple[str, ...]:
    """The axes of the rows and columns of the tensor's matrices, whatever their order in memory."""
    return tuple(axis for axis in ("query", "key", "dim") if axis in tensor.axes)


def tensor_at(request: Request, place: str) -> Tensor:
    """The tensor of global memory at a place of the picture. KeyError if there is none."""
    symbol = {at: symbol for symbol, at in places(request).items()}[place]
    return axes.tensors(request)[symbol]


def tiles_of(request: Request) -> tuple[int, int, int]:
    """Rows of a query tile, tiles of a head, rows of a head.

    Rule: tiles are numbered row tile by row tile, head by head. A tile has the rows of the kernel's constant for query
    rows. Without that constant, tiles share the rows equally. ProblemError if a block takes several tiles by a counter,
    because its tiles are not known before the run.
    """
    o = tensor_at(request, "O")
    n, heads, items = axes.length(o, "query"), axes.heads(o), request.plan.items
    rows = request.value_of("query_rows") or -(-n // max(1, items // heads))
    tiles = -(-n // rows)
    if tiles * heads > items:
        raise ProblemError(
            f"This problem has {tiles * heads:,} query tiles for {items} blocks of {request.kernel.name}. A block then "
            f"takes several tiles by a counter. Choose a smaller seq_len, batch or num_heads: at most {items} tiles of "
            f"{rows} rows, one for each block."
        )
    return rows, tiles, n


def query_rows(request: Request) -> tuple[int, int, int]:
    """The head (counted over the whole batch), first row and end row of the scope's first query tile.

    ProblemError for a build whose groups of warps share a row's keys: a story follows one m, l and O of a row.
    """
    constant = request.kernel.constant_of("key_groups")
    groups = request.value_of("key_groups") or 1
    if constant and groups > 1:
        raise ProblemError(
            f"With {constant.name}={groups}, {groups} groups of warps walk a row's keys at once, each with its own m, "
            f"l and O. This page follows one group. Choose {constant.name}=1. How fast, Occupancy and Source show any."
        )
    rows, tiles, n = tiles_of(request)
    head, tile = divmod(request.scope.first, tiles)
    return head, tile * rows, min(n, (tile + 1) * rows)


def matrix(run: Run, place: str, head: int) -> np.ndarray:
    """Q, K, V or O of a query head (counted over the batch), [rows, dim]. Query heads of a group share K and V."""
    tensor = tensor_at(run.request, place)
    found = axes.matrix(tensor, run.arrays[tensor.name], head, axes.heads(tensor_at(run.request, "O")))
    return found if found.dtype == np.float32 else found.astype(np.float32)


def by_tiles(request: Request) -> bool:
    """Whether the request's items are query tiles. A page traces all items of any other kernel, and finds the rows by
    the heads of the logged values."""
    return request.plan.item == ITEM


def block_kv(request: Request, keys: int) -> int:
    """The keys of a tile: all `keys` if the kernel has no constant for them."""
    return request.value_of("key_rows") or keys


def mask_offset(request: Request) -> int:
    """With a causal mask query i sees the keys up to i + this."""
    return int(request.problem.sizes.get("offset", 0))


def in_order(request: Request) -> list[str]:
    """The tensors of global memory with their names in the probes: inputs first, then the kernel's own, then
    outputs."""
    order = (Role.INPUT, Role.SCRATCH, Role.OUTPUT)
    return sorted((found := axes.tensors(request)), key=lambda symbol: order.index(found[symbol].role))
