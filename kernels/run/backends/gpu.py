"""Launches a cubin on a GPU through CuPy. Only for worker processes: a sticky CUDA error ends CUDA in the process."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.build import Build, nvrtc, packages
from kernels.core.launch import Launch, Place, Plan, TensorMap, Texture
from kernels.core.scope import Scope
from kernels.core.streams import Step
from kernels.core.tensors import Initial
from kernels.errors import BackendUnavailable, OutOfMemory, ProblemError
from kernels.run.backends import Device, driver, streams
from kernels.run.backends.alone import parent
from kernels.run.backends.calls import with_tables
from kernels.run.backends.driver import StickyError as StickyError  # for callers
from kernels.run.backends.gpu_arrays import bring_back, fresh, restore, texture_of, to_gpu, with_copies
from kernels.run.results import Marked
from kernels.trace.probes import CLOCKS, MARK, RECORD
from kernels.trace.trace import RawRecords

if TYPE_CHECKING:
    import cupy

    Extra = tuple[cupy.ndarray | np.generic, ...]

STATIC_SHARED = 48 * 1024  # a kernel with more shared memory needs an attribute
MARK_RUNS = 20  # of a marks build, of which the last counts
COUNT = np.dtype(np.uint32)
BLOCK_TIME = np.dtype([("start", "<i8"), ("end", "<i8"), ("sm", "<i8")])  # struct BlockTime of probe.cuh


def driver_missing() -> str | None:
    """The reason if the NVIDIA driver's library is missing, else None. Calls no CUDA."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return (
            "No GPU was found: the NVIDIA driver (libcuda.so.1) is not installed. On a machine with an NVIDIA GPU, "
            "check that nvidia-smi runs."
        )
    return None


