"""Times of attention over several real GPUs, in recordings/data/rings/: a ring of keys, and heads over GPUs.

All ways of a problem take turns in one process (load.in_turns): the ring, its launches without copies, its copies
without launches, the same kernel on one GPU, the last rung on one GPU, and whole heads on each GPU. Copies hardly load
a chip, and a run on one GPU leaves the other one idle. Therefore each sustained turn starts with SETTLE seconds of its
own load. A GPU at its power limit changes its clock all the time, so a sustained turn has TURN seconds. Each output of
our kernels is judged first (core/tolerance.py). Launches without copies have wrong outputs, and copies have none. They
only show how much of the copies the launches hide.

torch's ring and NCCL's copies run in processes of their own, right before. ring_peers.py has the rule for their
outputs.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kernels import build, catalog
from kernels.build import Mode
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.errors import BackendUnavailable
from kernels.families.ring.problem import RingProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import load, meeting, ring_peers
from kernels.measure.bench_rows import problem_text, settings_text
from kernels.measure.judging import judged, missed
from kernels.measure.nearest_times import nearest
from kernels.recordings import tables
from kernels.recordings.tables import Case, Cases, Progress, RecordedTable, by, silent
from kernels.run.backends import Device, gpu, gpus

if TYPE_CHECKING:
    import cupy

KIND = "rings"
LENGTHS, HEADS, HEAD_DIM = (65536, 16384), 8, 128
LINK_BYTES, LINK_RUNS = 2**28, 10  # of a copy for the bandwidth of the link
SETTLE, TURN = 0.8, 0.8  # seconds of load before a sustained turn, and of the turn
STATES = (meeting.RESTED, replace(meeting.SUSTAINED, seconds=TURN))
WATCHED = 0.6  # seconds of load for the states of the GPUs
BATCH_SECONDS, READ_SECONDS = 0.04, 0.01
POWER, HEAT = 0x4, 0x20 | 0x40  # bits of NVML's reasons for a lower clock: SwPowerCap, SwThermal and HwThermalSlowdown
SPAN_RUNS = 10  # runs with spans, for the share of hidden copies
RING, NO_COPIES, COPIES, ONE, LAST_RUNG, SPLIT = "ring", "launches", "copies", "one GPU", "last rung", "heads"
FASTEST_ALONE = "fastest on one GPU"  # the strongest rival: ONE or LAST_RUNG
COLUMNS = (
    *("way", "name", "gpus", "seq_len", "num_heads", "head_dim", "causal", "order", "status", "us", "sustained_us"),
    *("flops", "copied_bytes", "rounds", "sustained_rounds", "sustained_clock", "sustained_power", "launches"),
    *("copies", "hidden", "states", "max_abs_error", "allowed_error", "settings", "code_hash", "problem", "reason"),
)
"""way: a name above, or a peer's.
us, sustained_us: the median of the rounds, in microseconds. rounds, sustained_rounds: JSON of all rounds, in turns.
flops: of the problem. copied_bytes: between GPUs, all together.
launches, copies: JSON of the spans in a run: [device, step, begin, end] in microseconds, by the device's own clock.
hidden: JSON of the shares of hidden copies in SPAN_RUNS runs. states: JSON of the GpuState of each GPU during runs."""
Row = dict[str, object]
Spans = Sequence[tuple[int, int, float, float]]  # as in the columns launches and copies


@dataclass
class Way:
    """A way to compute a problem, ready to run.

    row: its columns so far. enqueue: enqueues a run. plan: its plan on the GPUs."""

    row: Row
    enqueue: Callable[[], object]
    plan: gpus.ReadyPlan


def problems(count: int) -> list[RingProblem]:
    """Full attention, and causal attention in both orders."""
    masks = ((False, "plain"), (True, "zigzag"), (True, "plain"))
    return [
        RingProblem(length, HEAD_DIM, HEADS, causal, gpus=count, order=order)
        for length, (causal, order) in product(LENGTHS, masks)
    ]


def _measured(problem: RingProblem, _: object) -> list[Row]:
    import cupy

    kernel = _fastest(RingProblem())
    ways = _ways(kernel, problem, RING, NO_COPIES, COPIES) + _ways(kernel, replace(problem, gpus=1), ONE)
    ways += _ways(_fastest(problem.whole), problem.whole, LAST_RUNG)
    if not (problem.order == "plain" and problem.causal):
        ways += _ways(kernel, replace(problem, split="heads", order="plain"), SPLIT)
    timed = [way for way in ways if way.row["status"] == "ok"]
    for state in STATES:
        times, states = load.in_turns(
            [[way.enqueue] for way in timed],
            state.seconds,
            state.rounds,
            state.lead,
            *([SETTLE] if state.prefix else []),
        )
        for way, mine, seen in zip(timed, times, states):
            way.row[f"{state.prefix}us"] = round(float(np.median(mine)), 2)
            way.row[f"{state.prefix}rounds"] = json.dumps([round(float(t), 2) for t in mine])
            if state.prefix:
                for name, column in zip(("clock", "power"), zip(*seen)):
                    known = [value for value in column if value is not None]
                    way.row[f"sustained_{name}"] = float(np.median(known)) if known else None
    for way in timed:
        if way.row["way"] in (RING, SPLIT, ONE):
            way.row |= _runs(way)
    rows = [way.row | {"turns": problem_text(problem)} for way in ways]
    del ways, timed
    for device in range(problem.gpus):
        with cupy.cuda.Device(device):
            cupy.get_default_memory_pool().free_all_blocks()
    return rows


def _runs(way: Way) -> Row:
    """The spans of a run, the hidden share of each of SPAN_RUNS runs, and the states of the GPUs."""
    shares, plan = [], way.plan.plan
    for _ in range(SPAN_RUNS):
        way.enqueue()
        spans, moves = way.plan.spans()
        launches = [(step.device, step.step, *span) for step, span in zip(plan.launches, spans)]
        moved = zip(way.plan.of_copy, plan.copies, moves)
        copies = [(device, copy.step, *span) for device, copy, span in moved]
        shares += [round(hidden(launches, copies), 4)] if copies else []
    once = float(str(way.row["sustained_us"]))
    states = [asdict(state) for state in watched(way.enqueue, once, WATCHED, SETTLE)]
    texts = {"launches": launches, "copies": copies, "hidden": shares, "states": states}
    return {name: json.dumps(value) for name, value in texts.items()}


def hidden(launches: Spans, copies: Spans) -> float:
    """The share of the copies' time during which their GPU multiplies."""
    covered = sum(
        max(0.0, min(end, ended) - max(begin, began))
        for device, _, begin, end in copies
        for own, _, began, ended in launches
        if own == device
    )
    return covered / sum(end - begin for _, _, begin, end in copies)


