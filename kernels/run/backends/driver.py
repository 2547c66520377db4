"""Launches with attributes, and tensor maps for the bulk copy engine, through cuda.bindings.driver. CuPy lacks them."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from kernels.core.launch import Launch, TensorMap
from kernels.core.tensors import Tensor
from kernels.errors import OutOfMemory, ProblemError, RunError

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation
PORTABLE_CLUSTER = 8  # blocks of a cluster on each GPU with clusters
# Errors that end CUDA in the process: number -> name. Driver and runtime use the same numbers.
STICKY = {
    700: "ILLEGALADDRESS",
    702: "LAUNCHTIMEOUT",
    710: "ASSERT",
    714: "HARDWARESTACKERROR",
    715: "ILLEGALINSTRUCTION",
    716: "MISALIGNEDADDRESS",
    717: "INVALIDADDRESSSPACE",
    718: "INVALIDPC",
    719: "LAUNCHFAIL",
}
FIND_THE_LINE = (
    "CUDA names no line. Run the kernel with --backend cpu: the shim names the line. Or run "
    "compute-sanitizer --target-processes all python -m kernels run NAME --backend gpu."
)
_broken = 0
_MAP_TYPES = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float8_e4m3": "UINT8",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
}


class StickyError(RunError):
    """A CUDA error that ends CUDA in the process. exit_code: of its worker, which the server reads."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def exit_code(status: int) -> int:
    """A worker's exit code after the sticky error of that number: 100 to 119."""
    return status - 600


def broken() -> int:
    """The exit code of this process's first sticky error, or 0."""
    return _broken


def failure(status: int, said: str) -> RunError:
    """Our error for CUDA's number. said: CUDA's text."""
    if status == OUT_OF_MEMORY:
        return OutOfMemory(f"The GPU ran out of memory: {said}. Choose a smaller problem.")
    if status in STICKY:
        global _broken
        _broken = exit_code(status)
        return StickyError(f"The kernel failed on the GPU: {said}. {FIND_THE_LINE}", exit_code(status))
    return RunError(f"The kernel failed on the GPU: {said}")


def launcher(function: int, step: Launch, arguments: tuple[object, ...]) -> Callable[[], None]:
    """A function that enqueues a step with attributes on CuPy's current stream. function: the kernel's CUfunction."""
    import cupy
    from cuda.bindings import driver as cuda

    handle = cuda.CUfunction(function)
    given, held = pointers(arguments)
    config = launch_config(handle, step)

    def launch(keep: tuple[object, ...] = (held, arguments)) -> None:
        config.hStream = cupy.cuda.get_current_stream().ptr
        checked(cuda.cuLaunchKernelEx(config, handle, ctypes.addressof(given), 0))

    return launch


def pointers(arguments: tuple[object, ...]) -> "tuple[ctypes.Array[ctypes.c_void_p], list[np.ndarray]]":
    """A pointer to each argument, and what they point to. The caller keeps both."""
    import cupy

    held = [
        np.array([a.data.ptr], np.uint64) if isinstance(a, cupy.ndarray) else np.array([a]).reshape(1)
        for a in arguments
    ]
    return (ctypes.c_void_p * len(held))(*[value.ctypes.data for value in held]), held


def launch_config(handle: Any, step: Launch) -> Any:
    """The CUlaunchConfig of a step with its attributes, without a stream. handle: the kernel's CUfunction."""
    from cuda.bindings import driver as cuda

    if step.cluster and np.prod(step.cluster) > PORTABLE_CLUSTER:
        allowed = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        checked(cuda.cuFuncSetAttribute(handle, allowed, 1))
    attributes = _attributes(step)
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = step.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = step.block
    config.sharedMemBytes, config.attrs, config.numAttrs = step.shared_bytes, attributes, len(attributes)
    return config


def _attributes(step: Launch) -> list[Any]:
    from cuda.bindings import driver as cuda

    ids = cuda.CUlaunchAttributeID
    found = []
    if step.cluster:
        found.append(cuda.CUlaunchAttribute())
        found[-1].id = ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = found[-1].value.clusterDim
        size.x, size.y, size.z = step.cluster
    if step.cooperative:
        found.append(cuda.CUlaunchAttribute())
        found[-1].id, found[-1].value.cooperative = ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1
    if step.dependent:
        found.append(cuda.CUlaunchAttribute())
        found[-1].id = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        found[-1].value.programmaticStreamSerializationAllowed = 1
    return found


