"""The frames of a grid: a step for each moment with the start or end of blocks."""

import numpy as np
import pandas as pd

from explainers.stories.occupancy.frames import GridFrame, GridLaunch
from explainers.stories.occupancy.schedules import Schedule
from explainers.story.glossary import count, listed


def _by_step(step: np.ndarray, steps: int) -> list[np.ndarray]:
    """For each step, the places with this step."""
    order = np.argsort(step, kind="stable")
    return np.split(order, np.searchsorted(step[order], np.arange(1, steps)))


class GridFrames:
    """Builds the frames, step by step. A block is its place in the table."""

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
        """The starts and ends of a step."""
        parts = []
        if len(ended):
            took = self.end[ended] - self.start[ended]
            lasted = " to ".join(dict.fromkeys(f"{t:,.2f}" for t in (took.min(), took.max())))
            verb = "ends" if len(ended) == 1 else "end"
            parts.append(f"{self._named(ended)} {verb}" + (f" after {lasted} µs" if self.schedule.timed else ""))
        if len(begun):
            on = np.unique(self.sm[begun])
            where = f"SM {on[0]}" if len(on) == 1 else count(len(on), "SM")
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
        where = f"{launch['row_name']} {launch['row_names'][row]}, " if launch["rows"] > 1 else ""
        of = f" of {launch['entry']}" if len(self.launches) > 1 else ""
        if not launch["item"]:
            return f"block {block:,}{of}"
        return f"block {block:,}{of} ({where}{launch['item']} {col})"
