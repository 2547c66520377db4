"""Runs a plan of torch tensors on the CPU shim, or launches it on a GPU.

On a CPU, the shim computes what a GPU computes, thousands of times slower. On a GPU, the driver launches the kernel's
cubin through cuda.bindings on torch's current stream, in torch's memory, without waiting. CuPy is not used.
"""

import ctypes
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch

from kernels.build import CPU, Mode, build, packages
from kernels.core.dtypes import element_type
from kernels.core.launch import Launch, Place, Plan, TensorMap, Texture
from kernels.core.scope import Scope
from kernels.core.tensors import Tensor
from kernels.errors import BackendUnavailable, ProblemError
from kernels.ops import launcher
from kernels.ops.choice import Choice
from kernels.run.backends import Device, cpu, driver

Run = Callable[[list[torch.Tensor]], None]
STATIC_SHARED = 48 * 1024  # a kernel with more shared memory needs an attribute
MOST_MAPS = 256  # kept tensor maps of an argument, one for each address
CONFIG_BYTES = 56  # of a CUlaunchConfig
NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: this thread has not used the GPU yet


class Processor:
    """The CPU as a processor of plans.

    place: torch's device.
    """

    def __init__(self, place: torch.device) -> None:
        self.place = place

    @property
    def device(self) -> Device:
        """Its facts."""
        return cpu.device()

    def stream(self) -> int | None:
        """A number for the current stream, or None during a graph capture."""
        return 0

    def lasting(self, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """A new tensor that outlives the call, so its memory must not belong to a CUDA graph."""
        return make()

    def launcher(self, chosen: Choice, plan: Plan) -> Run:
        """Builds the kernel. Returns a function that launches the plan with its tensors."""
        built = build(chosen.kernel, chosen.defines, Mode.TIMED, CPU)

        def run(tensors: list[torch.Tensor]) -> None:
            arrays = {place.name: _array(tensor, place) for place, tensor in zip(plan.tensors, tensors)}
            cpu.launch(built, plan, arrays, Scope())

        return run


def _array(tensor: torch.Tensor, place: Tensor) -> np.ndarray:
    """A NumPy array over the tensor's memory, with the shape and type of the plan's tensor."""
    kind = element_type(place.dtype).numpy
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    array = flat.view(torch.uint8).numpy().view(kind)
    return array.reshape(place.shape) if array.size == place.size else array  # a step's own list may be shorter


class Gpu(Processor):
    """A GPU as a processor of plans."""

    @property
    def index(self) -> int:
        """Its number in torch."""
        return torch.cuda.current_device() if self.place.index is None else self.place.index

    @property
    def device(self) -> Device:
        """Its facts."""
        return _facts(self.place)

    def stream(self) -> int | None:
        """A number for torch's current stream, or None during a graph capture."""
        return None if torch.cuda.is_current_stream_capturing() else torch._C._cuda_getCurrentRawStream(self.index)

    def lasting(self, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Made in another thread on its default stream. torch's graphs take the memory of this thread."""

        def made() -> torch.Tensor:
            tensor = make()
            torch.cuda.current_stream(tensor.device).synchronize()
            return tensor

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(made).result()

    def launcher(self, chosen: Choice, plan: Plan) -> Run:
        """Builds the kernel and returns its function. Raises ProblemError during a graph capture, as it compiles."""
        if torch.cuda.is_current_stream_capturing():
            raise ProblemError(
                f"The first call of {chosen.kernel.name} with these shapes is inside a graph capture, and it compiles. "
                "Call it once before the capture."
            )
        built = build(chosen.kernel, chosen.defines, Mode.TIMED, self.device.target)
        with torch.cuda.device(self.place):
            torch.cuda.current_stream()  # makes the context
            launcher.start()
            return _Launcher(built.path, plan, self.index)


def processor(place: torch.device) -> Processor:
    """The processor of a torch device. Raises ProblemError for another kind than CPU and CUDA."""
    if place.type not in ("cpu", "cuda"):
        raise ProblemError(f"The tensors are on {place}. The operators run on CUDA GPUs and on the CPU.")
    return Gpu(place) if place.type == "cuda" else Processor(place)


@lru_cache
def _facts(place: torch.device) -> Device:
    facts = torch.cuda.get_device_properties(place)
    arch = f"sm_{facts.major}{facts.minor}" + ("a" if facts.major >= 9 else "")
    shared = int(getattr(facts, "shared_memory_per_block_optin", 227 * 1024))
    return Device("gpu", facts.name, arch, shared, torch.version.cuda or "", facts.multi_processor_count)


class _Launcher:
    """The launches of a plan. Each call writes the tensors' addresses into their arguments."""

    def __init__(self, path: Path, plan: Plan, index: int):
        self.index, self.plan, self.lock = index, plan, Lock()
        self.addresses = (ctypes.c_uint64 * len(plan.tensors))()
        self.numbers = {tensor.name: number for number, tensor in enumerate(plan.tensors)}
        self.maps: list[_Map] = []
        self.configs: list[Any] = []
        self.functions = [_function(path, launch.entry, index, launch.shared_bytes) for launch in plan.launches]
        self.steps = [self._step(*pair) for pair in zip(self.functions, plan.launches)]

    def __call__(self, tensors: list[torch.Tensor]) -> None:
        """Enqueues the launches on the current stream."""
        if torch.cuda.current_device() != self.index:
            with torch.cuda.device(self.index):
                return self(tensors)
        stream = torch._C._cuda_getCurrentRawStream(self.index)
        with self.lock:  # the backward of torch runs in a thread of its own
            for number, tensor in enumerate(tensors):
                self.addresses[number] = tensor.data_ptr()
            for each in self.maps:
                each.encode(self.addresses[each.number])
            for step in self.steps:
                step(stream)

    def described(self) -> tuple[tuple[object, ...], tuple[object, ...], bytes]:
        """(maps, steps, values) for the compiled launcher, which has no tensors of this object."""
        maps: list[object] = []
        steps: list[object] = []
        values = bytearray()
        for function, launch in zip(self.functions, self.plan.launches):
            kinds, places = "", []
            for argument in launch.args:
                if isinstance(argument, str):
                    kinds, place = kinds + "t", self.numbers[argument]
                elif isinstance(argument, TensorMap):
                    tensor = self.plan.tensor(argument.tensor)
                    kind, sizes, strides, box, swizzle = driver.map_arguments(tensor, argument)
                    kinds, place = kinds + "m", len(maps)
                    maps.append((self.numbers[argument.tensor], kind, swizzle, sizes, strides, box))
                else:
                    values += bytes(-len(values) % launcher.ALIGNED)
                    kinds, place = kinds + "v", len(values)
                    values += np.array([argument]).tobytes()
                places.append(place)
            config = None
            if launch.has_attributes:
                self.configs.append(driver.launch_config(function, launch))  # the launcher reads its attributes
                config = launcher.bytes_of(self.configs[-1].getPtr(), CONFIG_BYTES)
            sizes_of = (launch.grid, launch.block, launch.shared_bytes)
            steps.append((int(function), *sizes_of, kinds, tuple(places), config))  # type: ignore[call-overload]
        return tuple(maps), tuple(steps), bytes(values)

    def _step(self, function: object, launch: Launch) -> Callable[[int], None]:
        from cuda.bindings import driver as cuda

        held = [self._argument(argument) for argument in launch.args]
        pointers = (ctypes.c_void_p * len(held))(*[address for address, _ in held])
        place, shared = ctypes.addressof(pointers), launch.shared_bytes
        keep = (held, pointers)
        if launch.has_attributes:
            config = driver.launch_config(function, launch)

            def start_with_attributes(stream: int, keep: object = keep) -> None:
                config.hStream = stream
                driver.checked(cuda.cuLaunchKernelEx(config, function, place, 0))

            return start_with_attributes
        sizes = (*launch.grid, *launch.block)

        def start(stream: int, keep: object = keep) -> None:
            status = cuda.cuLaunchKernel(function, *sizes, shared, stream, place, 0)
            if status[0]:
                if int(status[0]) == NO_CONTEXT:
                    torch.cuda.set_device(self.index)
                    status = cuda.cuLaunchKernel(function, *sizes, shared, stream, place, 0)
                driver.checked(status)

        return start

    def _argument(self, argument: str | TensorMap | Texture | Place | np.generic) -> tuple[int, object]:
        """(address of the argument's value, its owner)."""
        if isinstance(argument, str):
            return ctypes.addressof(self.addresses) + 8 * self.numbers[argument], self.addresses
        if isinstance(argument, TensorMap):
            self.maps.append(_Map(self.plan, argument, self.numbers[argument.tensor]))
            return self.maps[-1].value.ctypes.data, self.maps[-1]
        if isinstance(argument, Texture):
            raise ProblemError(f"The kernel reads {argument.tensor} as a texture. The operators have no textures.")
        if isinstance(argument, Place):
            raise ProblemError(f"The kernel takes a pointer into {argument.tensor}. The operators pass whole tensors.")
        value = np.array([argument])
        return value.ctypes.data, value


class _Map:
    """A tensor map as an argument. Its value depends on the tensor's address."""

    def __init__(self, plan: Plan, layout: TensorMap, number: int):
        self.tensor, self.layout, self.number = plan.tensor(layout.tensor), layout, number
        self.value, self.address = np.zeros(1, "V128"), 0
        self.known: OrderedDict[int, np.ndarray] = OrderedDict()

    def encode(self, address: int) -> None:
        """Writes the map of this address."""
        if address == self.address:
            return
        found = self.known.get(address)
        if found is None:
            found = self.known[address] = driver.tensor_map(self.tensor, self.layout, address)
            if len(self.known) > MOST_MAPS:
                self.known.popitem(last=False)
        self.value[:], self.address = found, address


@lru_cache(maxsize=256)
def _function(path: Path, entry: str, index: int, shared_bytes: int) -> object:
    """The CUfunction of an entry in the GPU's context, allowed to use this much shared memory."""
    from cuda.bindings import driver as cuda

    function = driver.checked(cuda.cuModuleGetFunction(_module(path, index), entry.encode()))
    if shared_bytes > STATIC_SHARED:
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.checked(cuda.cuFuncSetAttribute(function, attribute, shared_bytes))
    return function


@lru_cache(maxsize=256)
def _module(path: Path, index: int) -> object:
    try:
        from cuda.bindings import driver as cuda
    except ImportError:
        raise BackendUnavailable(f"cuda-bindings is not installed. Run: {packages.command('cuda12')}") from None
    return driver.checked(cuda.cuModuleLoadData(path.read_bytes()))
