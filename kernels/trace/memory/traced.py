"""The warp-wide accesses of a whole trace, and their costs."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from kernels.trace.kinds import LANE_KINDS
from kernels.trace.memory.model import LANES, count_sectors, count_wavefronts
from kernels.trace.trace import Trace

COLUMNS = ("launch", "block", "warp", "file", "line", "kind", "space", "tensor", "bytes", "active")
COSTS = ("wavefronts", "ideal", "conflicts", "sectors", "lines", "bytes_used")


class Place(NamedTuple):
    """The probe of an access: file, line and tensor, or "" for all tensors of the line."""

    file: str
    line: int
    tensor: str = ""

    def within(self, table: pd.DataFrame) -> pd.Series:
        """Whether each row of a table with these columns belongs to the place."""
        here = (table.file == self.file) & (table.line == self.line)
        return here & (table.tensor == self.tensor) if self.tensor else here


@dataclass(frozen=True)
class Requests:
    """The warp-wide accesses of a trace, in the order of each warp.

    table: columns launch, block, warp, file and line (of the probe), kind (an event of trace.kinds), space, tensor,
        bytes (of one lane, of a tma's box, of a product's operand), active (number of lanes).
    offsets: [n, 32], each lane's byte offset.
    active: [n, 32], whether each lane takes part."""

    table: pd.DataFrame
    offsets: np.ndarray
    active: np.ndarray

    def where(self, keep: np.ndarray | pd.Series) -> "Requests":
        keep = np.asarray(keep)
        return Requests(self.table[keep].reset_index(drop=True), self.offsets[keep], self.active[keep])

    @cached_property
    def costs(self) -> pd.DataFrame:
        """The table with wavefronts, ideal and conflicts of shared memory, and sectors, lines and bytes_used of global.
        The columns of the other space are 0."""
        table = self.table.assign(wavefronts=0, ideal=0, sectors=0, lines=0, bytes_used=0)
        for (space, kind, width), part in table.groupby(["space", "kind", "bytes"], sort=False):
            at = part.index.to_numpy()
            offsets, active = self.offsets[at], self.active[at]
            if space == "shared":
                table.loc[at, ["wavefronts", "ideal"]] = np.transpose(count_wavefronts(offsets, active, width, kind))
            else:
                counted = count_sectors(offsets, active, width, kind)
                table.loc[at, ["sectors", "lines", "bytes_used"]] = np.transpose(counted)
        return table.assign(conflicts=table.wavefronts - table.ideal)

    @cached_property
    def by_line(self) -> pd.DataFrame:
        """Sums for each probe: launch, file, line, kind, space, tensor, bytes (of one lane), requests, active (lanes),
        and the columns of `costs`."""
        keys = ["launch", "file", "line", "kind", "space", "tensor", "bytes"]
        sums = {name: (name, "sum") for name in ("active", *COSTS)}
        return self.costs.groupby(keys, sort=True, as_index=False).agg(requests=("block", "size"), **sums)


def requests(
    trace: Trace, space: str | None = None, apart: np.ndarray | None = None, from_last: bool = False
) -> Requests:
    """The Requests of a trace, or of one space (shared or global).

    Only accesses with an address of each lane are requests. The copy engine and the tensor cores fetch boxes and
    operands without them.

    A lane's n-th record of a probe pairs with the n-th record of the warp's other lanes. Diverged lanes therefore pair
    correctly if all pass the probe equally often, or if some stop earlier. Keys cannot pair lanes, as they may differ
    in each lane, such as its token.

    apart: a number for each record of the trace. Records of other numbers never pair, and the table has it.
    from_last: whether the records of a probe count from the last one. Lanes then pair that start later."""
    valid = trace.table["space"].is_valid()
    frame = trace.table.filter(valid).to_pandas(split_blocks=True)
    frame["apart"] = 0 if apart is None else apart[valid.to_numpy()]
    frame = frame[frame.space == space] if space else frame
    frame = frame[frame.event.isin({kind.event for kind in LANE_KINDS})]
    if frame.empty:
        empty = pd.DataFrame(columns=COLUMNS)
        return Requests(empty, np.zeros((0, LANES), np.int64), np.zeros((0, LANES), bool))
    site = ["launch", "block", "warp", "file", "line", "event", "space", "tensor", "bytes", "apart"]
    frame["time"] = frame.groupby([*site, "lane"], sort=False, observed=True).cumcount(ascending=not from_last)
    together = frame.groupby([*site, "time"], sort=False, observed=True)
    number = together.ngroup().to_numpy()
    same = {name: (name, "first") for name in site}
    found = together.agg(**same, active=("lane", "size"), seq=("seq", "max")).rename(columns={"event": "kind"})
    offsets, active = np.zeros((len(found), LANES), np.int64), np.zeros((len(found), LANES), bool)
    lane = frame.lane.to_numpy()
    offsets[number, lane], active[number, lane] = frame.offset.to_numpy(), True
    order = np.lexsort([found[name].to_numpy() for name in ("seq", "warp", "block", "launch")])
    types = {"bytes": int} | {name: str for name in ("file", "space", "tensor", "kind")}
    columns = [*COLUMNS, *(["apart"] if apart is not None else [])]
    in_order = found.iloc[order][columns].astype(types).reset_index(drop=True)
    return Requests(in_order, offsets[order], active[order])
