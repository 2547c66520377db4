"""The probed run of a plain kernel on the CPU. Its library logs the accesses and finds faults (device/simt/cuda)."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernels.build import Build
from kernels.build.plain.lines import Lines, read
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import SET, Initial
from kernels.errors import RunError, RunTimeout
from kernels.run.backends import cpu, jailed
from kernels.run.backends.calls import ALWAYS, Call, Memory, address, text
from kernels.run.plain.faults import FINDING, Fault, Region, of_finding, of_stop

LOG = np.dtype(
    [
        ("offset", "<i8"),
        *((name, "<u4") for name in ("place", "block", "seq")),
        ("thread", "<u2"),
        ("region", "u1"),
        ("what", "u1"),
    ]
)
"""struct LogRow of device/simt/cuda/places.h."""


REGION = np.dtype([("name", "S120"), ("is_shared", "<u4"), ("element", "<u4"), ("reach", "<u8"), ("is_written", "<u8")])
"""struct RegionRow of device/simt/cuda/runtime.cpp."""
REGIONS, FINDINGS, PRINTED = 256, 2**14, 4096  # the most regions, findings, and printed bytes of a run
_held: dict[Path, Memory] = {}  # a library -> memory that it points to


@dataclass(frozen=True)
class Logged:
    """The log of one launch. rows: [n] of LOG, in the order of the run."""

    rows: np.ndarray
    lost: int


@dataclass(frozen=True)
class Probed:
    """A run of an instrumented build.

    regions: of the rows, by number.
    stopped: the error of a stopped launch, or None."""

    logs: tuple[Logged, ...]
    lines: Lines
    regions: tuple[Region, ...]
    faults: tuple[Fault, ...]
    stopped: RunError | None
    printed: str


def launch(
    build: Build, plan: Plan, arrays: dict[str, np.ndarray], scope: Scope, rows: Sequence[int], reversed_order: int
) -> Probed:
    """Runs the plan's launches in order until one stops.

    rows: the room for each launch's log.
    reversed_order: as of cpu.launch."""
    lines = read(build.path)
    with jailed.memory(arrays, plan, build.jailed) as (memory, held):
        run = cpu.Run(build, memory)
        names = [text(memory, name) for name in lines.files]
        table, listed = memory.put(lines.rows.tobytes()), memory.put(struct.pack(f"={len(names)}Q", *names))
        run.calls.append(Call("simt_begin", (table, len(lines.rows), listed)))
        for tensor in plan.tensors:
            array, given = held[tensor.name], tensor.initial in (Initial.GIVEN, *SET)
            size = (address(array), array.nbytes, array.itemsize, int(given))
            run.calls.append(Call("simt_tensor", (text(memory, tensor.name), *size)))
        if not build.jailed:
            _held[build.path] = memory
        logs, counts = [memory.zeros(count, LOG) for count in rows], list[Call]()
        for number, step in enumerate(plan.launches):
            first, blocks = scope.blocks(step, plan)
            run.calls.append(Call("simt_log", (address(logs[number]), rows[number], first, blocks)))
            buffers = {name: held[name] for name in step.tensors}
            run.add(step, cpu.arguments_of(step, plan, held), buffers, reversed_order)
            counts.append(Call("simt_logged", (), ALWAYS))
            run.calls.append(counts[-1])
            run.copy(plan, number, held)
        found = memory.zeros(FINDINGS, FINDING), memory.zeros(REGIONS, REGION), memory.zeros(PRINTED, np.uint8)
        ends = [
            Call("simt_found", (address(found[0]), FINDINGS), ALWAYS),
            Call("simt_regions", (address(found[1]), REGIONS), ALWAYS),
            Call("simt_printed", (address(found[2]),), ALWAYS),
        ]
        run.calls += ends
        run.make()
    try:
        stopped, launched = run.stopped()
        numbers = [count.result for count in counts[:launched]]
        logged = [Logged(log[: min(n, len(log))].copy(), max(0, n - len(log))) for log, n in zip(logs, numbers)]
        shapes = {tensor.name: tensor.shape for tensor in plan.tensors}
        count = ends[0].result & 0xFFFFFFFF
        findings, named = found[0][:count], found[1][: ends[1].result & 0xFFFFFFFF]
        regions = [
            Region(name, bool(shared), int(element), () if shared else shapes.get(name, ()), int(reach), bool(written))
            for name, shared, element, reach, written in ((row["name"].decode(), *row.tolist()[1:]) for row in named)
        ]
        faults = [of_finding(finding, lines, regions) for finding in findings]
        if count > len(findings):
            said = f"The run has {count:,} findings, and a run keeps {len(findings):,}. Correct those first."
            faults.append(Fault("too many findings", "error", said, "", ()))
        faults += [of_stop(str(stopped))] if stopped else []
        printed = found[2].tobytes().split(b"\0")[0].decode(errors="replace")
        return Probed(tuple(logged), lines, tuple(regions), tuple(faults), stopped, printed)
    except (ValueError, TypeError, KeyError, IndexError):  # by a stranger's own results
        if not build.jailed:
            raise
        raise RunError("The kernel wrote into the answer of its jail.") from None


FIRST_ROWS = 1 << 18  # of each launch's log at first


def is_automatic(request: Request) -> bool:
    """Whether the request's probes are automatic: a plain kernel on the CPU."""
    return request.kernel.plain and request.backend == "cpu"


def probe(
    request: Request, built: Build, plan: Plan, fresh: Callable[[], dict[str, np.ndarray]], most_bytes: int
) -> tuple[Probed, dict[str, np.ndarray]]:
    """A run with its log, and the arrays after it. most_bytes: of all logs. The log counts the rows beyond."""
    room = most_bytes // LOG.itemsize // len(plan.launches)
    late = bool(request.broken)  # so that a what-if build's missing wait shows
    rows = [min(FIRST_ROWS, room)] * len(plan.launches)
    arrays = fresh()
    found = launch(built, plan, arrays, request.scope, rows, late)
    if any(log.lost for log in found.logs) and not found.stopped:
        rows = [min(len(log.rows) + log.lost, room) for log in found.logs]
        arrays = fresh()
        found = launch(built, plan, arrays, request.scope, rows, late)
    return found, arrays


def errors(found: tuple[Fault, ...]) -> list[str]:
    """The sentences of the faults that make a kernel wrong."""
    return [fault.text for fault in found if fault.level == "error"]


def stop(found: Probed) -> RunError:
    """The error of a stopped run, with the faults before it."""
    assert found.stopped is not None
    said = [*errors(found.faults[:-1]), str(found.stopped)]
    return (RunTimeout if isinstance(found.stopped, RunTimeout) else RunError)(" ".join(said))
