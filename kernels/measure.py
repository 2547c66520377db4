"""The timing protocol: one kernel or peer, one problem, on the GPU. Nothing here runs on a CPU, which yields no times.

1. The timed build runs once over random inputs, its other arrays poisoned with NaN, and its output is compared with float64: at most twice
   torch's own error, or there is no time. A what-if build gets none in any case.
2. Warm-up: the same runs for WARM_UP seconds, so that clocks are up and nothing is loaded for the first time.
3. Samples: device events around each run. All are enqueued while the GPU is kept waiting, so that no launch waits for Python. With a cold L2 the
   runs take turns with copies of inputs and outputs that together exceed twice the L2; with a warm one they use the same arrays again.
The figures are the median, and the 10th and 90th percentile, of the runs; clock, temperature and power are read before and after.
"""

import math
import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kernels import build, catalog, execute, peers
from kernels.backends import gpu
from kernels.build import Mode
from kernels.catalog import defines
from kernels.errors import PeerUnavailable, RunError, TooLargeError
from kernels.execute import Request
from kernels.hierarchy import FmaProblem

WARM_UP = 0.05  # seconds
SAMPLING = 0.2  # seconds that the samples of one point may take, within the two limits that follow
LEAST_RUNS, MOST_RUNS = 5, 100
SLOWEST_RUN = 3.0  # seconds; what takes longer is not timed
SLOW_FLOPS = 1e12  # per second: what the slowest kernel is assumed to reach, only to refuse runs before they are launched
L2_TIMES, MOST_COPIES = 2, 256
QUEUED = 25  # runs enqueued at a time; a stream takes about a thousand launches before it makes Python wait
CYCLES_PER_SECOND = 2e9  # of the GPU, at most about this
EVENTS_SECONDS = 2e-5  # that Python takes for a run's two events
COPY_BYTES, MATRIX = 2**30, 8192  # of the roofs


@dataclass(frozen=True)
class Point:
    """What to time: a kernel of the catalogue or a peer (peers.PEERS), on a problem. settings: pairs of compile-time constants, none for a peer."""

    name: str
    problem: object
    settings: tuple[tuple[str, int], ...] = ()
    cold: bool = True

    @property
    def is_peer(self):
        return self.name in peers.PEERS

    @property
    def request(self):
        return Request(catalog.find(self.name), self.problem, self.settings, backend="gpu")


@dataclass(frozen=True)
class Timing:
    """What a Point gave. status: ok; skipped (does not fit, or takes too long), unavailable (a peer that cannot), wrong or failed, with the reason.

    Times in microseconds of device time, of `runs` runs; peak_bytes: allocated for one run, inputs and outputs included; moved_bytes: the least
    that must go to and from device memory (plan_bytes; of a peer its inputs and its output), where the problem has `work`; clock in MHz,
    temperature in degrees Celsius and power in watts, each (before, after), None where they are not known.
    """

    point: Point
    status: str
    reason: str = ""
    runs: int = 0
    median_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    peak_bytes: int | None = None
    moved_bytes: int | None = None
    max_abs_error: float | None = None
    baseline_max_abs_error: float | None = None
    clock: tuple = (None, None)
    temperature: tuple = (None, None)
    power: tuple = (None, None)


def measure(point):
    """The Timing of a Point. A sticky CUDA error ends the worker, as ever; every other reason for no time is in the Timing."""
    try:
        with gpu.errors():
            return _measure(point)
    except TooLargeError as error:
        return Timing(point, "skipped", str(error))
    except PeerUnavailable as error:
        return Timing(point, "unavailable", str(error))
    except gpu.StickyError:
        raise
    except RunError as error:
        return Timing(point, "skipped" if "out of memory" in str(error) else "failed", str(error))


