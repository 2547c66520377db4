"""The tensors of a run by the names of their axes. A story then needs no name of a kernel or problem."""

from functools import lru_cache

import numpy as np

from kernels.core.request import Request
from kernels.core.tensors import Role, Tensor


def tensors(request: Request) -> dict[str, Tensor]:
    """The probes' name of each tensor in global memory -> the tensor: first the problem's, then the kernel's own, in
    their order."""
    return dict(_tensors(request))


@lru_cache(maxsize=128)
def _tensors(request: Request) -> dict[str, Tensor]:
    plan = request.plan
    order = {tensor.name: number for number, tensor in enumerate(plan.tensors)}
    known = [(order[name], symbol) for symbol, name in request.kernel.tensor_of_symbol.items() if name in order]
    return {symbol: plan.tensors[number] for number, symbol in sorted(known, key=lambda pair: pair[0])}


def with_axes(request: Request, *axes: str, role: Role | None = None) -> dict[str, Tensor]:
    """The tensors with exactly these axes, and with that role if there is one."""
    return {symbol: t for symbol, t in tensors(request).items() if t.axes == axes and role in (None, t.role)}


def length(tensor: Tensor, axis: str) -> int:
    """The length of an axis of the tensor. ValueError for a tensor without the axis."""
    return tensor.shape[tensor.axes.index(axis)]


def coordinates(tensor: Tensor, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
    """The index along each axis of the elements at these byte offsets from the tensor's base."""
    return np.unravel_index(np.asarray(offsets, np.int64) // tensor.itemsize, tensor.shape)


def byte_of(tensor: Tensor, **index: int) -> int:
    """The byte offset of an element, 0 along every other axis."""
    at = tuple(index.get(axis, 0) for axis in tensor.axes)
    return int(np.ravel_multi_index(at, tensor.shape)) * tensor.itemsize


def heads(tensor: Tensor) -> int:
    """How many matrices of rows and dims the tensor holds: one for each head of each sequence."""
    return int(np.prod([n for axis, n in zip(tensor.axes, tensor.shape) if axis not in ("query", "key", "dim")]))


def rows(tensor: Tensor) -> str:
    """The axis of the rows of the tensor's matrices: query or key."""
    return next(axis for axis in ("query", "key") if axis in tensor.axes)


def matrix(tensor: Tensor, array: np.ndarray, head: int, of: int) -> np.ndarray:
    """The tensor's matrix for query head `head` of `of`, counted over the batch: [rows, dim]. Neighbouring query heads
    share a matrix if the tensor has fewer heads."""
    last = np.moveaxis(array, (tensor.axes.index(rows(tensor)), tensor.axes.index("dim")), (-2, -1))
    return last.reshape(-1, *last.shape[-2:])[head * heads(tensor) // of]


def box(request: Request, tensor: Tensor, first: int) -> np.ndarray:
    """The elements within the tensor of a box of the copy engine.

    first: the box's first element in the tensor.

    ValueError for a kernel without a map of this tensor.
    """
    start, sizes = [int(at) for at in np.unravel_index(first, tensor.shape)], request.plan.box_of(tensor)
    along = [np.arange(at, min(n, at + size)) for at, n, size in zip(start, tensor.shape, sizes)]
    return np.ravel_multi_index(np.meshgrid(*along, indexing="ij"), tensor.shape).ravel()
