"""counts: the wavefronts, sectors and bytes of a kernel, line by line, for a grid of fields and constants.

They follow from the logged addresses, so that no hardware counter and no permission is needed.
"""

from collections.abc import Sequence
from itertools import product

import pandas as pd

from kernels import catalog
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute, options, workers
from kernels.trace.memory.traced import requests
from kernels.trace.trace import Trace

TIME_LIMIT = 600.0  # seconds of a run


def counts(kernel: str, **grid: object) -> pd.DataFrame:
    """A row for each value of the grid and each line with an access, of the first item of the kernel.

    kernel: a name of the catalogue, or the path of a .cu.
    grid: a field of the problem or a constant of the kernel -> a value, or a list of values. Lists make a product.

    Columns: the grid's, file, line, kind, space, tensor, requests (of warps), wavefronts, ideal and conflicts (of
    shared memory), sectors and bytes_used (of global memory). Raises ProblemError for an unknown field or value.

    >>> import warpglass as wg
    >>> wg.counts("lab_columns", PAD=[0, 1]).groupby(["PAD", "space"]).conflicts.sum().to_dict()
    {('0', 'global'): 0, ('0', 'shared'): 992, ('1', 'global'): 0, ('1', 'shared'): 0}
    """
    spec, listed = catalog.find(kernel), {name: _values(given) for name, given in grid.items()}
    found = []
    for values in product(*listed.values()):
        here = dict(zip(listed, values))
        problem, settings = options.assignments(spec, [f"{name}={value}" for name, value in here.items()])
        request = Request(spec, problem, settings, Scope(), "cpu")
        execute.check_possible(request, workers.survey().pick("cpu"))
        job = workers.submit(_by_line, request, backend="cpu", title=spec.name, time_limit=TIME_LIMIT)
        rows = job.result()
        found.append(rows.assign(**here)[[*here, *rows]])
    return pd.concat(found, ignore_index=True)


def _values(given: object) -> Sequence[str]:
    listed = given if isinstance(given, (list, tuple, range)) else [given]
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in listed]


def by_line(trace: Trace) -> pd.DataFrame:
    """The rows of a trace, with the columns of counts after its grid."""
    return requests(trace).by_line.drop(columns=["launch", "bytes", "active", "lines"])


def _by_line(request: Request) -> pd.DataFrame:
    return by_line(execute.run(request).trace)
