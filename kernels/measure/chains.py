"""Times of chains of launches, in recordings/data/chains/: a fused kernel, the separate kernels that it replaces, and
torch.compile of the same operations.

Each runs in a *stream*, where all launches are in the queue before the first starts, and in one CUDA *graph* of many
chains. Both with a hot L2 (every chain uses the same arrays) and a cold one (its arrays were last used more than twice
the L2 ago). All contestants of a problem take turns. The chain's outputs are judged against float64 first.
"""

import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Protocol

import numpy as np
import pandas as pd

from kernels import build, catalog
from kernels.build import Mode
from kernels.core.problem import Problem, inputs_of
from kernels.core.reference import on_device, on_host
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.errors import PeerUnavailable, WarpglassError
from kernels.measure import judging, load, protocol
from kernels.measure.bench_rows import problem_text, settings_text
from kernels.measure.in_worker import in_worker
from kernels.recordings import tables
from kernels.recordings.tables import RecordedTable, Row, by
from kernels.run.backends import Device, gpu

KIND = "chains"
L2 = ("hot", "cold")
TIME_LIMIT = 300.0  # seconds for one problem
COLUMNS = (
    *("fused", "name", "mode", "l2", "status", "reason", "launches", "us", "sustained_us", "clock", "power"),
    *("rounds", "sustained_rounds", "spans", "settings", "code_hash", "title", "problem"),
)
"""fused: the fused kernel of the comparison. name: this kernel, or torch.compile.
mode: stream or graph. l2: hot or cold. launches: of one chain.
us, sustained_us: of one chain, the median of the rounds, rested and on a chip at work (graphs only).
clock, power: MHz and W meanwhile.
rounds, sustained_rounds: JSON, us of each round. Equal places in two rows of a problem and an L2 are a raw pair.
spans: JSON, [start, end] of each launch in us from the start of the first, by the timeline build, with a hot L2.
Other columns are as in bench_rows.COLUMNS."""
COMPILED = "torch.compile"
SETS = 0  # as many sets of arrays as exceed the L2
MOST_SETS = 3000
BATCH, GRAPH = 150, 200  # chains in the queue at once, and at least in a graph
ROUNDS, SECONDS, LEAD = (5, 3), (0.015, 0.08), 0.1  # rested, sustained
SPAN_RUNS = 9  # of which the median counts
PROTOCOL = (
    f"rested: {ROUNDS[0]} rounds of {SECONDS[0]:g} s. sustained: {ROUNDS[1]} of {SECONDS[1]:g} s. A graph has at least "
    f"{GRAPH} chains. In a stream, {BATCH} chains are queued before the first starts"
)
Enqueue = Callable[[], object]
Timed = tuple[float, load.State]
"""us of one chain, and clock and power meanwhile."""


class Chain(Protocol):
    """A contestant. launches: of one chain, None if unknown."""

    launches: int | None

    def first_run(self) -> dict[str, np.ndarray]: ...

    def runs(self, sets: int) -> list[Enqueue]:
        """A function per set of arrays. Each enqueues one chain on the current stream of CuPy and torch."""

    def spans(self, mode: str) -> list[list[float]]:
        """[start, end] of each launch in us, empty if they are unknown."""


@dataclass
class Turn:
    """The us of one chain in each round, and the clock and power of a chip at work."""

    rounds: list[float] = field(default_factory=list)
    sustained: list[float] = field(default_factory=list)
    state: dict[str, int | None] = field(default_factory=lambda: {"clock": None, "power": None})


def _count(set_bytes: int) -> int:
    """Sets of arrays that exceed the L2 twice."""
    return min(MOST_SETS, 1 + math.ceil(protocol.L2_TIMES * load.l2_bytes() / max(set_bytes, 1)))


class Ours:
    """A kernel of the catalogue."""

    def __init__(self, request: Request, inputs: Mapping[str, np.ndarray]) -> None:
        self._request, self._kernel = request, protocol.Kernel(request, inputs)
        self.launches: int | None = len(request.plan.launches)

    def first_run(self) -> dict[str, np.ndarray]:
        return self._kernel.first_run()

    def runs(self, sets: int) -> list[Enqueue]:
        return self._kernel.copies(sets or _count(self._kernel.set_bytes))

    def spans(self, mode: str) -> list[list[float]]:
        """The last chain of a stream or a graph, by the timeline build: the median of several runs."""
        import cupy

        plan = self._request.plan
        made = build.build(self._request.kernel, self._request.defines, Mode.TIMELINE, gpu.device().target)
        times = [cupy.zeros(step.blocks * gpu.BLOCK_TIME.itemsize, cupy.uint8) for step in plan.launches]
        enqueue = gpu.enqueuer(made, plan, self._kernel.arrays, [(time,) for time in times])
        enqueue()
        run = MODES[mode]([enqueue])
        found = []
        for _ in range(SPAN_RUNS):
            run.turn(0)
            ends = [each.get().view(gpu.BLOCK_TIME) for each in times]
            spans = np.array([(blocks["start"][blocks["end"] > 0].min(), blocks["end"].max()) for blocks in ends])
            found.append((spans - spans[0, 0]) / 1000)
        return np.median(found, axis=0).round(3).tolist()


