"""Tensors on the GPU: each is a flat CuPy array of uint8, its raw bytes. CuPy lacks bfloat16 and float8."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernels.core.dtypes import element_type
from kernels.core.launch import Copy, Plan
from kernels.core.tensors import Tensor

if TYPE_CHECKING:
    import cupy


def to_gpu(array: np.ndarray) -> "cupy.ndarray":
    """A NumPy array's bytes on the GPU, as a flat CuPy array of uint8."""
    import cupy

    return cupy.asarray(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def fresh(tensor: Tensor) -> "cupy.ndarray":
    """A poisoned or zeroed tensor on the GPU, as Tensor.fresh on the CPU."""
    import cupy

    (word,) = (
        Tensor(tensor.name, (1,), tensor.dtype, ("one",), tensor.role, tensor.initial)
        .fresh()
        .view(f"u{tensor.itemsize}")
    )
    return cupy.full(tensor.size, word, word.dtype).view(cupy.uint8)


def to_numpy(array: "cupy.ndarray", tensor: Tensor) -> np.ndarray:
    """The NumPy array, of the tensor's type and shape, for its CuPy array."""
    return array.get().view(element_type(tensor.dtype).numpy).reshape(tensor.shape)


def with_copies(
    start: Callable[[], None], copies: Sequence[Copy], on_gpu: Mapping[str, "cupy.ndarray"]
) -> Callable[[], None]:
    """A function that enqueues a launch, and then copies between arrays of one GPU."""
    if not copies:
        return start

    def run() -> None:
        start()
        for copy in copies:
            source = on_gpu[copy.source]
            on_gpu[copy.target].data.copy_from_device_async(source.data, source.nbytes)

    return run


def restore(plan: Plan, arrays: Mapping[str, np.ndarray], on_gpu: Mapping[str, "cupy.ndarray"]) -> None:
    """Restores the written tensors to their values before the run."""
    for tensor in plan.written:
        on_gpu[tensor.name].set(np.ascontiguousarray(arrays[tensor.name]).reshape(-1).view(np.uint8))


def bring_back(plan: Plan, arrays: Mapping[str, np.ndarray], on_gpu: Mapping[str, "cupy.ndarray"]) -> None:
    """Copies the written tensors to the NumPy arrays."""
    for tensor in plan.written:
        arrays[tensor.name][...] = to_numpy(on_gpu[tensor.name], tensor)


def texture_of(array: "cupy.ndarray", tensor: Tensor, dimensions: int) -> "cupy.cuda.texture.TextureObject":
    """A texture object of a tensor of 32-bit elements. A fetch returns the element unchanged.

    array: the bytes of the tensor.
    dimensions: 1 for these bytes, 2 for a copy of the matrix in a CUDA array."""
    import cupy
    from cupy.cuda import runtime, texture

    kinds = {"i": runtime.cudaChannelFormatKindSigned, "f": runtime.cudaChannelFormatKindFloat}
    elements = cupy.ravel(array).view(tensor.dtype)
    texel = texture.ChannelFormatDescriptor(32, 0, 0, 0, kinds[elements.dtype.kind])
    if dimensions == 2:
        rows, columns = tensor.shape
        image = texture.CUDAarray(texel, columns, rows)
        image.copy_from(elements.reshape(rows, columns))
        memory = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=image)
    else:
        kind = runtime.cudaResourceTypeLinear
        memory = texture.ResourceDescriptor(kind, arr=elements, chDesc=texel, sizeInBytes=elements.nbytes)
    return texture.TextureObject(memory, texture.TextureDescriptor())