def _measure(point):
    import cupy

    _check_size(point)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    prepared = peers.prepare(point.name, point.problem, _inputs(point.problem)) if point.is_peer else _Kernel(point.request)
    outputs = prepared.first_run()
    error, baseline = execute.largest_error(_yardstick(point.problem), outputs), _baseline(point.problem)
    known = {"peak_bytes": prepared.peak_bytes, "moved_bytes": prepared.moved_bytes, "max_abs_error": error, "baseline_max_abs_error": baseline}
    broken = () if point.is_peer else point.request.broken
    if broken or not execute.is_correct(error, baseline):
        why = f"It is built broken on purpose ({', '.join(c.what_if.lower() for c in broken)}). " if broken else ""
        return Timing(point, "wrong", f"A wrong kernel gets no time. {why}{point.name} misses float64 by {error:.3g}, where torch misses it by "
                                      f"{baseline:.3g} and twice that is allowed.", **known)
    enqueuers = prepared.copies(_copies(prepared.set_bytes, point.cold))
    once = min(_time(enqueuers, 2))
    if once > 1e6 * SLOWEST_RUN:
        return Timing(point, "skipped", f"One run takes {once / 1e6:.1f} s; the limit is {SLOWEST_RUN:g} s.", **known)
    _time(enqueuers, max(2, min(1000, math.ceil(1e6 * WARM_UP / once))))
    before = _state()
    runs = max(LEAST_RUNS, min(MOST_RUNS, math.ceil(1e6 * SAMPLING / once)))
    times = _time(enqueuers, runs)
    after = _state()
    low, median, high = (round(float(v), 3) for v in np.percentile(times, (10, 50, 90)))
    clock, temperature, power = zip(before, after)
    return Timing(point, "ok", "", runs, median, low, high, **known, clock=clock, temperature=temperature, power=power)


def _check_size(point):
    """TooLargeError if it would take too long or does not fit, before anything is allocated."""
    import cupy

    problem = point.problem
    if not point.is_peer:
        reason = point.request.kernel.limits(problem, point.request.constants, gpu.device())
        if reason:
            raise TooLargeError(reason)
    seconds = 2 * problem.multiply_adds / SLOW_FLOPS
    if seconds > SLOWEST_RUN:
        raise TooLargeError(f"{point.name} at {problem.size} may take {seconds:.0f} s a run (estimated at {SLOW_FLOPS / 1e12:g} TFLOP/s); the limit is "
                            f"{SLOWEST_RUN:g} s. {problem.remedy}")
    written = {} if point.is_peer else point.request.plan.written
    needed = 3 * problem.input_bytes + 4 * sum(math.prod(shape) for shape in written.values())  # float64 of the inputs beside them
    free, _ = cupy.cuda.runtime.memGetInfo()
    if needed > free:
        raise TooLargeError(f"{point.name} at {problem.size} needs {needed / 2**30:.1f} GiB; the GPU has {free / 2**30:.1f} free. {problem.remedy}")


# ---- what is run ----


class _Kernel:
    """A kernel ready to run: arrays on the GPU, inputs as the problem makes them, everything else that it writes poisoned with NaN."""

    def __init__(self, request):
        import cupy

        self.made = build.build(request.kernel, defines(request.problem, request.constants), Mode.TIMED, gpu.device().target)
        self.plan, self.outputs = request.plan, request.problem.outputs
        inputs, types = _inputs(request.problem), request.problem.outputs
        pool = cupy.get_default_memory_pool()
        before = pool.used_bytes()
        self.arrays = {name: cupy.asarray(array) for name, array in inputs.items()}
        self.arrays |= {name: cupy.full(shape, np.nan, types.get(name, np.float32)) for name, shape in self.plan.written.items() if name not in inputs}
        self.peak_bytes = pool.used_bytes() - before
        self.rotated = [name for name in self.arrays if name in inputs or name in self.outputs]  # what lies between its launches stays where it is
        self.set_bytes = sum(self.arrays[name].nbytes for name in self.rotated)
        work = getattr(request.problem, "work", None)
        self.moved_bytes = plan_bytes(self.plan, {name: array.nbytes for name, array in self.arrays.items()} | work.touched) if work else None

    def first_run(self):
        """Runs once; the problem's outputs as NumPy arrays."""
        import cupy

        gpu.enqueuer(self.made, self.plan, self.arrays)()
        cupy.cuda.runtime.deviceSynchronize()
        return {name: self.arrays[name].get() for name in self.outputs}

    def copies(self, count):
        """`count` functions, each of which enqueues one run over arrays of its own."""
        sets = [self.arrays] + [self.arrays | {name: self.arrays[name].copy() for name in self.rotated} for _ in range(count - 1)]
        return [gpu.enqueuer(self.made, self.plan, arrays) for arrays in sets]


