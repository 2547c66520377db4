"""The results of a run."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from kernels.core.request import Request
from kernels.run.plain.faults import Fault
from kernels.trace.automatic import sites_in
from kernels.trace.probes import Sites, sites_of
from kernels.trace.trace import Trace


@dataclass(frozen=True)
class Run:
    """The result of a run of the probed build.

    provenance: measured, executed or recorded.
    arrays: the problem's inputs and outputs by name, in their own types.
    max_abs_errors: output -> its largest difference from float64. execute.judge compares it with its limit.
    faults: of a plain kernel on the CPU."""

    request: Request
    provenance: str
    device: str
    compiler: str
    date: str
    arrays: dict[str, np.ndarray]
    trace: Trace
    max_abs_errors: dict[str, float]
    faults: tuple[Fault, ...] = ()

    @cached_property
    def sites(self) -> Sites:
        """The probes of the trace. Those of a plain kernel come from the trace itself."""
        kernel = self.request.kernel
        return sites_in(self.trace, kernel.files) if kernel.plain else sites_of(self.request)

    @property
    def max_abs_error(self) -> float:
        return float(np.max(list(self.max_abs_errors.values())))


@dataclass(frozen=True)
class Traffic:
    """Moved bytes, counted from the probes.

    table: columns tensor, space, kind (such as load or store), accesses, bytes.
    whole: whether it covers all blocks. If they do not fit in memory, it covers only the request's scope."""

    table: pd.DataFrame
    whole: bool


@dataclass(frozen=True)
class Marked:
    """The marks of one launch of a marks build.

    writers: of a block.
    records: [all writers, capacity] of probes.MARK, block by block.
    counts: [all writers], the marks of each, kept or not.
    clocks: [all writers] of probes.CLOCKS."""

    launch: int
    writers: int
    records: np.ndarray
    counts: np.ndarray
    clocks: np.ndarray
