"""The launches and copies of a run as bars on the rows of their streams, with the gaps between them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from explainers.stories.launches import bars as drawn
from explainers.stories.launches.bars import us
from explainers.stories.launches.frames import Bar, Gap, Panel
from explainers.stories.launches.host_code import HostCode, host_code
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.streams import Step, copied_bytes, steps
from kernels.measure.launch_times import LaunchTimes, names


@dataclass(frozen=True)
class LaunchRun:
    """The median run of a mechanism.

    rows: the streams, and after each the children of its kernels: (stream, whether children).
    bars: in the order of the host's calls.
    order: the places of the bars by their starts.
    """

    made: LaunchTimes
    rows: tuple[tuple[int, bool], ...]
    bars: list[Bar]
    gaps: list[Gap]

    @property
    def request(self) -> Request:
        """The request of the run."""
        return self.made.request

    @property
    def title(self) -> str:
        """The kernel's title."""
        return self.request.kernel.title

    @cached_property
    def calls(self) -> HostCode:
        """The host's calls in C++."""
        return host_code(self.request)

    @property
    def own_gaps(self) -> bool:
        """Whether the gaps are the GPU's own: the host had made all its calls before the run."""
        return not self.made.late

    def row_name(self, row: int) -> str:
        """The name of a row."""
        stream, children = self.rows[row]
        return "children" if children else f"stream {stream}"

    def gap_before(self, bar: int) -> Gap | None:
        """The gap before the start of a bar."""
        return next((gap for gap in self.gaps if gap["after"] == bar), None)

    def awaited(self, bar: int) -> int | None:
        """The place of the bar whose end comes last of all that a bar waits for, or None without any."""
        listed, own = list(steps(self.request.plan)), self.bars[bar]
        waits = {n for n, step in enumerate(listed) if not own["copy"] and self._before(listed, step, listed[bar])}
        gap = self.gap_before(bar)
        waits |= {gap["before"]} if gap else set()
        return max(waits, key=lambda n: self.bars[n]["end"], default=None)

    def needs(self, bar: int, before: int) -> bool:
        """Whether a launch uses a tensor that an earlier launch or copy writes."""
        plan, listed = self.request.plan, list(steps(self.request.plan))
        own, other = (plan.launches[listed[n].number] for n in (bar, before))
        written = {listed[before].tensor} | {t.name for t in plan.written if t.name in other.tensors}
        return bool(written & {*own.tensors}) or bool(own.parent or other.parent)

    @staticmethod
    def _before(listed: list[Step], other: Step, own: Step) -> bool:
        """Whether a launch waits for an event of another stream's launch or copy."""
        return other.number == own.number if other.tensor else other.number in own.waits

    @property
    def total(self) -> float:
        """ns from the first start to the last end."""
        return max(bar["end"] for bar in self.bars)

    @property
    def timed_ns(self) -> float:
        """The median ns of the timed build between two events. The build with the timer takes another time."""
        return float(self.made.runs.timed_ns.median())

    @property
    def busy(self) -> float:
        """ns with some launch or copy."""
        return self.total - self.idle

    @property
    def idle(self) -> float:
        """ns without any launch or copy, before the last end."""
        return self.idle_until(self.total)

    def idle_until(self, time: float) -> float:
        """ns without any launch or copy, from the first start to a time or the last end."""
        idle, until = 0.0, 0.0
        for bar in sorted(self.bars, key=lambda bar: bar["start"]):
            idle += max(0.0, min(bar["start"], time) - until)
            until = max(until, min(bar["end"], time))
        return idle

    def panel(self, scene: int) -> Panel:
        """The run in the picture."""
        rows = range(len(self.rows))
        return {
            "scene": scene,
            "title": f"{self.title}, after all calls" if scene else self.title,
            "said": f"{us(self.total)}, idle {us(self.idle)}",
            "rows": [self.row_name(row) for row in rows],
            "lanes": [1 + max(bar["lane"] for bar in self.bars if bar["row"] == row) for row in rows],
            "bars": self.bars,
            "gaps": self.gaps,
        }

    @property
    def host_ns(self) -> float:
        """The median ns of the host's calls."""
        return self.made.host_ns

    @property
    def order(self) -> list[int]:
        """The places of the bars by their starts."""
        return sorted(range(len(self.bars)), key=lambda n: self.bars[n]["start"])


def explain(made: LaunchTimes) -> LaunchRun:
    """The LaunchRun of the median run."""
    table, plan = made.median, made.request.plan
    listed, named = list(steps(plan)), names(made.request)
    of_step = [(step.stream, bool(plan.launches[step.number].parent)) for step in listed]
    rows = tuple(sorted({*of_step}))
    bars: list[Bar] = [
        drawn.bar(
            name,
            table.start_ns[n],
            table.end_ns[n],
            entry="" if step.tensor else plan.launches[step.number].entry,
            row=rows.index(of_step[n]),
            moved=len(copied_bytes(plan, step)),
            copy=bool(step.tensor),
        )
        for n, (step, (name, _)) in enumerate(zip(listed, named))
    ]
    for bar in sorted(bars, key=lambda bar: bar["start"]):
        bar["lane"] = _lane(bars, bar)
    parents = {n: _parent(plan, listed, step) for n, step in enumerate(listed) if plan.launches[step.number].parent}
    return LaunchRun(made, rows, bars, _gaps(bars, parents))


def _parent(plan: Plan, listed: list[Step], child: Step) -> int:
    """The place of the bar of a child's parent."""
    entry = plan.launches[child.number].parent
    return next(n for n, step in enumerate(listed) if not step.tensor and plan.launches[step.number].entry == entry)


def _lane(bars: list[Bar], own: Bar) -> int:
    """The first part of a row without an earlier bar that still runs."""
    running = {b["lane"] for b in bars if b["row"] == own["row"] and b["start"] < own["start"] < b["end"]}
    return next(lane for lane in range(len(bars)) if lane not in running)


def _gaps(bars: list[Bar], parents: dict[int, int]) -> list[Gap]:
    """The gaps of each row, from the last end of the earlier bars to the start of a bar. A negative gap is an overlap.
    The first child has a gap from the start of its parent.

    parents: a child's place -> its parent's.
    """
    found: list[Gap] = []
    for row in sorted({bar["row"] for bar in bars}):
        own = sorted((n for n, bar in enumerate(bars) if bar["row"] == row), key=lambda n: bars[n]["start"])
        for place, after in enumerate(own):
            if place:
                before = max(own[:place], key=lambda n: bars[n]["end"])
                found.append(_gap(bars, row, before, after, "end"))
            elif after in parents:
                found.append(_gap(bars, row, parents[after], after, "start"))
    return found


def _gap(bars: list[Bar], row: int, before: int, after: int, since: Literal["end", "start"]) -> Gap:
    start, end = bars[before][since], bars[after]["start"]
    return {"row": row, "start": start, "end": end, "before": before, "after": after, "since": since, "late": 0.0}
