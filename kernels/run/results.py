"""What a run gives, and what it is estimated to take."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernels.core.request import Request
from kernels.trace.trace import Trace


@dataclass(frozen=True)
class Run:
    """What a run of the probed build gave. arrays: the problem's inputs and outputs by name, in their own types.

    max_abs_errors: output -> the largest difference of that output from float64. Whether it is good enough,
    execute.judge says. provenance: measured, executed or recorded; device, compiler and date say where, with what and
    when.
    """

    request: Request
    provenance: str
    device: str
    compiler: str
    date: str
    arrays: dict[str, np.ndarray]
    trace: Trace
    max_abs_errors: dict[str, float]

    @property
    def max_abs_error(self) -> float:
        """The largest of max_abs_errors; NaN if one is."""
        return float(np.max(list(self.max_abs_errors.values())))


@dataclass(frozen=True)
class Traffic:
    """Bytes moved, counted in the probes. table: tensor, space, kind (such as load or store), accesses, bytes; whole:
    over every block of the run, or only over the request's scope because the whole would not fit in memory."""

    table: pd.DataFrame
    whole: bool


@dataclass(frozen=True)
class Estimate:
    """What a run will take, before it is launched: a formula, never shown as a time of a kernel."""

    array_bytes: int
    seconds: float


@dataclass(frozen=True)
class Marked:
    """What one launch of a marks build left. records: [writers, capacity] of probes.MARK, block by block; counts:
    [writers], how many each had to say; clocks: [writers] of probes.CLOCKS; writers: of a block."""

    launch: int
    writers: int
    records: np.ndarray
    counts: np.ndarray
    clocks: np.ndarray