@lru_cache
def device() -> Device:
    """The first GPU. Raises BackendUnavailable with the reason if no GPU works."""
    missing = driver_missing()
    if missing:
        raise BackendUnavailable(missing)
    try:
        import cupy
    except ImportError as error:
        raise BackendUnavailable(
            f"No GPU is used: CuPy could not be imported ({error}). In a new environment, run: "
            f"{packages.command('cuda12')}"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailable(
            f"No GPU was found: CUDA says {error}. On a machine with an NVIDIA GPU, check that nvidia-smi runs."
        ) from None
    if not count:
        raise BackendUnavailable("No GPU was found: CUDA runs, but lists no device. Check CUDA_VISIBLE_DEVICES.")
    fault = packages.fault(
        packages.majors(nvrtc.version()[0], cupy.cuda.runtime.runtimeGetVersion() // 1000),
        cupy.cuda.runtime.driverGetVersion() // 1000,
    )
    if fault:
        raise BackendUnavailable(fault)
    facts = cupy.cuda.runtime.getDeviceProperties(0)
    arch = f"sm_{facts['major']}{facts['minor']}" + ("a" if facts["major"] >= 9 else "")
    shared, multiprocessors = int(facts["sharedMemPerBlockOptin"]), int(facts["multiProcessorCount"])
    number = cupy.cuda.runtime.driverGetVersion()
    version = f"CUDA {number // 1000}.{number % 1000 // 10}"
    with contextlib.suppress(OSError), Path("/proc/driver/nvidia/version").open() as file:  # of the kernel module
        own = next((word for word in file.readline().split() if word[:1].isdigit() and "." in word), "")
        version = f"{own} ({version})".strip()
    return Device("gpu", facts["name"].decode(), arch, shared, version, multiprocessors)


def free_bytes() -> int:
    """Bytes of the GPU's memory for a run now: the driver's free bytes and CuPy's reserve."""
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free) + cupy.get_default_memory_pool().free_bytes()


def launch(
    build: Build, plan: Plan, arrays: dict[str, np.ndarray], scope: Scope | None, capacities: list[int] | None = None
) -> list[RawRecords]:
    """Runs the plan's launches: a probed build one after another, another build on the plan's streams.

    arrays: name -> NumPy array of the tensor's type, written in place.
    capacities: records per thread of each launch, for a probed build. Then it returns their RawRecords, else []."""
    if build.jailed:
        return parent.launch(build, plan, arrays, scope, capacities)
    import cupy

    with errors():
        on_gpu = {name: to_gpu(array) for name, array in arrays.items()}
        found = list[RawRecords]()
        if capacities is None:
            enqueue = enqueuer(build, plan, on_gpu)
            enqueue()
            cupy.cuda.runtime.deviceSynchronize()
        else:
            assert scope is not None
            found = _probed(build, plan, on_gpu, scope, capacities)
        bring_back(plan, arrays, on_gpu)
        return found


def _probed(
    build: Build, plan: Plan, on_gpu: Mapping[str, "cupy.ndarray"], scope: Scope, capacities: list[int]
) -> list[RawRecords]:
    import cupy

    buffers = []
    for number, step in enumerate(plan.launches):
        first, blocks = scope.blocks(step, plan)
        records = cupy.zeros(blocks * step.threads * capacities[number] * RECORD.itemsize, cupy.uint8)
        counts = cupy.zeros(blocks * step.threads, cupy.uint32)
        buffers.append((records, counts, np.uint32(capacities[number]), np.uint32(first), np.uint32(blocks)))
    for number, (step, extra) in enumerate(zip(plan.launches, _with_tables(plan, buffers))):
        start = launcher(build, plan, step, on_gpu, extra)  # it owns the textures of its launch
        with_copies(start, plan.copies_after(number), on_gpu)()
        cupy.cuda.runtime.deviceSynchronize()
    found = []
    for number, (step, (records, counts, capacity, begin, _)) in enumerate(zip(plan.launches, buffers)):
        kept = records.get().view(RECORD).reshape(-1, capacity)
        found.append(RawRecords(number, int(begin), step.threads, kept, counts.get()))
    return found


def _with_tables(plan: Plan, extras: Sequence["Extra"]) -> list["Extra"]:
    import cupy

    def address(value: "cupy.ndarray | np.generic") -> np.generic:
        return np.uint64(value.data.ptr) if isinstance(value, cupy.ndarray) else value

    return with_tables(plan, extras, address, cupy.asarray)


def launch_timeline(build: Build, plan: Plan, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Runs a timeline build as `launch`. Returns an array of BLOCK_TIME, [blocks], for each launch. It runs twice, each
    time with fresh arrays, and the second run counts."""
    import cupy

    with errors():
        on_gpu = {name: to_gpu(array) for name, array in arrays.items()}
        for _ in range(2):
            restore(plan, arrays, on_gpu)
            times = [cupy.zeros(step.blocks * BLOCK_TIME.itemsize, cupy.uint8) for step in plan.launches]
            enqueue = enqueuer(build, plan, on_gpu, [(time,) for time in times])
            cupy.cuda.runtime.deviceSynchronize()
            enqueue()
            cupy.cuda.runtime.deviceSynchronize()
        bring_back(plan, arrays, on_gpu)
        return [time.get().view(BLOCK_TIME) for time in times]


def launch_marks(
    build: Build, plan: Plan, arrays: dict[str, np.ndarray], every: int, capacity: int, runs: int = MARK_RUNS
) -> tuple[list[Marked], list[float]]:
    """Runs a marks build with a writer for `every` threads: once for the outputs, then `runs` times. Returns the marks
    of the last run, and the milliseconds of each run."""
    import cupy

    with errors():
        on_gpu = {name: to_gpu(array) for name, array in arrays.items()}
        writers = [step.groups(every) for step in plan.launches]
        buffers = []
        for step, number in zip(plan.launches, writers):
            total, sizes = step.blocks * number, (capacity * MARK.itemsize, COUNT.itemsize, CLOCKS.itemsize)
            buffers.append([cupy.zeros(total * size, cupy.uint8) for size in sizes])
        enqueue = enqueuer(build, plan, on_gpu, [(*buffer, np.uint32(capacity)) for buffer in buffers])
        enqueue()
        cupy.cuda.runtime.deviceSynchronize()
        bring_back(plan, arrays, on_gpu)
        times = _repeated(enqueue, runs)
        found = []
        for launch, (number, buffer) in enumerate(zip(writers, buffers)):
            records, counts, clocks = (part.get().view(kind) for part, kind in zip(buffer, (MARK, COUNT, CLOCKS)))
            found.append(Marked(launch, number, records.reshape(-1, capacity), counts, clocks))
        return found, times


def enqueuer(
    build: Build,
    plan: Plan,
    on_gpu: Mapping[str, "cupy.ndarray"],
    extras: Sequence["Extra"] | None = None,
    mark: Callable[[Step, int], None] | None = None,
) -> Callable[[], None]:
    """A function that enqueues one run of the plan on its streams or as its graph, with little work of its own.

    on_gpu: name -> array on the GPU (to_gpu, fresh).
    extras: the additional arguments of each launch, for marks.
    Each run first zeroes its zero-initialised tensors, so its time includes this work."""
    import cupy

    added = _with_tables(plan, extras) if extras else [()] * len(plan.launches)
    starts = [launcher(build, plan, step, on_gpu, extra) for step, extra in zip(plan.launches, added)]
    starts = [with_copies(start, plan.copies_after(number), on_gpu) for number, start in enumerate(starts)]
    run = streams.enqueuer(plan, starts, on_gpu, mark)
    zeroed = [on_gpu[tensor.name] for tensor in plan.written if tensor.initial is Initial.ZERO]
    lowest = [(on_gpu[tensor.name], fresh(tensor)) for tensor in plan.written if tensor.initial is Initial.LOWEST]

    def enqueue() -> None:
        for array in zeroed:
            array.data.memset_async(0, array.nbytes, cupy.cuda.get_current_stream())
        for array, values in lowest:
            array.data.copy_from_device_async(values.data, array.nbytes, cupy.cuda.get_current_stream())
        run()

    return enqueue


def launch_repeatedly(build: Build, plan: Plan, arrays: dict[str, np.ndarray], runs: int) -> list[float]:
    """Milliseconds of `runs` runs of a timed build, each between two events, after one warm-up. Checks no output."""
    if build.jailed:
        return parent.launch_repeatedly(build, plan, arrays, runs)
    with errors():
        on_gpu = {name: to_gpu(array) for name, array in arrays.items()}
        enqueue = enqueuer(build, plan, on_gpu)
        enqueue()
        times = _repeated(enqueue, runs)
        bring_back(plan, arrays, on_gpu)
        return times


def _repeated(enqueue: Callable[[], None], runs: int) -> list[float]:
    import cupy

    events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(runs)]
    for start, end in events:
        start.record()
        enqueue()
        end.record()
    cupy.cuda.runtime.deviceSynchronize()
    return [cupy.cuda.get_elapsed_time(start, end) for start, end in events]


def blocks_per_multiprocessor(build: Build, step: Launch) -> int:
    """The driver's number of a launch's blocks on one SM at once."""
    import cupy

    with errors():
        return cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            _ready(build, step).kernel.ptr, step.threads, step.shared_bytes
        )


def launcher(
    build: Build, plan: Plan, step: Launch, on_gpu: Mapping[str, "cupy.ndarray"], extra: tuple[object, ...] = ()
) -> Callable[[], None]:
    """A function that enqueues one launch of a plan. extra: the additional arguments of probes or timeline.

    A child needs none: its parent launches it."""
    if step.parent:
        return lambda: None
    function, given = _ready(build, step), (*arguments(plan, step, on_gpu), *extra)
    if step.has_attributes:
        return driver.launcher(function.kernel.ptr, step, given)
    return lambda: function(step.grid, step.block, given, shared_mem=step.shared_bytes)


def function_of(build: Build, step: Launch) -> int:
    return int(_ready(build, step).kernel.ptr)


def arguments(plan: Plan, step: Launch, on_gpu: Mapping[str, "cupy.ndarray"]) -> tuple[object, ...]:
    return tuple(_argument(plan, a, on_gpu) for a in step.args)


def _argument(
    plan: Plan, arg: str | TensorMap | Texture | Place | np.generic, on_gpu: Mapping[str, "cupy.ndarray"]
) -> object:
    """An argument for CuPy: arrays by pointer, texture objects, tensor maps and structs by value as one-element void
    arrays."""
    if isinstance(arg, str):
        return on_gpu[arg]
    if isinstance(arg, TensorMap):
        return driver.tensor_map(plan.tensor(arg.tensor), arg, on_gpu[arg.tensor].data.ptr)
    if isinstance(arg, Place):
        return np.uint64(on_gpu[arg.tensor].data.ptr + arg.offset)
    if isinstance(arg, Texture):
        return texture_of(on_gpu[arg.tensor], plan.tensor(arg.tensor), arg.dimensions)
    return np.array([arg]) if isinstance(arg, np.void) else arg


@lru_cache(maxsize=64)
def _function(path: Path, entry: str, on_device: int) -> "cupy.RawKernel":
    """An entry of a cubin, loaded on a GPU. on_device: the current one."""
    import cupy

    return cupy.RawModule(path=str(path)).get_function(entry)


def _ready(build: Build, step: Launch) -> "cupy.RawKernel":
    """A step's function with the attribute for the step's shared memory. A stranger's is not loaded here."""
    if build.jailed:
        raise ProblemError(
            f"{build.kernel} is a user's kernel. Marks, timelines and occupancy do not load it on a GPU. "
            "Choose the CPU, or run and bench."
        )
    import cupy

    function = _function(build.path, build.symbol_of(step.entry), cupy.cuda.runtime.getDevice())
    if step.shared_bytes > STATIC_SHARED:
        function.max_dynamic_shared_size_bytes = step.shared_bytes
    return function


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Turns CUDA's errors into ours, by their numbers."""
    import cupy

    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise OutOfMemory(f"The GPU ran out of memory: {error}. Choose a smaller problem.") from None
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise driver.failure(int(error.status), str(error)) from None
