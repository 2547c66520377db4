"""The timing protocol: kernels and peers on one problem, on the GPU. A CPU yields no times.

1. The timed build runs once over random inputs. Its other tensors start poisoned or zeroed, as they declare. Each
   output is compared with float64 (core/tolerance.py). A wrong output and a what-if build get no time.
2. Turns: all points of a problem run one after the other, again and again. The reason is that a chip with a power
   limit is slower after a neighbour that heats it. A single point has one turn, several have TURNS. If a run fails,
   each point is measured again in a run of its own.
3. Warm-up: each turn starts with WARM_UP seconds of the same runs, including Python's time to enqueue them. The clocks
   are then up, and everything is loaded.
4. Samples: device events around each run. The GPU waits until all runs are enqueued, so no launch waits for Python.
   With a cold L2, the runs take turns with copies of inputs and outputs. The copies together exceed twice the L2. If
   they are too small, the GPU reads other memory before each run. With a warm L2, the runs use the same arrays again.
   The timed run includes zeroing the tensors to which a kernel adds.
5. Sustained: after the turns, each point runs for half a second more without a pause (load.py).

The figures are the median and the 10th and 90th percentile of the runs. The program reads clock, temperature and power
before and after the turns. It reads clock and power during the sustained runs too.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from kernels import build, catalog
from kernels.build import Mode
from kernels.core.launch import Plan
from kernels.core.problem import Problem, inputs_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role
from kernels.core.tolerance import OutputError, worst
from kernels.errors import OutOfMemory, PeerUnavailable, RunError, TooLargeError
from kernels.measure import load, peers
from kernels.measure.judging import judged, verdict
from kernels.measure.peers import rival
from kernels.run.backends import gpu, gpu_arrays

TURNS = 5  # of each point, if several take turns
WARM_UP = 0.05  # seconds, in each turn
SAMPLING = 0.2  # seconds that the samples of one point may take, within the two limits that follow
LEAST_RUNS, MOST_RUNS = 5, 100
SLOWEST_RUN = 3.0  # seconds. A longer run gets no time
SLOW_FLOPS = 1e12  # per second: a low estimate of the slowest kernel, only to refuse runs before their launch
L2_TIMES, MOST_COPIES = 2, 256
COPY_BYTES, MATRIX = 2**30, 8192  # of the roofs
State = tuple[int | None, int | None]  # before, after


@dataclass(frozen=True)
class Point:
    """A kernel or a peer to time, on a problem.

    name: the kernel's name in the catalogue, the path of its .cu, or one of peers.NAMES.
    settings: pairs of compile-time constants, none for a peer.
    cold: with an L2 that holds none of the inputs."""

    name: str
    problem: Problem
    settings: tuple[tuple[str, int], ...] = ()
    cold: bool = True

    @property
    def is_peer(self) -> bool:
        return self.name in peers.NAMES

    @property
    def kernel(self) -> KernelSpec:
        return catalog.find(self.name)


@dataclass(frozen=True)
class Timing:
    """The result of a Point.

    status: ok, skipped (does not fit, or takes too long), unavailable (a peer without support), wrong or failed. Each
    comes with a reason.
    runs: their number. median_us, p10_us, p90_us: microseconds of device time of a run.
    peak_bytes: allocated for one run, with inputs and outputs.
    moved_bytes: the least traffic to and from device memory, for a problem with `work`. For a kernel it is plan_bytes,
    for a peer its inputs and its output.
    error: of the output with the largest share of its allowance.
    code_hash: of the kernel.
    clock, temperature, power: in MHz, degrees Celsius and watts, each (before, after), None if unknown.
    sustained: the times of a chip at work."""

    point: Point
    status: str
    reason: str = ""
    runs: int = 0
    median_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    peak_bytes: int | None = None
    moved_bytes: int | None = None
    error: OutputError | None = None
    code_hash: str = ""
    clock: State = (None, None)
    temperature: State = (None, None)
    power: State = (None, None)
    sustained: load.Sustained | None = None


@dataclass
class Ready:
    """A point with a correct output.

    known: its Timing so far.
    enqueuers: functions that enqueue a run. They take turns.
    before: enqueues the untimed part before each run.
    once_us: about the time of a run."""

    known: Timing
    enqueuers: list[Callable[[], object]]
    before: Callable[[], object]
    once_us: float


def measure(point: Point) -> Timing:
    """The Timing of a Point, also of a failed run. Only a sticky CUDA error ends the worker."""
    return measure_in_turns([point])[0]


def measure_in_turns(points: Sequence[Point], turns: int = TURNS) -> list[Timing]:
    """The Timing of each of these points of one problem. They take turns. Points without room next to the others wait
    until the others are done. If a run fails, each of its group is measured again in a run of its own.

    turns: of each point, at most 1 for a point without company. 0 gives only sustained times."""
    done: dict[Point, Timing] = {}
    waiting = []
    for point in points:
        try:
            _check_size(point, _request(point))
            waiting.append(point)
        except TooLargeError as error:
            done[point] = Timing(point, "skipped", str(error))
    while waiting:
        timed = _timed(_fitting(waiting, done), min(turns, 1) if len(points) == 1 else turns)
        done |= {timing.point: timing for timing in timed}
    return [done[point] for point in points]


def _fitting(waiting: list[Point], done: dict[Point, Timing]) -> list[Ready]:
    """The first points of `waiting` with room next to each other. It takes them from `waiting`. Points without a time
    go to `done`."""
    ready: list[Ready] = []
    for point in tuple(waiting):
        made = _prepared(point)
        if ready and isinstance(made, str):
            break
        waiting.remove(point)
        if isinstance(made, Ready):
            ready.append(made)
        else:
            done[point] = made if isinstance(made, Timing) else Timing(point, "skipped", made)
    return ready


def _timed(ready: list[Ready], turns: int) -> list[Timing]:
    """If a run fails, `ready` is emptied to free its arrays, and each point is measured in a run of its own."""
    try:
        with gpu.errors():
            return _sampled(ready, turns)
    except gpu.StickyError:
        raise
    except RunError as error:
        if len(ready) == 1:
            return [replace(ready[0].known, status="failed", reason=str(error))]
    points = [one.known.point for one in ready]
    ready.clear()
    return [timing for point in points for timing in measure_in_turns([point], turns)]


def _prepared(point: Point) -> Ready | Timing | str:
    """A point ready for samples, or its Timing if it gets no time. If it has no room now, the reason in words, because
    the error would keep its arrays."""
    try:
        with gpu.errors():
            return _ready(point)
    except (TooLargeError, OutOfMemory) as error:
        return str(error)
    except PeerUnavailable as error:
        return Timing(point, "unavailable", str(error))
    except gpu.StickyError:
        raise
    except RunError as error:
        return Timing(point, "failed", str(error))


def _request(point: Point) -> Request | None:
    return None if point.is_peer else Request(point.kernel, point.problem, point.settings, backend="gpu")


def _ready(point: Point) -> Ready | Timing:
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    request = _request(point)
    _check_size(point, request)
    inputs = inputs_of(point.problem)
    prepared = Kernel(request, inputs) if request else rival(point.name, point.problem, inputs)
    error = worst(judged(point.problem, prepared.first_run()))
    code_hash = request.kernel.code_hash if request else ""
    peak_bytes, moved_bytes = prepared.peak_bytes, prepared.moved_bytes
    known = Timing(point, "ok", peak_bytes=peak_bytes, moved_bytes=moved_bytes, error=error, code_hash=code_hash)
    broken = request.broken if request else ()
    if broken or not error.ok:
        built = f"It is built broken on purpose ({', '.join(c.what_if.lower() for c in broken)}). " if broken else ""
        status, reason = verdict(point.name, error)
        known = replace(known, status="wrong" if broken else status, reason=f"{built}{reason}")
        if known.status == "wrong":
            return known
    several = 1 + math.ceil(L2_TIMES * load.l2_bytes() / max(prepared.set_bytes, 1)) if point.cold else 1
    enqueuers = prepared.copies(min(MOST_COPIES, several))
    once = min(load.time_runs(enqueuers, 2))
    if once > 1e6 * SLOWEST_RUN:
        return replace(
            known, status="skipped", reason=f"One run takes {once / 1e6:.1f} s. The limit is {SLOWEST_RUN:g} s."
        )
    small = point.cold and len(enqueuers) * prepared.set_bytes < L2_TIMES * load.l2_bytes()
    return Ready(known, enqueuers, _reader() if small else lambda: None, once)


def _sampled(ready: Sequence[Ready], turns: int) -> list[Timing]:
    times: list[list[float]] = [[] for _ in ready]
    states: list[list[Any]] = [[] for _ in ready]
    for _ in range(turns):
        for one, mine, state in zip(ready, times, states):
            runs = max(LEAST_RUNS, min(MOST_RUNS, math.ceil(1e6 * SAMPLING / one.once_us)))
            end = time.perf_counter() + WARM_UP
            untimed = max(2, min(load.QUEUED, math.ceil(1e6 * WARM_UP / one.once_us)))
            while time.perf_counter() < end:
                load.time_runs(one.enqueuers, untimed)
            state.append(load.state())
            mine += load.time_runs(one.enqueuers, -(-runs // turns), one.before)
            state.append(load.state())
    hot = [load.sustained(one.enqueuers, one.before, one.once_us) for one in ready]
    found = []
    for one, mine, state, at_work in zip(ready, times, states, hot):
        if not turns:
            found.append(replace(one.known, sustained=at_work))
            continue
        speeds, temperatures, powers = zip(state[0], state[-1])
        low, median, high = (round(float(v), 3) for v in np.percentile(mine, (10, 50, 90)))
        known = replace(one.known, clock=speeds, temperature=temperatures, power=powers, sustained=at_work)
        found.append(replace(known, runs=len(mine), median_us=median, p10_us=low, p90_us=high))
    return found


def _check_size(point: Point, request: Request | None) -> None:
    """TooLargeError if it cannot run here, would take too long or does not fit, before anything is allocated."""
    problem = point.problem
    reason = request and request.kernel.cannot_run(problem, request.constants, gpu.device())
    if reason:
        raise TooLargeError(reason)
    if request and request.plan.devices > 1:
        raise TooLargeError(
            f"{point.name} at {problem.size} would run its GPUs one after another here, so it has no time. Choose one "
            "GPU, or python -m kernels measure rings on several."
        )
    seconds = 2 * problem.cpu_steps / SLOW_FLOPS
    if seconds > SLOWEST_RUN:
        raise TooLargeError(
            f"{point.name} at {problem.size} may take {seconds:.0f} s a run (estimated at {SLOW_FLOPS / 1e12:g} "
            f"TFLOP/s). The limit is {SLOWEST_RUN:g} s. {problem.remedy}"
        )
    written = sum(tensor.nbytes for tensor in request.plan.written) if request else 0
    needed = 3 * problem.input_bytes + written  # float64 of the inputs too
    free = gpu.free_bytes()
    if needed > free:
        raise TooLargeError(
            f"{point.name} at {problem.size} needs {needed / 2**30:.1f} GiB. The GPU has {free / 2**30:.1f} free. "
            f"{problem.remedy}"
        )


# ---- the runs ----


class Kernel:
    """A kernel ready to run: its tensors on the GPU, inputs as the problem makes them, everything else as it begins."""

    def __init__(self, request: Request, inputs: Mapping[str, np.ndarray]) -> None:
        import cupy

        self.made = build.build(request.kernel, request.defines, Mode.TIMED, gpu.device().target)
        self.plan, self.outputs = request.plan, [t.name for t in request.problem.outputs]
        pool = cupy.get_default_memory_pool()
        before = pool.used_bytes()
        self.arrays = {
            t.name: gpu_arrays.to_gpu(inputs[t.name]) if t.initial is Initial.GIVEN else gpu_arrays.fresh(t)
            for t in self.plan.tensors
        }
        self.peak_bytes = pool.used_bytes() - before
        # Tensors between its launches stay. Each run has another set of inputs and outputs.
        kept = {t.name for t in self.plan.tensors if t.role is Role.SCRATCH and t.initial is not Initial.GIVEN}
        self.rotated = [name for name in self.arrays if name not in kept]
        self.set_bytes = sum(self.arrays[name].nbytes for name in self.rotated)
        work = request.problem.work
        self.moved_bytes = plan_bytes(self.plan, work.touched) if work else None

    def first_run(self) -> dict[str, np.ndarray]:
        """Runs once. Returns the problem's outputs as NumPy arrays."""
        import cupy

        gpu.enqueuer(self.made, self.plan, self.arrays)()
        cupy.cuda.runtime.deviceSynchronize()
        return {name: gpu_arrays.to_numpy(self.arrays[name], self.plan.tensor(name)) for name in self.outputs}

    def copies(self, count: int) -> list[Callable[[], object]]:
        """`count` functions. Each enqueues one run over arrays of its own."""
        sets = [self.arrays]
        sets += [self.arrays | {name: self.arrays[name].copy() for name in self.rotated} for _ in range(count - 1)]
        return [gpu.enqueuer(self.made, self.plan, arrays) for arrays in sets]


