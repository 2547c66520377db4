"""Reads of a run's records, for kernels that keep queries and for kernels that keep keys: the elements of Q, K and V in
shared memory, step by step, and the ldmatrix that fetch them."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from explainers.stories.tensor_cores.tensor_products import LANES, Fetch
from explainers.story import axes
from explainers.story.glossary import count
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.trace.kinds import WRITES
from kernels.trace.memory import model
from kernels.trace.probes import Site


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


def of_unit(records: pd.DataFrame, event: str, size: int, unit: int) -> tuple[pd.DataFrame, int]:
    """The records of one warp or warpgroup with products, and the number of these units. ProblemError without it.

    event: of its products. size: its threads.
    """
    there = np.unique(records.thread[records.event == event] // size)
    if unit >= len(there):
        noun = "warp" if size == LANES else "warpgroup"
        raise ProblemError(f"{noun} is {unit}. This block has products in {count(len(there), noun)}, counted from 0.")
    return records[records.thread // size == there[unit]], len(there)


def fetch_of(part: pd.DataFrame, tensor: str, site: Site, turned: bool) -> tuple[Fetch, np.ndarray, np.ndarray]:
    """An ldmatrix from the records of its lanes, the offset of each lane, and which lanes have one."""
    offsets, active = np.zeros((1, LANES), np.int64), np.zeros((1, LANES), bool)
    offsets[0, part.lane], active[0, part.lane] = part.offset.to_numpy(), True
    (wavefronts,), (ideal,) = model.count_wavefronts(offsets, active, int(part.bytes.iloc[0]), "ldmatrix")
    return Fetch(tensor, site.place, int(wavefronts), int(ideal), turned), offsets[0], active[0]