class Compiled:
    """torch.compile of the problem's chain in torch."""

    launches: int | None = None  # known only to the compiler

    def __init__(self, problem: Problem, inputs: Mapping[str, np.ndarray]) -> None:
        import torch

        torch._dynamo.reset()  # else torch gives up after eight problems
        self._problem, self._chain = problem, torch.compile(problem.torch_chain(), fullgraph=True, dynamic=False)
        self._given = {name: on_device(array, "cuda") for name, array in inputs.items()}

    def first_run(self) -> dict[str, np.ndarray]:
        import torch
        from torch._inductor import metrics

        metrics.reset()
        try:
            made = self._chain(**{name: tensor.clone() for name, tensor in self._given.items()})
            torch.cuda.synchronize()
        except Exception as error:  # of the compiler, of any kind
            said = str(error).strip().splitlines() or [repr(error)]
            raise PeerUnavailable(f"torch.compile: {said[0][:200]}") from None
        self.launches = metrics.generated_kernel_count or None
        return {tensor.name: on_host(made[tensor.name]) for tensor in self._problem.outputs}

    def runs(self, sets: int) -> list[Enqueue]:
        count = sets or _count(sum(tensor.nbytes for tensor in self._given.values()))
        each = [{name: tensor.clone() for name, tensor in self._given.items()} for _ in range(count)]
        return [partial(self._chain, **given) for given in each]

    def spans(self, mode: str) -> list[list[float]]:
        return []


class Stream:
    """Successive chains in a stream. The GPU waits until a batch is in the queue."""

    def __init__(self, runs: list[Enqueue]) -> None:
        self._runs = runs
        self._next, self._made = 0, list[object]()
        self._batch()
        started = time.perf_counter()
        self._batch()
        self._waits = 1.5 * (time.perf_counter() - started)

    def turn(self, seconds: float) -> Timed:
        """Batches for so many seconds, at least one."""
        import torch

        total, count, end = 0.0, 0, time.perf_counter() + seconds
        while not count or time.perf_counter() < end:
            torch.cuda._sleep(int(self._waits * load.CYCLES_PER_SECOND))
            total += _timed(self._batch)[0]
            count += BATCH
        return 1e6 * total / count, (None, None)

    def _batch(self) -> None:
        """Results stay until the next chain of their arrays. So a chain writes cold arrays if it reads cold ones."""
        for _ in range(BATCH):
            self._made.append(self._runs[self._next % len(self._runs)]())
            self._next += 1
            del self._made[: -len(self._runs)]


class Graph:
    """Successive chains in a CUDA graph."""

    def __init__(self, runs: list[Enqueue]) -> None:
        import cupy
        import torch

        self._chains = len(runs) * math.ceil(GRAPH / len(runs))
        runs[0]()
        torch.cuda.synchronize()
        self._graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(self._graph, stream=stream), cupy.cuda.ExternalStream(stream.cuda_stream):
            made = deque[object](maxlen=len(runs))  # as in a stream
            for n in range(self._chains):
                made.append(runs[n % len(runs)]())
        self._kept = runs, made  # the graph has only their addresses
        self._graph.replay()
        self._once = _timed(self._graph.replay)[0]

    def turn(self, seconds: float) -> Timed:
        """Replays for about so many seconds, at least one."""
        count = max(1, round(seconds / self._once))

        def replay() -> None:
            for _ in range(count):
                self._graph.replay()

        total, state = _timed(replay)
        return 1e6 * total / count / self._chains, state


def _timed(enqueue: Enqueue) -> tuple[float, load.State]:
    """(seconds of device time, clock and power at the end)."""
    import cupy

    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    enqueue()
    end.record()
    state = load.watched(end)
    end.synchronize()
    return cupy.cuda.get_elapsed_time(start, end) / 1000, state


MODES: dict[str, Callable[[list[Enqueue]], Stream | Graph]] = {"stream": Stream, "graph": Graph}


def in_turns(runs: Sequence[Stream | Graph], sustained: bool) -> list[Turn]:
    turns = [Turn() for _ in runs]
    for run in runs:
        run.turn(SECONDS[0])
    for _ in range(ROUNDS[0]):
        for run, turn in zip(runs, turns):
            turn.rounds.append(round(run.turn(SECONDS[0])[0], 4))
    if not sustained:
        return turns
    states: list[list[load.State]] = [[] for _ in runs]
    runs[0].turn(LEAD)
    for _ in range(ROUNDS[1]):
        for run, turn, mine in zip(runs, turns, states):
            us, state = run.turn(SECONDS[1])
            turn.sustained.append(round(us, 4))
            mine.append(state)
    for turn, mine in zip(turns, states):
        for name, values in zip(("clock", "power"), zip(*mine)):
            known = [value for value in values if value is not None]
            turn.state[name] = round(float(np.median(known))) if known else None
    return turns


# ---- a comparison ----


