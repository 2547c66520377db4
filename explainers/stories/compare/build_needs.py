"""The needs of a build on the timed problem, and the measured rates of a GPU.

Counted: bytes, wavefronts and multiply-adds, from logged addresses of a run of the timed build.
Modelled: the least time of each resource by itself. It is the amount over the measured rate, with all SMs busy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.story import axes
from kernels.build.occupancy import Occupancy
from kernels.core.launch import TensorMap
from kernels.core.request import Request
from kernels.core.tensors import Role
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model, traced


@dataclass(frozen=True)
class Rates:
    """Measured rates of one GPU.

    shared, l2: bytes per second of all SMs.
    arithmetic: for each side, its name and FLOP per second.
    multiprocessors: the number of SMs.
    warps: the most warps of an SM.
    """

    shared: float
    l2: float
    arithmetic: tuple[tuple[str, float], tuple[str, float]]
    multiprocessors: int
    warps: int


@dataclass(frozen=True)
class Figures:
    """The needs of one build on the whole timed problem.

    multiply_adds: of the timed problem.
    wavefronts, conflicts, global_bytes: counted, and scaled by the multiply-adds if a smaller problem ran.
    fetched: elements of inputs, counted and scaled in the same way.
    blocks, threads, held: of the largest launch. held is the number of its blocks on an SM.
    launches: their number.
    limited_by: the resources with the least blocks.
    uncounted: see `uncounted`. The wavefronts are then only a part.
    """

    multiply_adds: float
    wavefronts: float
    conflicts: float
    global_bytes: float
    fetched: float
    blocks: int
    threads: int
    held: int
    launches: int
    limited_by: str
    uncounted: Sequence[str] = ()

    def busy(self, rates: Rates) -> float:
        """Returns the share of SMs with a block, over all waves of the grid."""
        waves = -(-self.blocks // rates.multiprocessors)
        return self.blocks / (waves * rates.multiprocessors)

    def warps(self, rates: Rates) -> int:
        """Returns the most warps on the GPU at once."""
        return min(self.blocks, self.held * rates.multiprocessors) * (self.threads // 32)


def figures(run: Run, traffic: Traffic | None, occupancy: Sequence[Occupancy], times: float) -> Figures:
    """Returns the Figures of a traced run.

    traffic: counts of the whole run, None if its traced items represent all others.
    times: the timed problem's multiply-adds over the run's.
    """
    request = run.request
    moved, shared_scale = _scaled_bytes(run, traffic)
    shared = traced.requests(run.trace, space="shared").costs
    wavefronts, ideal = shared_scale * float(shared.wavefronts.sum()), shared_scale * float(shared.ideal.sum())
    itemsize = {symbol: t.itemsize for symbol, t in axes.tensors(request).items() if t.role is Role.INPUT}
    fetched = sum(size / itemsize[tensor] for (tensor, read), size in moved.items() if read and tensor in itemsize)
    largest = max(occupancy, key=lambda launch: launch.grid_blocks * launch.threads)
    return Figures(
        multiply_adds=times * request.problem.work.flops / 2,
        wavefronts=times * wavefronts,
        conflicts=times * (wavefronts - ideal),
        global_bytes=times * sum(moved.values()),
        fetched=times * fetched,
        blocks=largest.grid_blocks,
        threads=largest.threads,
        held=largest.blocks,
        launches=len(occupancy),
        limited_by=largest.limited_by,
        uncounted=uncounted(request),
    )


def uncounted(request: Request) -> list[str]:
    """Returns the accesses of shared memory without addresses in a trace: the reads of wgmma and the writes of TMA."""
    boxes = any(isinstance(arg, TensorMap) for launch in request.plan.launches for arg in launch.args)
    return ["wgmma"] * ("wgmma" in request.kernel.instructions) + ["TMA"] * boxes


def _scaled_bytes(run: Run, traffic: Traffic | None) -> tuple[dict[tuple[str, bool], float], float]:
    """Returns (tensor, is read) -> bytes of global memory in the whole run, and the scale of its shared accesses."""
    items = run.request.plan.items / run.request.scope.count
    if traffic is None:
        records = run.trace.frame("event", "space", "tensor", "bytes").rename(columns={"event": "kind"})
        return _moved(records, items), items
    scale = 1.0 if traffic.whole else items
    shared = traffic.table[traffic.table.space == "shared"]
    lanes = float(traced.requests(run.trace, space="shared").costs.active.sum())  # each lane's access is one record
    shared_scale = scale * float(shared.accesses.sum()) / lanes if lanes else 0.0
    return _moved(traffic.table, scale), shared_scale


def _moved(accesses: pd.DataFrame, scale: float) -> dict[tuple[str, bool], float]:
    """Returns (tensor, is read) -> bytes in global memory, times scale."""
    rows = accesses[accesses.space == "global"]
    by_tensor = rows.assign(tensor=rows.tensor.astype(str), read=rows.kind.isin(READS)).groupby(["tensor", "read"])
    return {key: scale * float(size) for key, size in by_tensor.bytes.sum().items()}


def least_times(figures: Sequence[Figures], rates: Rates) -> dict[str, tuple[float, float]]:
    """Returns what -> microseconds of each side for this need only, by the model, with all SMs busy."""
    turns = _of_both(lambda n, f: f.wavefronts * model.LINE / rates.shared, figures)
    return {
        **({} if any(f.uncounted for f in figures) else {"wavefronts": turns}),
        "bytes": _of_both(lambda n, f: f.global_bytes / rates.l2, figures),
        "arithmetic": _of_both(lambda n, f: 2 * f.multiply_adds / rates.arithmetic[n][1], figures),
    }


def _of_both(seconds: Callable[[int, Figures], float], figures: Sequence[Figures]) -> tuple[float, float]:
    a, b = (1e6 * seconds(n, f) for n, f in enumerate(figures))
    return a, b
