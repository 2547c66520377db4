"""The frames of decoding over a work list, one after another."""

from typing import cast

import pandas as pd

from explainers.stories.block_table.range_types import RangesFrame, RangesUnit
from kernels.trace.kinds import READS


class RangeFrames:
    """The frames so far.

    frames: for the browser.
    units: the units of the followed sequence so far.
    group: the number of the current unit or merge. Shift+Left and Shift+Right step from group to group.
    """

    def __init__(self) -> None:
        self.frames: list[RangesFrame] = []
        self.units: list[RangesUnit] = []
        self.group = -1

    def __len__(self) -> int:
        return len(self.frames)

    def begin(self, unit: RangesUnit) -> None:
        """Starts the frames of a unit."""
        self.group += 1
        self.units.append(unit)

    def add(self, phase: str, title: str, records: pd.DataFrame, sentence: str, **more: object) -> None:
        """Adds a frame. records: the step's own. more: other fields of RangesFrame."""
        lines = records.place[records.place != ""].value_counts()
        loads = records[records.event.isin(READS) & (records.space == "global")]
        frame = {
            "tile": self.group,
            "title": title,
            "phase": phase,
            "sentence": sentence,
            "lines": {str(line): int(n) for line, n in lines.items()},
            "read": int(loads.bytes.sum()),
            "unit": len(self.units) - 1,
            **more,
        }
        self.frames.append(cast(RangesFrame, frame))
