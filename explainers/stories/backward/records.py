"""The records of a backward's trace by step: the logged numbers of each part, the touched rows of each tensor, and the
lines of code of each part."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.story import axes
from explainers.story.glossary import listed
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace.kinds import BOXES, READS
from kernels.trace.steps import StepRow, Steps

KEY_NAMES, QUERY_NAMES = ("col", "key", "row"), ("row", "query")  # the keys of a record, the first one counts


class Tile(NamedTuple):
    """Numbers of a part, float32 [rows, columns], and the first row and column. NaN: nothing is logged."""

    row: int
    col: int
    numbers: np.ndarray

    @property
    def rows(self) -> list[int]:
        """First and last."""
        return [self.row, self.row + len(self.numbers) - 1]

    @property
    def cols(self) -> list[int]:
        """First and last."""
        return [self.col, self.col + self.numbers.shape[1] - 1]


class Touch(NamedTuple):
    """The touched elements of a tensor in a step.

    head: the first. rows: first and last, or None for a tensor in another order.
    """

    head: int
    rows: list[int] | None
    bytes: int


Logged = dict[str, Tile]  # part -> what a step logs of it
Moved = dict[tuple[str, str], Touch]  # (part, load or store) -> its elements in global memory


def values(run: Run, steps: Steps) -> dict[int, Logged]:
    """Step -> its logged parts, in the order of the formula."""
    trace = run.trace
    keep = (steps.of_record >= 0) & trace.table["value"].is_valid().to_numpy()
    names = [name for name in ("row", "col", "key", "query", "dim") if name in trace.keys]
    table = trace.table.select(["event", *names, "value"]).filter(keep).to_pandas().assign(step=steps.of_record[keep])
    table["event"] = table.event.astype(str)
    found: dict[int, Logged] = {}
    for event, part in gradients.EVENTS.items():
        own = table[table.event == event].dropna(axis=1, how="all")
        if own.empty:
            continue
        row = next(name for name in (KEY_NAMES if gradients.along_keys(part) else QUERY_NAMES) if name in own)
        if part in gradients.GRADIENTS:
            col = own["dim"]
        else:
            col = own[next(name for name in KEY_NAMES if name in own)] if part in gradients.SQUARES else 0 * own[row]
        own = pd.DataFrame({"step": own.step, "row": own[row].astype(int), "col": col.astype(int), "value": own.value})
        for number, records in own.groupby("step"):
            first, last = records[["row", "col"]].min(), records[["row", "col"]].max()
            numbers = np.full(tuple(last - first + 1), np.nan, np.float32)
            numbers[records.row - first.row, records.col - first.col] = records.value
            found.setdefault(int(number), {}).setdefault(part, Tile(int(first.row), int(first.col), numbers))
    return found


def places(run: Run) -> list[list[str]]:
    """Where each column of the picture lives in each launch: operands, scores, weights and gradients.

    Rule: a part is in shared memory if a probe of the launch reads or writes a tile of it there. Another logged part is
    in registers: its thread logs it. A column without both has an empty text.
    """
    columns = ({"Q", "K", "dO", "V"}, {"S", "dP"}, {"P", "dS"}, set(gradients.GRADIENTS))
    site, launch = run.sites.index(run.trace.table), run.trace.table["launch"].to_numpy()
    found = []
    for number in range(len(run.request.plan.launches)):
        own = [run.sites[at] for at in np.unique(site[launch == number])]
        in_shared = {str(one.tensor) for one in own if one.space == "shared"}
        logged = {gradients.EVENTS.get(one.event, "") for one in own} - in_shared
        both = [(sorted(column & in_shared), sorted(column & logged)) for column in columns]
        found.append(
            [
                f"{listed(rest)}: registers, {listed(shared)}: shared"
                if shared and rest
                else "shared memory" * bool(shared) + "registers" * bool(rest)
                for shared, rest in both
            ]
        )
    return found


def touched(run: Run, steps: Steps) -> dict[int, Moved]:
    """Step -> its reads and writes of global memory."""
    place = run.sites.index(run.trace.table)
    sizes = np.array([site.bytes for site in run.sites])
    offsets = run.trace.table["offset"].fill_null(0).to_numpy()
    found: dict[int, Moved] = {}
    for symbol, part in gradients.symbols(run.request).items():
        tensor = axes.tensors(run.request)[symbol]
        for kind in ("load", "store"):
            own = [
                n
                for n, site in enumerate(run.sites)
                if site.space == "global" and site.tensor == symbol and (site.event in READS) == (kind == "load")
            ]
            at = np.flatnonzero(np.isin(place, own) & (steps.of_record >= 0))
            first, size = offsets[at] // tensor.itemsize, sizes[place[at]]
            boxed = np.array([run.sites[n].event in BOXES for n in place[at]], bool)
            last = _last(run, tensor, first, size, boxed)
            table = pd.DataFrame({"step": steps.of_record[at], "first": first, "last": last, "size": size})
            for number, records in table.groupby("step"):
                along, until = (
                    dict(zip(tensor.axes, np.unravel_index(records[end].to_numpy(), tensor.shape)))
                    for end in ("first", "last")
                )
                row = next((axis for axis in ("query", "key") if axis in along), "")
                touch = Touch(
                    int((along["batch"] * axes.length(tensor, "head") + along["head"]).min()),
                    [int(along[row].min()), int(until[row].max())] if row else None,
                    int(records["size"].sum()),
                )
                found.setdefault(int(number), {}).setdefault((part, kind), touch)
    return found


def _last(run: Run, tensor: Tensor, first: np.ndarray, size: np.ndarray, boxed: np.ndarray) -> np.ndarray:
    """The last element of each access. boxed: which are boxes of the copy engine.

    Rule: an access has `size` bytes in a row. A box has the rows and columns of the tensor's map, inside the tensor.
    """
    last = np.minimum(first + np.maximum(1, size // tensor.itemsize) - 1, tensor.size - 1)
    if not boxed.any() or not run.request.plan.has_map(tensor):
        return last
    box, at = run.request.plan.box_of(tensor), np.unravel_index(first, tensor.shape)
    ends = [np.minimum(start + length, n) - 1 for start, length, n in zip(at, box, tensor.shape)]
    return np.where(boxed, np.ravel_multi_index(ends, tensor.shape), last)


# ---- lines of code ----

READERS = {"LSE": {"P"}, "delta": {"dS"}}  # part -> the parts made from it
for product in gradients.PRODUCTS:
    for read in product.reads:
        READERS.setdefault(read, set()).add(product.made)


class Lines:
    """The lines of a kernel that read or compute a part.

    reads: line -> the parts made from the number that it reads.
    computed: line -> the parts that it computes.
    """

    def __init__(self, run: Run) -> None:
        self.text = dict(run.request.kernel.files)
        self.reads, self.computed = dict[str, set[str]](), dict[str, set[str]]()
        names = gradients.symbols(run.request)
        for site in run.sites:
            name = names.get(str(site.tensor), str(site.tensor))
            if site.event in READS:
                self.reads[site.place] = READERS.get(name, set())
            elif part := gradients.EVENTS.get(site.event):
                self.computed.setdefault(site.place, set()).add(part)

    def of_frame(self, made: list[str], lines: Mapping[str, int], groups: Sequence[list[str]]) -> dict[str, int]:
        """The lines of one of several frames. The last frame has the lines of no part. A part without a line lights all
        lines after earlier parts."""
        known = {part for own in groups for part in own}
        of = {at: self._parts_of(at, known) for at in lines}
        if not any(own & set(made) for own in of.values()):
            before = {part for own in groups[: groups.index(made)] for part in own}
            return {at: n for at, n in lines.items() if not of[at] & before}
        last = made == groups[-1]
        return {at: n for at, n in lines.items() if of[at] & set(made) or (last and not of[at] & known)}

    def of_wait(self, step: StepRow) -> dict[str, int]:
        """The line before the mark of a step, if it waits."""
        lines = self.text.get(step.file, "").splitlines()
        waits = 1 < step.line <= len(lines) + 1 and "wait" in lines[step.line - 2]
        return {f"{step.file}:{step.line - 1}": 1} if waits else {}

    def _parts_of(self, place: str, known: set[str]) -> set[str]:
        """The parts among the known ones that a line reads for or computes. Rule: any other line belongs to the first
        part of the next computing line of its file."""
        if read := self.reads.get(place, set()) & known:
            return read
        if place in self.computed:
            return self.computed[place]
        file, line = _file_and_line(place)
        later = [at for at in self.computed if _file_and_line(at)[0] == file and _file_and_line(at)[1] >= line]
        if not later:
            return set()
        return {min(self.computed[min(later, key=lambda at: _file_and_line(at)[1])], key=gradients.ORDER.index)}


def _file_and_line(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return file, int(line)