MapArguments = tuple[int, list[int], list[int], list[int], int]


def map_arguments(tensor: Tensor, layout: TensorMap) -> MapArguments:
    """(type, sizes, strides in bytes without the innermost, box, swizzle) of a map, as CUDA has them: the innermost
    dimension first. Raises ProblemError for an invalid map."""
    from cuda.bindings import driver as cuda

    shape, steps = dimensions(tensor, layout)
    check_map(tensor, layout, steps[:-1])
    swizzles, types = cuda.CUtensorMapSwizzle, cuda.CUtensorMapDataType
    kind = getattr(types, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[tensor.dtype]}")
    swizzle = getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{f'{layout.swizzle}B' if layout.swizzle else 'NONE'}")
    return int(kind), shape[::-1], steps[-2::-1], [*layout.box[::-1]], int(swizzle)


def tensor_map(tensor: Tensor, layout: TensorMap, address: int) -> np.ndarray:
    """The CUtensorMap of a dense tensor at `address`, as one void of 128 bytes: CuPy passes it by value. Elements
    outside the tensor read as zero. Raises ProblemError for an invalid map."""
    from cuda.bindings import driver as cuda

    kind, shape, strides, box, swizzle = map_arguments(tensor, layout)
    encoded = checked(
        cuda.cuTensorMapEncodeTiled(
            cuda.CUtensorMapDataType(kind),
            len(shape),
            address,
            [cuda.cuuint64_t(n) for n in shape],
            [cuda.cuuint64_t(n) for n in strides],
            [cuda.cuuint32_t(n) for n in box],
            [cuda.cuuint32_t(1)] * len(shape),
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cuda.CUtensorMapSwizzle(swizzle),
            cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return np.array([int(word) for word in encoded.opaque], np.uint64).view("V128")


def dimensions(tensor: Tensor, layout: TensorMap) -> tuple[list[int], list[int]]:
    """(sizes, strides in bytes) of the map's dimensions, outermost first.

    Raises ProblemError unless the map's axes are the tensor's, with the innermost last."""
    steps = np.cumprod([tensor.itemsize, *tensor.shape[:0:-1]])[::-1].tolist()
    axes = layout.axes or tensor.axes
    if sorted(axes) != sorted(tensor.axes) or axes[-1:] != tensor.axes[-1:]:
        raise ProblemError(
            f"The tensor map of {tensor.name} is invalid: its box names {', '.join(axes)}, and the tensor has "
            f"{', '.join(tensor.axes)}. Name each axis once, {tensor.axes[-1]} last."
        )
    order = [tensor.axes.index(axis) for axis in axes]
    return [tensor.shape[n] for n in order], [steps[n] for n in order]


def check_map(tensor: Tensor, layout: TensorMap, strides: list[int]) -> None:
    """Raises ProblemError with the reason for an invalid tensor map. CUDA only reports an invalid value.

    strides: bytes, of all dimensions except the innermost."""
    row = layout.box[-1] * tensor.itemsize
    reasons = {
        f"has {len(tensor.shape)} dimensions, and a map has 1 to 5": not 1 <= len(tensor.shape) <= 5,
        f"has {len(tensor.shape)} dimensions, and its box {layout.box} another number": len(layout.box)
        != len(tensor.shape),
        f"has the box {layout.box}, and a box's sizes are 1 to 256": not all(1 <= n <= 256 for n in layout.box),
        f"has strides of {strides} bytes, and they must be multiples of 16": any(n % 16 for n in strides),
        f"has boxes {row} bytes wide, and they must be multiples of 16": bool(row % 16),
        f"has boxes {row} bytes wide, and a swizzle of {layout.swizzle} takes at most so many": bool(layout.swizzle)
        and row > layout.swizzle,
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise ProblemError(
                f"The tensor map of {tensor.name} {tensor.shape} is invalid: it {reason}. Choose another problem, "
                "box or swizzle."
            )


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a driver call. Raises our error for CUDA's."""
    from cuda.bindings import driver as cuda

    status, *values = result
    if int(status):
        name = cuda.cuGetErrorName(status)[1]
        raise failure(int(status), name.decode() if isinstance(name, bytes) else str(status))
    return values[0] if values else None
