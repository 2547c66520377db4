"""The whole grid: every block of a run on its SM, from start to end.

The times of the blocks are measured (a Timeline of the same build on the same problem). Without a Timeline, the
    picture shows the launch order: each SM takes one block in turn. The words then say that this is an order and no
    time.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod

import numpy as np
import pandas as pd

from explainers.models.frames import GridFrame, GridLaunch, GridMeta
from explainers.models.schedules import Schedule, recorded_build, schedule_of
from explainers.story import stage
from explainers.story.words import Row, Words
from kernels.core.launch import Launch, Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role

WORDS = Words.of(str(__package__), "grid_words.toml")
MOST = 1000  # steps. With more moments, neighbouring moments share a step.


@dataclass(frozen=True)
class Grid:
    """The grid of a request.

    meta, columns: of the view `grid`.
    """

    frames: list[GridFrame]  # one for each moment with the start or end of blocks
    meta: GridMeta
    columns: dict[str, np.ndarray]
    states: list[stage.State]  # the strip


def explain(request: Request, schedule: Schedule, traced: bool = True, names: Sequence[str] = ()) -> Grid:
    """The Grid of a request.

    traced: whether to mark the item of the other pictures.
    names: of the rows.
    """
    plan = request.plan
    launches = [_launch(launch, plan, names) for launch in plan.launches]
    table = lanes(schedule.table)
    moments = np.unique(np.concatenate([table.begins, table.ends]))  # each start or end of a block
    if len(moments) > MOST:
        moments = moments[np.unique(np.linspace(0, len(moments) - 1, MOST).round().astype(int))]
    first = np.searchsorted(moments, table.begins, "right") - 1  # the step of its start
    last = np.searchsorted(moments, table.ends, "left")  # the step of its end
    lines = [_signature(request.kernel, launch.entry) for launch in plan.launches]
    frames = _frames(table, launches, schedule, lines, moments, first, last)
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


def view(
    request: Request, live: tuple[int, str] | None = None, offers: bool = False, names: Sequence[str] = ()
) -> stage.View:
    """The whole grid as a picture with its own steps.

    live: see schedule_of.
    offers: whether the page can change to a problem with a recorded timeline.
    names: of the rows, for example of the sequences.
    """
    schedule = schedule_of(request, live)
    made = drawn(explain(request, schedule, names=names))
    if offers and not schedule.timed and (found := recorded_build(request.kernel)):
        made.meta["recorded"] = found
    return made


def drawn(made: Grid) -> stage.View:
    """A Grid as a picture with steps of its own."""
    own: dict[str, object] = {
        **made.meta,
        "frames": made.frames,
        "clock": True,
        "state": [asdict(s) for s in made.states],
    }
    return stage.View("grid", "grid", "Whole grid", own, made.columns)


def _signature(kernel: KernelSpec, entry: str) -> dict[str, int]:
    """The lines of the source with the signature of that kernel."""
    name, text = kernel.files[0]
    found = re.search(rf"^[^\n]*__global__[^\n;{{}}]*(\n[^\n;{{}}]*)?\b{entry}\s*\(", text, re.M)
    if not found:
        return {}
    first, last = (text.count("\n", 0, at) + 1 for at in found.span())
    return {f"{name}:{line}": 1 for line in range(first, last + 1)}


def lanes(table: pd.DataFrame) -> pd.DataFrame:
    """The blocks with their part of the SM's lane (low to high, within 0 to 1). A block takes the first free slot at
    its start."""
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


def _launch(launch: Launch, plan: Plan, names: Sequence[str] = ()) -> GridLaunch:
    """A launch's items as rows and columns.

    Rule: the columns are the output's first axis in the item's name (query in query tile). The rows are the axes
        before it, or one row. With a counter, blocks take items as they come. A cell is then a block, because the
        block of an item is not known.
    """
    output = next((t for t in plan.tensors if t.role is Role.OUTPUT), None)
    counters = {t.name for t in plan.tensors if t.initial is Initial.RESTORED}
    if counters & set(launch.tensors):
        item, items, per_item, output = "", launch.blocks, 1, None
    else:
        item, items, per_item = launch.item, launch.items, launch.blocks_per_item
    axes, shape = (output.axes, output.shape) if output else ((), ())
    before = next((n for n, axis in enumerate(axes) if axis in launch.item.split()), 0)
    rows = prod(shape[:before])
    if items % rows:
        rows, before = 1, 0
    row_names = [*names] if len(names) == rows else [str(row) for row in range(rows)]
    return {
        "entry": launch.entry,
        "item": item,
        "blocks": launch.blocks,
        "rows": rows,
        "cols": items // rows,
        "row_name": " and ".join(axis for axis, size in zip(axes[:before], shape) if size > 1),
        "row_names": row_names if item else [],
        "per_item": per_item,
        "threads": launch.threads,
    }


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
    return [
        stage.State("time" if schedule.timed else "turn", [_clock(f["at"], schedule) for f in frames]),
        stage.State("blocks running", (begun - ended).tolist()),
        stage.State("blocks done", ended.tolist(), of=len(table)),
        stage.State("SMs busy", busy.tolist(), of=schedule.multiprocessors),
    ]


def _by_step(step: np.ndarray, steps: int) -> list[np.ndarray]:
    """For each step, the places with this step."""
    order = np.argsort(step, kind="stable")
    return np.split(order, np.searchsorted(step[order], np.arange(1, steps)))


def _frames(
    table: pd.DataFrame,
    launches: list[GridLaunch],
    schedule: Schedule,
    lines: list[dict[str, int]],
    moments: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
) -> list[GridFrame]:
    """A frame for each moment. first, last: the steps of each block's start and end."""
    of = {name: table[name].to_numpy() for name in ("launch", "block", "sm", "start", "end", "head")}
    starts, ends = _by_step(first, len(moments)), _by_step(last, len(moments))
    running, done, launch, at = 0, 0, 0, 0.0
    made: list[GridFrame] = []
    for moment, begun, ended in zip(moments, starts, ends):
        running, done = running + len(begun) - len(ended), done + len(ended)
        launch = int(of["launch"][begun].max()) if len(begun) else launch
        if schedule.timed:
            at = float(moment)
        else:
            at = float(max(at, *of["head"][begun], *(() if len(begun) else of["end"][ended])))
        took = of["end"][ended] - of["start"][ended]
        row: Row = {
            "timed": schedule.timed,
            "clock": _clock(at, schedule),
            "several": len(launches) > 1,
            "entry": launches[launch]["entry"],
            "running": running,
            "done": done,
            "all": len(table),
            "starts": len(begun),
            "ends": len(ended),
            "begun": _named(begun, of, launches),
            "ended": _named(ended, of, launches),
            "sms": np.unique(of["sm"][begun]),
            "lasted": " to ".join(dict.fromkeys(f"{t:,.2f}" for t in (took.min(), took.max()))) if len(took) else "",
        }
        row["changes"] = WORDS.parts("changes", row)
        made.append(
            {
                "tile": launch,
                "title": WORDS.say("title", row),
                "sentence": WORDS.say("sentence", row),
                "at": at,
                "launch": launch,
                "lines": lines[launch],
            }
        )
    return made


def _named(some: np.ndarray, of: dict[str, np.ndarray], launches: list[GridLaunch]) -> str:
    """Blocks in words: one with its place in the output, several by number. some: their places in the table."""
    if not len(some):
        return ""
    launch, numbers = launches[of["launch"][some[0]]], np.sort(of["block"][some])
    entries = [launches[n]["entry"] for n in np.unique(of["launch"][some])]
    row, col = divmod(int(numbers[0]) // launch["per_item"], launch["cols"])
    names: Row = {
        **launch,
        "number": len(some),
        "several": len(launches) > 1,
        "entries": entries,
        "block": int(numbers[0]),
        "last": int(numbers[-1]),
        "together": len(entries) == 1 and numbers[-1] - numbers[0] == len(numbers) - 1,
        "row": launch["row_names"][row] if launch["rows"] > 1 else "",
        "col": col,
    }
    return WORDS.say("blocks", names)


def _clock(at: float, schedule: Schedule) -> str:
    return f"{at:,.2f} µs" if schedule.timed else f"{max(1, int(np.ceil(at))):,}"