@dataclass(frozen=True)
class Case:
    """A fused kernel and its separate kernels on a problem."""

    fused: KernelSpec
    separate: KernelSpec
    problem: Problem

    @property
    def kernels(self) -> tuple[KernelSpec, KernelSpec]:
        return self.separate, self.fused


def cases() -> list[Case]:
    """Every fused kernel on the problems that its class declares."""
    there = catalog.current()
    return [
        Case(spec, separate, problem)
        for spec in there.kernels.values()
        if (separate := there.separate_of(spec)) is not None
        for problem in spec.problem_type.chain_problems()
    ]


@dataclass
class Side:
    """One contestant after its judgment.

    chain: ready to run, None without a time.
    turns: (mode, L2) -> its times."""

    name: str
    status: str = "ok"
    reason: str = ""
    chain: Chain | None = None
    turns: dict[tuple[str, str], Turn] = field(default_factory=dict)


def meet(case: Case) -> list[Row]:
    """The rows of a case. Runs in the GPU's worker."""
    with gpu.errors():
        problem, inputs = case.problem, inputs_of(case.problem)
        sides = []
        for spec in case.kernels:
            request = Request(spec, problem, tuple(spec.settings_for(problem).items()), backend="gpu")
            sides.append(_side(spec.name, problem, partial(Ours, request, inputs)))
        sides.append(_side(COMPILED, problem, partial(Compiled, problem, inputs)))
        for l2 in L2:
            _take_turns([side for side in sides if side.chain], l2)
        return [row for side in sides for row in _rows(case, side)]


def _side(name: str, problem: Problem, made: Callable[[], Chain]) -> Side:
    """A contestant, judged. It gets no time if it cannot run, or if its outputs are wrong."""
    try:
        with gpu.errors():
            chain = made()
            outputs = chain.first_run()
    except gpu.StickyError:
        raise
    except (PeerUnavailable, WarpglassError) as error:
        return Side(name, "unavailable", str(error))
    status, reason = judging.verdict(name, worst(judging.judged(problem, outputs)))
    if name == COMPILED and status == "wrong":
        status = "less accurate" if "rounding" in reason else status
    return Side(name, status, reason, chain if status != "wrong" else None)


def _take_turns(sides: Sequence[Side], l2: str) -> None:
    for mode, make in MODES.items():
        runs = [make(side.chain.runs(SETS if l2 == "cold" else 1)) for side in sides if side.chain]
        for side, turn in zip(sides, in_turns(runs, sustained=mode == "graph")):
            side.turns[mode, l2] = turn


def _rows(case: Case, side: Side) -> Iterator[Row]:
    spec = catalog.current().kernels.get(side.name)
    made: dict[str, object] = {"fused": case.fused.name, "name": side.name, "status": side.status}
    made |= {"reason": side.reason or None, "title": case.problem.title, "problem": problem_text(case.problem)}
    made |= {"launches": side.chain.launches if side.chain else None}
    if spec:
        made |= {"code_hash": spec.code_hash, "settings": settings_text(spec.settings_for(case.problem).items())}
    if not side.turns:
        yield dict.fromkeys(COLUMNS) | made
    for (mode, l2), turn in side.turns.items():
        spans = side.chain.spans(mode) if side.chain and l2 == "hot" else []
        times: dict[str, object] = {"us": _median(turn.rounds), "sustained_us": _median(turn.sustained), **turn.state}
        times |= {"rounds": json.dumps(turn.rounds), "sustained_rounds": json.dumps(turn.sustained)}
        yield dict.fromkeys(COLUMNS) | made | times | {"mode": mode, "l2": l2, "spans": json.dumps(spans)}


def _median(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 3) if values else None


# ---- the table ----


def _all_cases(device: Device, _: object) -> tables.Cases:
    made = []
    for case in cases():
        names = (*(spec.name for spec in case.kernels), COMPILED)
        keys = [(case.fused.name, problem_text(case.problem), name) for name in names]
        name = f"{case.fused.name}, {case.problem.size}"
        made.append(tables.Case(name, keys, lambda _, c=case: in_worker("Chains", meet, c, limit=TIME_LIMIT)))
    return made, {"torch": metadata.version("torch"), "protocol": PROTOCOL}


def _present(made: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    """The rows of the cases, without kernels of another code or with other constants."""
    parts = [made.iloc[:0]]
    for case in cases():
        rows = made[(made.fused == case.fused.name) & (made.problem == problem_text(case.problem))]
        for spec in case.kernels:
            settings = settings_text(spec.settings_for(case.problem).items())
            stale = (rows.code_hash != spec.code_hash) | (rows.settings.fillna("") != settings)
            rows = rows[(rows["name"] != spec.name) | ~stale]
        parts.append(rows)
    return pd.concat(parts)


TABLE = RecordedTable(KIND, by("fused", "problem", "name"), _all_cases, COLUMNS, _present)


def recorded(spec: KernelSpec) -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The recorded rows of a fused kernel with the present code and constants of both kernels, of the newest table.
    None without one."""
    for made, where in TABLE.recorded().values():
        if len(rows := made[made.fused == spec.name]):
            return rows.reset_index(drop=True), where
    return None