def plan_bytes(plan: Plan, touched: Mapping[str, int]) -> int:
    """The least bytes that a plan moves: each launch reads or writes each of its tensors once. touched: tensor ->
    bytes of all its launches together, for tensors with another number than their own, such as a paged cache."""
    names = [name for launch in plan.launches for name in launch.tensors]
    whole = sum(plan.tensor(name).nbytes for name in names if name not in touched)
    return whole + sum(touched[name] for name in {*names} & {*touched})


@lru_cache(maxsize=1)
def _reader() -> Callable[[], object]:
    """A function that enqueues a read of enough memory to replace everything in the L2."""
    import torch

    read = torch.zeros(L2_TIMES * load.l2_bytes() // 4, device="cuda")
    total = torch.zeros((), device="cuda")
    return lambda: torch.sum(read, 0, out=total)


# ---- the machine's roofs ----


def _copier() -> Callable[[], None]:
    import cupy

    source, target = cupy.ones(COPY_BYTES // 4, cupy.float32), cupy.empty(COPY_BYTES // 4, cupy.float32)
    return lambda: target.data.copy_from_device_async(source.data, source.nbytes, cupy.cuda.Stream.null)


@lru_cache
def roofs() -> dict[str, float]:
    """The machine's own ceilings, measured: copy_gb_per_s (device to device, read + written), fp32_tflops (the lab's
    chains of multiply-adds, their output checked) and fp16_tflops (torch's product of two 8192 x 8192 matrices of
    random halves, on the tensor cores)."""
    import torch

    from kernels.families.lab.hierarchy import FmaProblem

    with gpu.errors():
        copy = np.median(load.time_runs([_copier()], 20))
        problem = FmaProblem(gpu.device().multiprocessors * 64, 4096)
        (name,) = list(catalog.current().of_problem(FmaProblem))[:1]
        fma = measure(Point(name, problem, cold=False))
        if fma.status != "ok" or not fma.median_us:
            raise RunError(f"The fp32 roof could not be measured: {fma.reason}")
        a, b = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.float16) for _ in range(2))
        c = torch.empty_like(a)
        load.time_runs([lambda: torch.matmul(a, b, out=c)], 50)
        matrix = np.median(load.time_runs([lambda: torch.matmul(a, b, out=c)], 20))
    return {
        "copy_gb_per_s": round(float(2 * COPY_BYTES / copy / 1e3), 1),
        "fp32_tflops": round(2 * problem.multiply_adds / fma.median_us / 1e6, 2),
        "fp16_tflops": round(float(2 * MATRIX**3 / matrix / 1e6), 1),
    }
