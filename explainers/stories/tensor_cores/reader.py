"""Reads of a run's records, for kernels that keep queries or keys: the operands in shared memory, step by step, and the
ldmatrix that fetch them."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.stories.tensor_cores.tensor_products import GROUP, LANES, Fetch, Matrix
from explainers.story import axes, picture
from explainers.story.glossary import count
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import WRITES
from kernels.trace.memory import model
from kernels.trace.probes import Site

Corner = tuple[int, int] | None  # the first row and dim of a matrix of 8 x 8, None for one past the end


class Fetched(NamedTuple):
    """An ldmatrix of the warp.

    turned: whether it is transposed. number: among all fetches. offsets: of each lane. active: the lanes with one.
    elements: row and dim of each element of its shared memory.
    """

    step: int
    site: Site
    part: str
    turned: bool
    number: int
    offsets: np.ndarray
    active: np.ndarray
    elements: np.ndarray


class Reader:
    """A run's trace, and the matrices of one warp or warpgroup.

    places: the probes' name of a tensor -> its part. tensors: part -> its tensor of global memory.
    own: the records of the unit. FETCHED: the parts that ldmatrix may bring.
    """

    FETCHED: tuple[str, ...]
    matrices: dict[str, Matrix]
    own: pd.DataFrame
    records: pd.DataFrame
    tensors: Mapping[str, Tensor]

    def __init__(self, run: Run) -> None:
        self.run, self.request, self.sites = run, run.request, run.sites
        self.steps = cutting.cut(run.trace, self.sites)
        table = run.trace.table
        frame = table.to_pandas(split_blocks=True).assign(step=self.steps.of_record, site=self.sites.index(table))
        self.frame = frame[frame.step >= 0]
        self.places = picture.places(self.request)
        self.by_group = any(site.event == "product" for site in self.sites)
        self.event = "product" if self.by_group else "ldmatrix"
        self.size = GROUP if self.by_group else LANES
        self.texts = {name: text.splitlines() for name, text in self.request.kernel.files}
        self.scale = float(self.request.problem.scale)
        self.fetches: list[Fetch] = []

    def choose(self, unit: int) -> None:
        """Takes the records of one warp or warpgroup with products. ProblemError without it."""
        there = np.unique(self.records.thread[self.records.event == self.event] // self.size)
        if unit >= len(there):
            noun = "warpgroup" if self.by_group else "warp"
            said = f"{noun} is {unit}. This block has products in {count(len(there), noun)}, counted from 0."
            raise ProblemError(said)
        self.own = self.records[self.records.thread // self.size == there[unit]]

    def moments(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Each step, with the operands in shared memory after it."""
        symbols = {part: symbol for symbol, part in self.places.items()}
        operands = {part: (symbols[part], tensor) for part, tensor in self.tensors.items()}
        return contents(self.records, len(self.steps.table), operands)

    def fetched(self) -> Iterator[Fetched]:
        """Every ldmatrix of the warp, in order."""
        loads = self.own[self.own.event == "ldmatrix"].sort_values(["step", "lane", "seq"], kind="stable")
        loads = loads.assign(nth=loads.groupby(["step", "lane"]).cumcount())
        of_step = {int(step): part for step, part in loads.groupby("step")}
        for step, now in self.moments():
            for _, lanes in of_step[step].groupby("nth") if step in of_step else ():
                site = self.sites[int(lanes.site.iloc[0])]
                part = self.places.get(site.tensor or "", "")
                if part not in self.FETCHED:
                    continue
                offsets, active = np.zeros((1, LANES), np.int64), np.zeros((1, LANES), bool)
                offsets[0, lanes.lane], active[0, lanes.lane] = lanes.offset.to_numpy(), True
                wide = int(lanes.bytes.iloc[0])
                (wavefronts,), (ideal,) = model.count_wavefronts(offsets, active, wide, "ldmatrix")
                turned = "trans" in self.texts[site.file][site.code_line - 1]
                self.fetches.append(Fetch(part, site.place, int(wavefronts), int(ideal), turned))
                number = len(self.fetches) - 1
                elements = now.get(part, np.zeros((0, 2), np.int64))
                yield Fetched(step, site, part, turned, number, offsets[0], active[0], elements)

    def note(self, name: str, fetch: Fetched, letter: str) -> list[Corner]:
        """Notes the owners of the elements of an ldmatrix. Returns the corner of each matrix of 8 x 8.

        name: of the matrix. letter: its side in the product, A or B.
        """
        item = self.tensors[fetch.part].itemsize
        first = fetch.offsets[fetch.active].reshape(-1, 8) // item  # [matrices, 8 rows]
        lies = fetch.elements[first]  # row and dim of each row's first element
        corners: list[Corner] = []
        r, c = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
        lane, half = (4 * c + r // 2, r % 2) if fetch.turned else (4 * r + c // 2, c % 2)
        for i in range(len(first)):
            row, dim = (int(n) for n in lies[i, 0])
            if row < 0 or row % 8:  # rows past the end are zeros, or the last row again
                corners.append(None)
                continue
            corners.append((row, dim))
            there = lies[i, :, 0][r] == row + r
            at = {"byte": (first[i][:, None] + c) * item, "by": 8 * i + r, "lane": lane, "half": half}
            self.matrices[name].set(
                row + r[there],
                dim + c[there],
                register=i if letter == "A" else i % 2,
                fetch=fetch.number,
                **{key: values[there] for key, values in at.items()},
            )
        return corners

    def multiplied(self, site: Site, pattern: str, which: int = 0) -> list[str]:
        """The source line of a product in a list: one with the pattern, soon after the line of the fetch.

        which: the number of the product.
        """
        texts, line = self.texts[site.file], site.code_line
        found = [n + 1 for n in range(line, min(line + 6, len(texts))) if re.search(pattern, texts[n])]
        return [f"{site.file}:{found[min(which, len(found) - 1)]}"] if found else []


def contents(
    records: pd.DataFrame, steps: int, operands: Mapping[str, tuple[str, Tensor]]
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """step -> place of Q, K and V -> the row and dim of each element of its shared memory after the step.

    [elements, 2], with -1 for an unknown element and for zeros beyond the last row.

    operands: place -> the tensor's name in the probes, and the tensor.
    """
    writes = []
    for place, (symbol, tensor) in operands.items():
        writes += [(step, place, to, elements) for step, to, elements in _writes(records, symbol, tensor)]
    writes.sort(key=lambda write: write[0])
    size = {
        name: 1 + max((int(to.max()) for _, place, to, _ in writes if place == name), default=0) for name in operands
    }
    now = {name: np.full((size[name], 2), -1, np.int64) for name in operands}
    at = 0
    for step in range(steps):
        while at < len(writes) and writes[at][0] <= step:
            _, place, to, elements = writes[at]
            now[place][to] = elements
            at += 1
        yield step, now


def _writes(records: pd.DataFrame, symbol: str, tensor: Tensor) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """step, elements of shared memory, row and dim of each [n, 2], for every step with a write of the tensor."""
    part = records[records.tensor == symbol].sort_values(["thread", "seq"], kind="stable")
    writes = ((part.space == "shared") & part.event.isin(WRITES)).to_numpy()
    reads = (part.space == "global").to_numpy()
    part, writes = part[writes | reads], writes[writes | reads]
    offset, thread = part.offset.to_numpy(np.int64), part.thread.to_numpy()
    before = np.roll(np.arange(len(part)), 1)
    paired = ~writes[before] & (thread[before] == thread) & (np.arange(len(part)) > 0)
    source = np.where(paired, offset[before] // tensor.itemsize, -1)
    part = part.assign(source=source)[writes]
    row_axis = tensor.axes.index(axes.rows(tensor))
    dim_axis = tensor.axes.index("dim")
    for (step, event, width), group in part.groupby(["step", "event", "bytes"], observed=True, sort=True):
        first, source = group.offset.to_numpy(np.int64) // tensor.itemsize, group.source.to_numpy()
        n = int(width) // tensor.itemsize
        if event == "tma_smem":  # a box: rows of 128 bytes, swizzled
            wide = 128 // tensor.itemsize
            r, c = np.divmod(np.arange(n), wide)
            to = first[:, None] + r * wide + ((c // 8) ^ (r % 8)) * 8 + c % 8
            corner = np.unravel_index(np.maximum(source, 0), tensor.shape)
            row, dim = corner[row_axis][:, None] + r, corner[dim_axis][:, None] + c
            known = (row < tensor.shape[row_axis]) & (dim < tensor.shape[dim_axis])
        else:
            to = first[:, None] + np.arange(n)
            element = np.maximum(source, 0)[:, None] + np.arange(n)
            at = np.unravel_index(element, tensor.shape)
            row, dim = at[row_axis], at[dim_axis]
            known = np.broadcast_to(source[:, None] >= 0, row.shape)
        element_at = np.stack([np.where(known, row, -1), np.where(known, dim, -1)], axis=-1)
        yield int(step), to.ravel(), element_at.reshape(-1, 2)