def _fastest(problem: Problem) -> KernelSpec:
    """The kernel with the least recorded time for the problem, the last rung without times."""
    device = gpu.device()
    solving = [spec for spec in catalog.current().kernels.values() if spec.solves(problem)]
    fitting = [spec for spec in solving if not spec.cannot_run(problem, spec.settings_for(problem), device)]

    def rank(spec: KernelSpec) -> tuple[float, int]:
        known = nearest(spec, problem, device)
        return known.us if known else math.inf, -spec.rung

    return min(fitting, key=rank)


def _ways(kernel: KernelSpec, problem: RingProblem | SixteenBitProblem, *names: str) -> list[Way]:
    """The ways of a kernel on a problem, over one set of tensors. The first one is judged."""
    settings = kernel.settings_for(problem)
    request = Request(kernel, problem, tuple(settings.items()), backend="gpu")
    made = build.build(kernel, request.defines, Mode.TIMED, gpu.device().target)
    ready = gpus.ReadyPlan(made, request.plan, problem.inputs())
    ready.enqueue()
    error = worst(judged(problem, ready.outputs()))
    said = {
        "settings": settings_text(settings.items()),
        "code_hash": kernel.code_hash,
        "problem": problem_text(problem),
    }
    errors = {"max_abs_error": error.largest, "allowed_error": error.allowed}
    rest = {"status": "ok"} if error.ok else {"status": "wrong", "reason": missed(kernel.name, error)}
    copied = sum(request.plan.tensor(copy.source).nbytes for copy in request.plan.copies)
    parts = {NO_COPIES: {"copies": False}, COPIES: {"launches": False}}
    common = {"name": kernel.name, "gpus": request.plan.devices, "flops": problem.work.flops, **said, **errors, **rest}
    return [
        Way(
            _row(problem, way=name, copied_bytes=0 if name == NO_COPIES else copied, **common),
            partial(ready.enqueue, **parts.get(name, {})),
            ready,
        )
        for name in names
    ]


