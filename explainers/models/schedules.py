"""The times of all blocks of a grid: recorded, or in launch order."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explainers.story.glossary import count
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TraceError
from kernels.measure import timelines
from kernels.measure.pipelines import Pipeline
from kernels.measure.timelines import Timeline


@dataclass(frozen=True)
class Schedule:
    """The SM and the times of each block.

    table: launch, block, sm, start, end (in `unit`), begins, ends (as steps count time), head (the time at the
        block's start).
    """

    table: pd.DataFrame
    unit: str  # µs, or turn if only the order is known
    multiprocessors: int
    gpu: str
    said: str  # the source, in a sentence

    @property
    def timed(self) -> bool:
        return self.unit == "µs"


def recorded(timeline: Timeline) -> Schedule:
    """The Schedule of a measured or recorded timeline."""
    said = (
        f"{timeline.provenance.capitalize()} on {timeline.device}, {timeline.date}: a build of its own notes when each "
        "block began and ended, and on which multiprocessor."
    )
    return _timed(timeline.table, timeline.multiprocessors, timeline.device, said)


def marked(made: Pipeline) -> Schedule:
    """The Schedule of a marks build's run, from the notes of its writers."""
    table = made.blocks.reset_index()
    said = (
        f"{made.provenance.capitalize()} on {made.device}, {made.date}: a run of the marks build, each block from when "
        f"its first {made.noun} begins until its last one ends."
    )
    return _timed(table, int(table.sm.max()) + 1, made.device, said)


def _timed(table: pd.DataFrame, multiprocessors: int, gpu: str, said: str) -> Schedule:
    """The Schedule of blocks with known times.

    table: launch, block, sm, start_ns, end_ns.
    """
    start, end = table.start_ns / 1000, table.end_ns / 1000
    spans = table[["launch", "block", "sm"]].assign(start=start, end=end, begins=start, ends=end, head=start)
    return Schedule(spans, "µs", multiprocessors, gpu, said)


def in_launch_order(plan: Plan, multiprocessors: int, gpu: str) -> Schedule:
    """The Schedule of a plan without known times.

    Rule: launches follow one another. Block b of a launch is in turn b / multiprocessors, on SM b % multiprocessors.
        It ends at the next block of its SM or at the end of the launch. Each start is a step.
    """
    parts, turns, steps = [], 0, 0
    for number, launch in enumerate(plan.launches):
        block, wide = np.arange(launch.blocks), min(multiprocessors, launch.blocks)
        turn, sm = np.divmod(block, multiprocessors)
        table = pd.DataFrame(
            {"launch": number, "block": block, "sm": sm, "start": turns + turn, "end": turns + turn + 1}
        )
        ends = np.minimum(block + multiprocessors, launch.blocks)
        parts.append(table.assign(begins=steps + block, ends=steps + ends, head=turns + turn + (sm + 1) / wide))
        turns, steps = turns + int(turn[-1]) + 1, steps + launch.blocks + 1
    most = max(launch.blocks for launch in plan.launches)
    said = (
        "The picture shows an order, not times: no timeline of this build is recorded. "
        f"It assumes one block on each of the {multiprocessors} SMs of {gpu}, and equally long blocks."
    )
    if most <= multiprocessors:
        said += f" One turn takes all {count(most, 'block')} of a launch. More heads or queries make more turns."
    return Schedule(pd.concat(parts, ignore_index=True), "turn", multiprocessors, gpu, said)


def schedule_of(request: Request, live: tuple[int, str] | None = None) -> Schedule:
    """The recorded timeline of a request, or the order of its launches.

    live: SMs and name of this machine's GPU. Without a GPU, a well-known one is assumed.
    """
    try:
        return recorded(timelines.find(request).load())
    except (ProblemError, TraceError):
        on = machine(DEFAULT_ARCH)
        multiprocessors, gpu = live or (on.multiprocessors, f"an {on.gpu}")
        return in_launch_order(request.plan, multiprocessors, gpu)


def recorded_build(kernel: KernelSpec) -> dict[str, object] | None:
    """GridMeta.recorded: the kernel's recorded timeline with the least work."""
    broken = {c.name for c in kernel.what_ifs}
    code = (kernel.name, kernel.code_hash)
    found = [e for e in timelines.recorded() if (e.kernel, e.request.kernel.code_hash) == code]
    if not found:
        return None
    entry = min(found, key=lambda e: e.problem.cpu_steps)
    choices = entry.problem.texts() | {name: str(value) for name, value in entry.settings if name not in broken}
    return {"label": entry.label, "query": {"kernel": kernel.name, **choices, "picture": "grid"}}
