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
from explainers.story import stage
from explainers.story.glossary import count, listed
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.core.fields import write_value
from kernels.core.launch import Launch, Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role
from kernels.errors import ProblemError, TraceError
from kernels.measure import timelines
from kernels.measure.pipelines import Pipeline
from kernels.measure.timelines import Timeline

MOST = 1000  # steps; of more moments, neighbouring ones are one step


@dataclass(frozen=True)
class Schedule:
    """Which block ran where, and when. table: launch, block, sm; start, end: in `unit`, µs, or turn where only the
    order is known; begins, ends, head: the same as the steps count them, and where time stands when it begins.
    said: where this is from, in a sentence."""

    table: pd.DataFrame
    unit: str
    multiprocessors: int
    gpu: str
    said: str

    @property
    def timed(self) -> bool:
        return self.unit == "µs"


@dataclass(frozen=True)
class Grid:
    """frames: one for each moment at which blocks begin or end. meta, columns: of the view `grid`. states: the
    strip."""

    frames: list[GridFrame]
    meta: GridMeta
    columns: dict[str, np.ndarray]
    states: list[stage.State]


def recorded(timeline: Timeline) -> Schedule:
    """The Schedule of a measured or recorded timeline."""
    said = (
        f"{timeline.provenance.capitalize()} on {timeline.device}, {timeline.date}: a build of its own notes when each "
        "block began and ended, and on which multiprocessor."
    )
    return _timed(timeline.table, timeline.multiprocessors, timeline.device, said)


def marked(made: Pipeline) -> Schedule:
    """The Schedule of a run of a marks build, whose writers noted when they began and ended."""
    table = made.blocks.reset_index()
    said = (
        f"{made.provenance.capitalize()} on {made.device}, {made.date}: a run of the marks build, each block from when "
        f"its first {made.noun} begins until its last one ends."
    )
    return _timed(table, int(table.sm.max()) + 1, made.device, said)


def _timed(table: pd.DataFrame, multiprocessors: int, gpu: str, said: str) -> Schedule:
    """The Schedule of blocks whose times are known. table: launch, block, sm, start_ns, end_ns."""
    start, end = table.start_ns / 1000, table.end_ns / 1000
    spans = table[["launch", "block", "sm"]].assign(start=start, end=end, begins=start, ends=end, head=start)
    return Schedule(spans, "µs", multiprocessors, gpu, said)


def in_launch_order(plan: Plan, multiprocessors: int, gpu: str) -> Schedule:
    """The Schedule of a plan of which no time is known. Rule: launches follow one another; block b of a launch is in
    turn b / multiprocessors, on multiprocessor b % multiprocessors, and is done when the next block comes there or the
    launch ends. Every block's start is a step."""
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
        f"In launch order; no timeline of this build is recorded. Each of the {multiprocessors} multiprocessors of "
        f"{gpu} takes one block at a time here, and all blocks are as long: how long they take is not known."
    )
    if most <= multiprocessors:
        said += f" One turn takes all {count(most, 'block')} of a launch; more heads or queries make more turns."
    return Schedule(pd.concat(parts, ignore_index=True), "turn", multiprocessors, gpu, said)


def explain(request: Request, schedule: Schedule, traced: bool = True) -> Grid:
    """The Grid of a request. traced: whether the scope's item is marked as the one that the other pictures show."""
    plan = request.plan
    launches = [_launch(launch, plan) for launch in plan.launches]
    table = lanes(schedule.table)
    moments = _moments(table)
    first = np.searchsorted(moments, table.begins, "right") - 1  # the step in which it begins
    last = np.searchsorted(moments, table.ends, "left")  # and the one in which it has ended
    lines = [_signature(request.kernel, launch.entry) for launch in plan.launches]
    frames = _Frames(table, launches, schedule, lines).all(moments, first, last)
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
    if offers and not schedule.timed and (found := _recorded(request.kernel)):
        made.meta["recorded"] = found
    return made


def drawn(made: Grid) -> stage.View:
    """A Grid as a picture with steps of its own."""
    own: dict[str, Any] = {**made.meta, "frames": made.frames, "clock": True, "state": [asdict(s) for s in made.states]}
    return stage.View("grid", "grid", "Whole grid", own, made.columns)


def schedule_of(request: Request, live: tuple[int, str] | None = None) -> Schedule:
    """What is known of when the blocks of a request run: its recorded timeline, or else the order of the launches.
    live: multiprocessors and name of the GPU that is here; without one a well-known one is assumed, and said to be."""
    try:
        return recorded(timelines.find(request).load())
    except (ProblemError, TraceError):
        on = machine(DEFAULT_ARCH)
        multiprocessors, gpu = live or (on.multiprocessors, f"an {on.gpu} (assumed, as no GPU is here)")
        return in_launch_order(request.plan, multiprocessors, gpu)


