"""The cubin on a real GPU, loaded and launched through CuPy. Call only in a worker process: a sticky CUDA error ends it."""

import contextlib
import ctypes
import math
from functools import lru_cache

import numpy as np

from kernels.backends import Device
from kernels.errors import BackendUnavailable, RunError
from kernels.probes import RECORD
from kernels.trace import RawRecords

# After these the process can do nothing more with CUDA; part of the error's name -> the exit code that tells workers.py.
STICKY = {"ILLEGALADDRESS": 70, "HARDWARESTACKERROR": 71, "ILLEGALINSTRUCTION": 72, "MISALIGNEDADDRESS": 73,
          "INVALIDADDRESSSPACE": 74, "INVALIDPC": 75, "LAUNCHFAIL": 76, "ASSERT": 77, "LAUNCHTIMEOUT": 78}

BLOCK_TIME = np.dtype([("start", "<i8"), ("end", "<i8"), ("sm", "<i8")])  # struct BlockTime of probe.cuh


class StickyError(RunError):
    """A CUDA error that leaves the process unusable; `exit_code` is from STICKY."""

    def __init__(self, message, exit_code):
        super().__init__(message)
        self.exit_code = exit_code


def driver_missing():
    """The reason why no GPU can be used if the NVIDIA driver's library is not there, else None. Calls nothing of CUDA."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "No GPU was found: the NVIDIA driver (libcuda.so.1) is not installed. On a machine with an NVIDIA GPU, check that nvidia-smi runs."


@lru_cache
def device():
    if driver_missing():
        raise BackendUnavailable(driver_missing())
    try:
        import cupy
    except ImportError:
        raise BackendUnavailable("No GPU is used: CuPy is not installed. Install requirements.txt, or cupy-cuda13x on a machine with CUDA 13.") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailable(f"No GPU was found: CUDA says {error}. On a machine with an NVIDIA GPU, check that nvidia-smi runs.") from None
    if not count:
        raise BackendUnavailable("No GPU was found: CUDA runs, but lists no device. Check CUDA_VISIBLE_DEVICES.")
    facts = cupy.cuda.runtime.getDeviceProperties(0)
    free, _ = cupy.cuda.runtime.memGetInfo()
    arch = f"sm_{facts['major']}{facts['minor']}" + ("a" if facts["major"] >= 9 else "")
    version = cupy.cuda.runtime.driverGetVersion()
    driver = f"CUDA {version // 1000}.{version % 1000 // 10}"
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version") as file:  # the kernel module's own version
        driver = next((word for word in file.readline().split() if word[:1].isdigit() and "." in word), "") + f" ({driver})"
    return Device("gpu", facts["name"].decode(), arch, int(facts["sharedMemPerBlockOptin"]), int(free), driver.strip(),
                  int(facts["multiProcessorCount"]))


@lru_cache(maxsize=64)
def _function(path, entry):
    import cupy

    return cupy.RawModule(path=str(path)).get_function(entry)


def launch(build, plan, arrays, scope, capacities=None):
    """Runs the plan's launches in order over `arrays` (name -> NumPy array, written in place).

    With `capacities` (records per thread, one per launch; probed builds only) returns their RawRecords, else [].
    """
    import cupy

    with errors():
        on_gpu = {name: cupy.asarray(array) for name, array in arrays.items()}
        found = []
        for number, step in enumerate(plan.launches):
            extra = ()
            if capacities is not None:
                first, blocks = scope.blocks(step)
                records = cupy.zeros(blocks * step.threads * capacities[number] * RECORD.itemsize, cupy.uint8)
                counts = cupy.zeros(blocks * step.threads, cupy.uint32)
                extra = (records, counts, np.uint32(capacities[number]), np.uint32(first), np.uint32(blocks))
            _start(build, step, on_gpu, extra)
            cupy.cuda.runtime.deviceSynchronize()
            if capacities is not None:
                kept = records.get().view(RECORD).reshape(blocks * step.threads, capacities[number])
                found.append(RawRecords(number, first, step.threads, kept, counts.get()))
        _bring_back(plan, arrays, on_gpu)
        return found


def launch_timeline(build, plan, arrays):
    """Runs a timeline build as `launch`; for each launch an array of BLOCK_TIME, [blocks]. It is run twice, and the second counts."""
    import cupy

    with errors():
        on_gpu = {name: cupy.asarray(array) for name, array in arrays.items()}
        for _ in range(2):
            times = [cupy.zeros(math.prod(step.grid) * BLOCK_TIME.itemsize, cupy.uint8) for step in plan.launches]
            cupy.cuda.runtime.deviceSynchronize()
            for step, time in zip(plan.launches, times):
                _start(build, step, on_gpu, (time,))
            cupy.cuda.runtime.deviceSynchronize()
        _bring_back(plan, arrays, on_gpu)
        return [time.get().view(BLOCK_TIME) for time in times]


def enqueuer(build, plan, on_gpu):
    """A function that enqueues the plan's launches over arrays on the GPU (name -> CuPy array), with as little work of its own as can be."""
    steps = [(_ready(build, step), step.grid, step.block, _arguments(step, on_gpu), step.shared_bytes) for step in plan.launches]

    def enqueue():
        for function, grid, block, arguments, shared_bytes in steps:
            function(grid, block, arguments, shared_mem=shared_bytes)

    return enqueue


def launch_repeatedly(build, plan, arrays, runs):
    """Runs a timed build's launches once to warm up and `runs` times between two events each: milliseconds, [runs]. No output is looked at here."""
    import cupy

    with errors():
        on_gpu = {name: cupy.asarray(array) for name, array in arrays.items()}
        events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(runs)]
        enqueue = enqueuer(build, plan, on_gpu)
        enqueue()
        for start, end in events:
            start.record()
            enqueue()
            end.record()
        cupy.cuda.runtime.deviceSynchronize()
        _bring_back(plan, arrays, on_gpu)
        return [cupy.cuda.get_elapsed_time(start, end) for start, end in events]


def blocks_per_multiprocessor(build, step):
    """How many blocks of a launch the driver says a multiprocessor holds at once."""
    import cupy

    with errors():
        return cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(_ready(build, step).kernel.ptr, step.threads, step.shared_bytes)


def _ready(build, step):
    """A step's function, allowed the shared memory that the step asks for."""
    function = _function(build.path, step.entry)
    if step.shared_bytes > 48 * 1024:
        function.max_dynamic_shared_size_bytes = step.shared_bytes
    return function


def _start(build, step, on_gpu, extra=()):
    """Launches one step of a plan, asynchronously."""
    _ready(build, step)(step.grid, step.block, (*_arguments(step, on_gpu), *extra), shared_mem=step.shared_bytes)


def _arguments(step, on_gpu):
    return tuple(on_gpu[a] if isinstance(a, str) else a for a in step.args)


def _bring_back(plan, arrays, on_gpu):
    for name in plan.written:
        arrays[name][...] = on_gpu[name].get()


@contextlib.contextmanager
def errors():
    """CUDA's errors as ours."""
    import cupy

    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise RunError(f"The GPU ran out of memory: {error}. Choose a smaller problem.") from None
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        for name, exit_code in STICKY.items():
            if name in str(error).split(":")[0].upper().replace("_", ""):
                raise StickyError(f"The kernel failed on the GPU: {error}", exit_code) from None
        raise RunError(f"The kernel failed on the GPU: {error}") from None
