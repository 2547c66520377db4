"""The parts of the backward's picture: their events, their keys in a trace, and the five products."""

from typing import NamedTuple

import numpy as np

from explainers.story import axes, picture
from kernels.core.dtypes import element_type
from kernels.core.launch import Launch
from kernels.core.request import Request
from kernels.core.tensors import SUMS, Role, Tensor
from kernels.run import races
from kernels.run.results import Run

# event -> part, in the order of the formula. dq_part: the addend of a block to dQ.
EVENTS = {"delta": "delta", "score": "S", "p": "P", "dp": "dP", "dv": "dV", "ds": "dS", "dk": "dK"}
EVENTS |= {"dq": "dQ", "dq_part": "dQ"}
# mark -> part, for a part that a kernel makes and does not log
MARKS = {"scores": "S", "weights": "P", "weight_gradients": "dP", "score_gradients": "dS"}
MARKS |= {"value_sums": "dV", "key_sums": "dK", "query_sums": "dQ"}
SQUARES, GRADIENTS = ("S", "P", "dP", "dS"), ("dV", "dK", "dQ")
ORDER = ("delta", "S", "P", "dP", "dV", "dS", "dK", "dQ")  # of a step's frames: each after the parts it reads
NEEDED: dict[str, tuple[str, ...]] = {"p": ("row", "col"), "ds": ("row", "col")}
KEY_ITEM = "key tile"  # a kernel's item of keys, as picture.ITEM is its item of queries
WHOLE = ("Q", "K", "V", "O", "dO", "dQ", "dK", "dV")
PER_QUERY = ("batch", "head", "query")  # the axes of LSE and delta


class Product(NamedTuple):
    """One of the five products of a tile.

    made, reads: parts.
    """

    made: str
    reads: tuple[str, str]
    said: str  # its formula


PRODUCTS = (
    Product("S", ("Q", "K"), "S = scale · Q Kᵀ"),
    Product("dP", ("dO", "V"), "dP = dO Vᵀ"),
    Product("dV", ("P", "dO"), "dV += Pᵀ dO"),
    Product("dK", ("dS", "Q"), "dK += dSᵀ Q"),
    Product("dQ", ("dS", "K"), "dQ += dS K"),
)


def along_keys(part: str) -> bool:
    """Whether the rows of a part are keys."""
    return part in ("K", "V", "dK", "dV")


def tensors(request: Request) -> dict[str, Tensor]:
    """Part -> its tensor of global memory. LSE is the input with one number per query."""
    known, places = axes.tensors(request), picture.places(request)
    found = {place: known[symbol] for symbol, place in places.items() if symbol in known}
    for tensor in known.values():
        if tensor.axes == PER_QUERY and tensor.role is Role.INPUT:
            found.setdefault("LSE", tensor)
    return found


def symbols(request: Request) -> dict[str, str]:
    """The probes' name of each tensor -> its part. Sums that start at zero count as dQ."""
    own = tensors(request)
    of_tensor = {tensor.name: part for part, tensor in own.items()}
    known = axes.tensors(request)
    for tensor in known.values():
        if tensor.initial in SUMS and element_type(tensor.dtype).is_float:
            of_tensor.setdefault(tensor.name, "dQ")
    return {symbol: of_tensor[t.name] for symbol, t in known.items() if t.name in of_tensor}


def lacking(request: Request) -> list[str]:
    """The parts that the request has no tensor for."""
    found = tensors(request)
    return [part for part in WHOLE if part not in found]


def adds(request: Request) -> bool:
    """Whether blocks add their parts of a gradient in global memory."""
    return races.sums_of_blocks(request)


def any_order(request: Request) -> bool:
    """Whether they add in any order, so the last bits of the gradient may differ from run to run."""
    return races.sums_in_any_order(request)


def group_of(request: Request) -> int:
    """The query heads that share a head of K and V."""
    of = tensors(request)
    return axes.heads(of["Q"]) // axes.heads(of["K"])


def values(run: Run, part: str, head: int) -> np.ndarray:
    """A tensor of global memory for a query head (counted over the batch), float32: [rows, dim], or [rows] for a tensor
    with one number per query."""
    tensor = tensors(run.request)[part]
    array = run.arrays[tensor.name]
    if tensor.axes == PER_QUERY:
        return array.reshape(-1, array.shape[-1])[head].astype(np.float32)
    found = axes.matrix(tensor, array, head, axes.heads(tensors(run.request)["Q"]))
    return found.astype(np.float32)


def sizes(request: Request) -> tuple[int, int, int]:
    """Queries, keys, and numbers of a query."""
    of = tensors(request)
    return axes.length(of["Q"], "query"), axes.length(of["K"], "key"), axes.length(of["Q"], "dim")


def is_of_keys(item: str) -> bool:
    """Whether the items of a kind are keys, not queries."""
    return item.startswith("key")


def heads_of(request: Request, item: str) -> int:
    """The heads over which the items of a kind are spread, counted over the batch."""
    return axes.heads(tensors(request)["K" if is_of_keys(item) else "Q"])


def tiles_of(request: Request, item: str) -> int:
    """The tiles of a head, of a kind of items."""
    launch = _launch_of(request, KEY_ITEM if is_of_keys(item) else item)
    return launch.grid[1] if launch.heads else _per_head(request, launch)


def _per_head(request: Request, launch: Launch) -> int:
    return max(1, launch.items // heads_of(request, launch.item))


def key_tiles(request: Request) -> int:
    """The key tiles of a head."""
    return tiles_of(request, KEY_ITEM)


def few_terms(request: Request) -> bool:
    """Whether a sum has at most two parts, whose order never changes its bits."""
    return key_tiles(request) < 3


def item_of(request: Request, item: str, head: int, tile: int) -> int:
    """The number of a head's tile among the items of a kind. It is the first of items that share the tile."""
    launch, tiles = _launch_of(request, item), tiles_of(request, item)
    tile = min(tile, tiles - 1)
    if launch.heads:
        return launch.item_of(head * launch.heads // heads_of(request, item), tile)
    return min(head * _per_head(request, launch) + tile, launch.items - 1)


def head_of(request: Request, item: str, number: int) -> int:
    """The head of an item, counted over the batch."""
    launch = _launch_of(request, item)
    if launch.heads:
        return launch.head_of(number) * heads_of(request, item) // launch.heads
    return number // _per_head(request, launch)


def _launch_of(request: Request, item: str) -> Launch:
    return next(launch for launch in request.plan.launches if launch.item == item)


def launches(request: Request) -> list[str]:
    """The name of each launch for people."""
    own = request.plan.launches
    names = [launch.entry.replace("_", " ") for launch in own]
    return [f"Launch {number} of {len(own)}, {name}" for number, name in enumerate(names, 1)]