def _row(problem: Problem, /, **said: object) -> Row:
    fields = problem.values()
    return {name: fields.get(name) for name in ("seq_len", "num_heads", "head_dim", "causal", "order", "gpus")} | said


def _link() -> dict[str, float]:
    """GB/s of copies from GPU 0 to GPU 1: one way, and in each direction with both ways at once."""
    import cupy

    buffers, streams = [], []
    for device in range(2):
        with cupy.cuda.Device(device):
            buffers.append([cupy.zeros(LINK_BYTES, cupy.uint8) for _ in range(2)])
            streams.append(cupy.cuda.Stream(non_blocking=True))
    gpus.connect(2)

    def seconds(ways: tuple[int, ...]) -> float:
        ends = []
        for device in ways:
            with cupy.cuda.Device(device):
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record(streams[device])
                source, target = buffers[device][0], buffers[1 - device][1]
                for _ in range(LINK_RUNS):
                    cupy.cuda.runtime.memcpyPeerAsync(
                        target.data.ptr, 1 - device, source.data.ptr, device, LINK_BYTES, streams[device].ptr
                    )
                end.record(streams[device])
                ends.append((device, begin, end))
        times = []
        for device, begin, end in ends:
            with cupy.cuda.Device(device):
                end.synchronize()
                times.append(cupy.cuda.get_elapsed_time(begin, end) / 1000)
        return max(times)

    seconds((0,))
    rates = {"one_way": seconds((0,)), "both_ways": seconds((0, 1))}
    return {name: round(LINK_RUNS * LINK_BYTES / took / 1e9, 1) for name, took in rates.items()}


# ---- the GPUs during runs ----


@dataclass(frozen=True)
class GpuState:
    """A GPU during runs. None for a figure that NVML does not give.

    clock: MHz, the median. power: W, the median.
    capped, hot: the share of the readings at which the power cap, or heat, held the clock down."""

    clock: float | None
    power: float | None
    capped: float | None
    hot: float | None


Reading = tuple[int | None, int | None, int | None]  # MHz, W and the reasons for a lower clock, at one instant


def watched(enqueue: Callable[[], object], once_us: float, seconds: float, lead: float) -> list[GpuState]:
    """The GpuState of each GPU during runs of `seconds`, after `lead` seconds of the same load. Empty without NVML.

    once_us: about the time of a run."""
    import cupy

    devices = range(cupy.cuda.runtime.getDeviceCount())
    if any(load.handle_of(device) is None for device in devices):
        return []
    batch = max(1, round(1e6 * BATCH_SECONDS / once_us))
    found: list[list[Reading]] = [[] for _ in devices]
    started, ends = time.perf_counter(), [_enqueued(enqueue, batch)]
    while time.perf_counter() < started + lead + seconds:
        ends.append(_enqueued(enqueue, batch))  # one batch waits, so no GPU does
        while not ends[0].done:
            if time.perf_counter() > started + lead:
                for device in devices:
                    found[device].append((*load.under_load(device), load.slowed(device)))
            time.sleep(READ_SECONDS)
        ends.pop(0)
    ends[0].synchronize()
    return [state_of(own) for own in found if own]


