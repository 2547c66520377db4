"""The whole grid: every block of a run on its multiprocessor, from its start to its end.

When a block ran is measured (a Timeline of the same build on the same problem). Where there is none, blocks are shown
in launch order, each multiprocessor taking one at a time in turn, and the words say so: an order, and no time.
"""

import re
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.occupancy.frames import GridFrame, GridLaunch, GridMeta
from explainers.stories.occupancy.grid_frames import GridFrames
from explainers.stories.occupancy.schedules import Schedule, recorded_build, schedule_of
from explainers.story import stage
from kernels.core.launch import Launch, Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role

MOST = 1000  # steps; of more moments, neighbouring ones are one step


@dataclass(frozen=True)
class Grid:
    """frames: one for each moment at which blocks begin or end. meta, columns: of the view `grid`. states: the
    strip."""

    frames: list[GridFrame]
    meta: GridMeta
    columns: dict[str, np.ndarray]
    states: list[stage.State]


def explain(request: Request, schedule: Schedule, traced: bool = True) -> Grid:
    """The Grid of a request. traced: whether the scope's item is marked as the one that the other pictures show."""
    plan = request.plan
    launches = [_launch(launch, plan) for launch in plan.launches]
    table = lanes(schedule.table)
    moments = _moments(table)
    first = np.searchsorted(moments, table.begins, "right") - 1  # the step in which it begins
    last = np.searchsorted(moments, table.ends, "left")  # and the one in which it has ended
    lines = [_signature(request.kernel, launch.entry) for launch in plan.launches]
    frames = GridFrames(table, launches, schedule, lines).all(moments, first, last)
    meta: GridMeta = {
        "launches": launches,
        "multiprocessors": int(table.sm.max()) + 1 if len(table) else 1,
        "all": schedule.multiprocessors,
        "unit": schedule.unit,
        "end": float(table.end.max()),
        "said": schedule.said,
        "gpu": schedule.gpu,
        "traced": request.scope.first if traced else -1,
    }
    numbers = {
        name: table[name].to_numpy(np.float32) for name in ("launch", "block", "sm", "start", "end", "low", "high")
    }
    columns = {**numbers, "first": first.astype(np.float32), "last": last.astype(np.float32)}
    return Grid(frames, meta, columns, _states(frames, table, first, last, schedule))


def view(request: Request, live: tuple[int, str] | None = None, offers: bool = False) -> stage.View:
    """The whole grid as a picture with steps of its own, beside pictures of one traced item. live: as schedule_of takes
    it. offers: whether the page's choices are the problem's fields and the kernel's constants, so that it can go to a
    problem whose timeline is recorded."""
    schedule = schedule_of(request, live)
    made = drawn(explain(request, schedule))
    if offers and not schedule.timed and (found := recorded_build(request.kernel)):
        made.meta["recorded"] = found
    return made


def drawn(made: Grid) -> stage.View:
    """A Grid as a picture with steps of its own."""
    own: dict[str, Any] = {**made.meta, "frames": made.frames, "clock": True, "state": [asdict(s) for s in made.states]}
    return stage.View("grid", "grid", "Whole grid", own, made.columns)


def _signature(kernel: KernelSpec, entry: str) -> dict[str, int]:
    """The lines of the source in which a kernel of that name begins."""
    name, text = kernel.files[0]
    found = re.search(rf"^[^\n]*__global__[^\n;{{}}]*(\n[^\n;{{}}]*)?\b{entry}\s*\(", text, re.M)
    if not found:
        return {}
    first, last = (text.count("\n", 0, at) + 1 for at in found.span())
    return {f"{name}:{line}": 1 for line in range(first, last + 1)}


def lanes(table: pd.DataFrame) -> pd.DataFrame:
    """The blocks with the stretch of their multiprocessor's lane that each takes (low to high, within 0 to 1): the
    first slot that is free when it begins."""
    table = table.sort_values(["sm", "start", "block"], kind="stable").reset_index(drop=True)
    slots: list[int] = []
    free: list[float] = []
    before = None
    for sm, start, end in zip(table.sm, table.start, table.end):
        if sm != before:
            free, before = [], sm
        slot = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[slot : slot + 1] = [end]
        slots.append(slot)
    most = max(slots, default=0) + 1
    return table.assign(low=np.array(slots) / most, high=(np.array(slots) + 1) / most)


def _launch(launch: Launch, plan: Plan) -> GridLaunch:
    """A launch's items as rows and columns. Rule: columns are the output's first axis that the item's name names (query
    of a query tile), rows the axes before it; one row where there is none. Blocks that share a counter take items as
    they come, so nobody knows whose a cell is: there a cell is a block."""
    shared = {t.name for t in plan.tensors if t.initial is Initial.RESTORED}
    if shared & set(launch.tensors):
        bare = {"entry": launch.entry, "item": "", "blocks": launch.blocks, "threads": launch.threads}
        return {**bare, "rows": 1, "cols": launch.blocks, "row_name": "", "per_item": 1}  # type: ignore[typeddict-item]
    output = next((t for t in plan.tensors if t.role is Role.OUTPUT), None)
    axes = output.axes if output else ()
    before = next((n for n, axis in enumerate(axes) if axis in launch.item.split()), 0)
    rows = prod(output.shape[:before]) if output else 1
    if launch.items % rows:
        rows, before = 1, 0
    named = [axis for axis, size in zip(axes[:before], output.shape if output else ()) if size > 1]
    return {
        "entry": launch.entry,
        "item": launch.item,
        "blocks": launch.blocks,
        "rows": rows,
        "cols": launch.items // rows,
        "row_name": " and ".join(named),
        "per_item": launch.blocks_per_item,
        "threads": launch.threads,
    }


def _moments(table: pd.DataFrame) -> np.ndarray:
    """Where the steps begin: wherever a block begins or ends, or at as many of these as there may be steps."""
    moments = np.unique(np.concatenate([table.begins, table.ends]))
    if len(moments) <= MOST:
        return moments
    return moments[np.unique(np.linspace(0, len(moments) - 1, MOST).round().astype(int))]


def _states(
    frames: list[GridFrame], table: pd.DataFrame, first: np.ndarray, last: np.ndarray, schedule: Schedule
) -> list[stage.State]:
    steps = np.arange(len(frames))
    begun, ended = (np.searchsorted(np.sort(when), steps, "right") for when in (first, last))
    busy = np.zeros(len(frames), int)
    for _, part in table.groupby("sm"):
        change = np.zeros(len(frames) + 1, int)
        np.add.at(change, first[part.index], 1)
        np.add.at(change, last[part.index], -1)
        busy += np.cumsum(change)[:-1] > 0
    when = [f"{f['at']:,.2f} µs" if schedule.timed else f"{max(1, int(np.ceil(f['at']))):,}" for f in frames]
    return [
        stage.State("time" if schedule.timed else "turn", when),
        stage.State("blocks running", (begun - ended).tolist()),
        stage.State("blocks done", ended.tolist(), of=len(table)),
        stage.State("multiprocessors busy", busy.tolist(), of=schedule.multiprocessors),
    ]