def _recorded(kernel: KernelSpec) -> dict[str, Any] | None:
    """GridMeta.recorded: of the recorded timelines of the kernel the one whose run computes least."""
    broken = {c.name for c in kernel.what_ifs}
    found = [e for e in timelines.recorded() if (e.kernel, e.code_hash) == (kernel.name, kernel.code_hash)]
    if not found:
        return None
    entry = min(found, key=lambda e: e.problem.cpu_steps)
    choices = {name: write_value(value) for name, value in asdict(entry.problem).items()}
    choices |= {name: str(value) for name, value in entry.settings if name not in broken}
    return {"label": entry.label, "query": {"kernel": kernel.name, **choices, "picture": "grid"}}


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


def _by_step(step: np.ndarray, steps: int) -> list[np.ndarray]:
    """For each step the places in `step` that hold it."""
    order = np.argsort(step, kind="stable")
    return np.split(order, np.searchsorted(step[order], np.arange(1, steps)))


class _Frames:
    """Builds the frames, step by step; blocks are given by their places in the table."""

    def __init__(
        self, table: pd.DataFrame, launches: list[GridLaunch], schedule: Schedule, lines: list[dict[str, int]]
    ) -> None:
        self.launches, self.schedule, self.count, self.lines = launches, schedule, len(table), lines
        self.launch, self.block, self.sm, self.start, self.end, self.head = (
            table[name].to_numpy() for name in ("launch", "block", "sm", "start", "end", "head")
        )

    def all(self, moments: np.ndarray, first: np.ndarray, last: np.ndarray) -> list[GridFrame]:
        starts, ends = _by_step(first, len(moments)), _by_step(last, len(moments))
        running, done, launch, at = 0, 0, 0, 0.0
        made: list[GridFrame] = []
        for n, moment in enumerate(moments):
            begun, ended = starts[n], ends[n]
            running, done = running + len(begun) - len(ended), done + len(ended)
            launch = int(self.launch[begun].max()) if len(begun) else launch
            at = float(
                moment if self.schedule.timed else max(at, *self.head[begun], *(() if len(begun) else self.end[ended]))
            )
            when = self._when(at)
            left = f"{running:,} run, {done:,} of {self.count:,} are done." if running else f"All {done:,} are done."
            if not running and done < self.count:
                left = f"None runs now, {done:,} of {self.count:,} are done."
            sentence = f"{when[0].upper()}{when[1:]}: {self._said(begun, ended)}. {left}"
            if not self.schedule.timed and n in (0, len(moments) - 1):
                sentence += " In launch order; no timeline of this build is recorded."
            title = f"{self.launches[launch]['entry']} · {when}" if len(self.launches) > 1 else when
            made.append(
                {
                    "tile": launch,
                    "title": title,
                    "at": at,
                    "launch": launch,
                    "sentence": sentence,
                    "lines": self.lines[launch],
                }
            )
        return made

    def _when(self, at: float) -> str:
        return f"{at:,.2f} µs" if self.schedule.timed else f"turn {max(1, int(np.ceil(at))):,}"

    def _said(self, begun: np.ndarray, ended: np.ndarray) -> str:
        """What ends and what begins in a step."""
        parts = []
        if len(ended):
            took = self.end[ended] - self.start[ended]
            lasted = " to ".join(dict.fromkeys(f"{t:,.2f}" for t in (took.min(), took.max())))
            verb = "ends" if len(ended) == 1 else "end"
            parts.append(f"{self._named(ended)} {verb}" + (f" after {lasted} µs" if self.schedule.timed else ""))
        if len(begun):
            on = np.unique(self.sm[begun])
            where = f"multiprocessor {on[0]}" if len(on) == 1 else count(len(on), "multiprocessor")
            parts.append(f"{self._named(begun)} {'begins' if len(begun) == 1 else 'begin'} on {where}")
        return listed(parts) if parts else "nothing begins or ends"

    def _named(self, some: np.ndarray) -> str:
        """Blocks in words: one with its place in the output, several by number."""
        launch, block = self.launches[self.launch[some[0]]], int(self.block[some[0]])
        if len(some) > 1:
            numbers, entries = (
                np.sort(self.block[some]),
                [self.launches[n]["entry"] for n in np.unique(self.launch[some])],
            )
            together = len(entries) == 1 and numbers[-1] - numbers[0] == len(numbers) - 1
            of = f" of {listed(entries)}" if len(self.launches) > 1 else ""
            return f"{len(some):,} blocks{of}" + (f" ({numbers[0]:,} to {numbers[-1]:,})" if together else "")
        row, col = divmod(block // launch["per_item"], launch["cols"])
        where = f"{launch['row_name']} {row}, " if launch["rows"] > 1 else ""
        of = f" of {launch['entry']}" if len(self.launches) > 1 else ""
        if not launch["item"]:
            return f"block {block:,}{of}"
        return f"block {block:,}{of} ({where}{launch['item']} {col})"


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