def _enqueued(enqueue: Callable[[], object], count: int) -> "cupy.cuda.Event":
    import cupy

    for _ in range(count):
        enqueue()
    end = cupy.cuda.Event()
    end.record()
    return end


def state_of(readings: Sequence[Reading]) -> GpuState:
    clocks, powers, reasons = ([value for value in column if value is not None] for column in zip(*readings))
    capped, hot = (
        round(sum(bool(r & bits) for r in reasons) / len(reasons), 3) if reasons else None for bits in (POWER, HEAT)
    )
    return GpuState(median(clocks) if clocks else None, median(powers) if powers else None, capped, hot)


# ---- the table ----


def _cases(device: Device, kept: tables.Kept | None) -> Cases:
    asked = problems(gpus.count())
    with_peers = [p for p in asked if p.seq_len == LENGTHS[0] and p.zigzag == p.causal]  # torch's own orders
    cases = [Case(p.size, [(_of_peers(p.seq_len, p.causal, p.order),)], partial(_peers, p)) for p in with_peers]
    cases += [Case(p.size, [(problem_text(p),)], partial(_measured, p)) for p in asked]
    link = kept.where.more.get("link") if kept else None
    said = {
        "gpus": gpus.count(),
        "link": link or _link(),
        "torch": metadata.version("torch"),
        "protocol": ". ".join(
            f"{state.prefix.strip('_') or 'rested'}: {state.rounds} rounds of {state.seconds:g} s"
            f"{f' after {state.lead:g} s of load' if state.lead else ''}"
            f"{f', each after {SETTLE:g} s of its own load' if state.prefix else ''}"
            for state in STATES
        ),
    }
    return cases, said


def _of_peers(seq_len: int, causal: bool, order: str) -> str:
    return f"peers {seq_len} {causal} {order}"


def _peers(problem: RingProblem, _: object) -> list[Row]:
    return [
        _row(problem, turns=_of_peers(problem.seq_len, problem.causal, problem.order), **said)
        for said in ring_peers.times(problem)
    ]


def _present(table: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    """The peers, and the ways that took turns with a ring of the present code. No row without one of these rings. The
    column turns has the problem of the ring, or the problem of the peers."""
    ring = table.way == RING
    here = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    turns = table.problem.where(ring).ffill().fillna("")
    turns = turns.where(turns != "", [*map(_of_peers, table.seq_len, table.causal, table.order)])
    present = ring & (table.code_hash == table["name"].map(here))
    table = table.assign(turns=turns)
    return table[~turns.isin(turns[ring & ~present])] if present.any() else table.iloc[:0]


TABLE = RecordedTable(KIND, by("turns"), _cases, COLUMNS, _present)


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Measures every problem on all GPUs of this machine (TABLE.record). BackendUnavailable with fewer than two."""
    count = gpus.count()
    if count < 2:
        raise BackendUnavailable(f"Times of a ring need at least two GPUs. This machine has {count}.")
    return TABLE.record(replace(device, name=f"{count} x {device.name}"), progress, anew)


def all_recorded() -> list[tuple[pd.DataFrame, tables.Provenance]]:
    """The recorded tables with rings of the present code, the one of fewest GPUs first."""
    return sorted(TABLE.recorded().values(), key=lambda one: int(one[1].more["gpus"]))


def recorded() -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The first table, which has most rows: all lengths, and the peers. None without a table."""
    return next(iter(all_recorded()), None)


def in_turns(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The ways of each problem that took turns, in the order of the table: its ring first."""
    return [ways for number, ways in table.groupby((table.way == RING).cumsum()) if number]


def fastest_alone(rows: Sequence[Row], time: str) -> Row:
    """The row with the least time on one GPU, of ways that took turns. time: its column."""
    alone = [row for row in rows if row["way"] in (ONE, LAST_RUNG) and row["status"] == "ok"]
    return min(alone, key=lambda row: float(str(row[time])))
