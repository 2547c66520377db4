"""Reads of a run's records, for kernels that keep queries and for kernels that keep keys."""

import numpy as np
import pandas as pd

from explainers.stories.tensor_cores.tensor_products import LANES, Fetch
from explainers.story.glossary import count
from kernels.errors import ProblemError
from kernels.trace.memory import model
from kernels.trace.probes import Site


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