def plan_bytes(plan, nbytes):
    """The least a plan moves: each launch reads or writes each of its arrays once. nbytes: array -> bytes, of a paged cache those of its tokens."""
    return sum(nbytes[name] for launch in plan.launches for name in launch.args if isinstance(name, str))


@lru_cache(maxsize=1)
def _inputs(problem):
    return problem.inputs()


@lru_cache(maxsize=1)
def _baseline(problem):
    return execute.baseline(_yardstick(problem))


def _yardstick(problem):
    """A Request that stands for the problem alone: its truth and torch's error do not depend on the kernel."""
    kernel = next(spec for spec in catalog.KERNELS.values() if isinstance(problem, spec.problem_type))
    return Request(kernel, problem, backend="gpu")


def _copies(set_bytes, cold):
    """How many sets of arrays the runs take turns with."""
    return min(MOST_COPIES, 1 + math.ceil(L2_TIMES * l2_bytes() / max(set_bytes, 1))) if cold else 1


# ---- the clock ----


def _time(enqueuers, runs):
    """Microseconds of device time of `runs` runs, taking turns."""
    import cupy
    import torch

    started = time.perf_counter()
    enqueuers[-1]()
    python_seconds = time.perf_counter() - started + EVENTS_SECONDS
    times = []
    for first in range(0, runs, QUEUED):
        turns = range(first, min(runs, first + QUEUED))
        events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in turns]
        torch.cuda._sleep(int(2 * python_seconds * (len(turns) + 1) * CYCLES_PER_SECOND))  # the GPU waits until all is enqueued
        enqueuers[(first - 1) % len(enqueuers)]()  # the first timed run too follows another
        for turn, (start, end) in zip(turns, events):
            start.record()
            enqueuers[turn % len(enqueuers)]()
            end.record()
        cupy.cuda.runtime.deviceSynchronize()
        times += [1000 * cupy.cuda.get_elapsed_time(start, end) for start, end in events]
    return times


@lru_cache
def l2_bytes():
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])


def _state():
    """Clock (MHz), temperature (C) and power (W) of the GPU now; None for each that NVML does not tell."""
    try:
        import cupy
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(0).encode())
    except Exception:  # no NVML, or one that does not know this device: the time is good without it
        return None, None, None
    asks = (lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM), lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            lambda: round(pynvml.nvmlDeviceGetPowerUsage(handle) / 1000))
    return tuple(_ask(ask, pynvml.NVMLError) for ask in asks)


def _ask(ask, error):
    try:
        return ask()
    except error:
        return None


# ---- the machine's roofs ----


def _copier():
    import cupy

    source, target = cupy.ones(COPY_BYTES // 4, cupy.float32), cupy.empty(COPY_BYTES // 4, cupy.float32)
    return lambda: target.data.copy_from_device_async(source.data, source.nbytes, cupy.cuda.Stream.null)


@lru_cache
def roofs():
    """The machine's own ceilings, measured: copy_gb_per_s (device to device, read + written), fp32_tflops (lab_fma, its output checked) and
    fp16_tflops (torch's product of two 8192 x 8192 matrices of random halves, on the tensor cores)."""
    import torch

    with gpu.errors():
        copy = np.median(_time([_copier()], 20))
        problem = FmaProblem(gpu.device().multiprocessors * 64, 4096)
        fma = measure(Point("lab_fma", problem, cold=False))
        if fma.status != "ok":
            raise RunError(f"The fp32 roof could not be measured: {fma.reason}")
        a, b = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.float16) for _ in range(2))
        c = torch.empty_like(a)
        _time([lambda: torch.matmul(a, b, out=c)], 50)
        matrix = np.median(_time([lambda: torch.matmul(a, b, out=c)], 20))
    return {"copy_gb_per_s": round(float(2 * COPY_BYTES / copy / 1e3), 1), "fp32_tflops": round(2 * problem.multiply_adds / fma.median_us / 1e6, 2),
            "fp16_tflops": round(float(2 * MATRIX**3 / matrix / 1e6), 1)}
