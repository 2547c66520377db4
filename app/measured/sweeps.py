"""The error of O over score_scale and seq_len, in every type, and its recorded tables (kernels/recordings).

python -m app.sweeps      records it on this GPU: the first query tile of head 0, replayed in float64
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from explainers.models import softmax_rows
from explainers.stories.precision import error_tables, precision, rounding
from explainers.story import probed
from kernels.core.fields import fields_of
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, WarpglassError
from kernels.recordings import tables
from kernels.recordings.tables import Provenance
from kernels.run import execute, workers
from kernels.run.backends import Device

KIND = "precision"
VALUES: dict[str, dict[str, tuple]] = {  # a field of the problem -> its values, on the CPU and on a GPU
    "score_scale": {"cpu": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), "gpu": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
    "seq_len": {"cpu": (32, 64, 128, 256), "gpu": (64, 256, 1024, 4096)},
}
BEGIN = {"seq_len": 1024, "head_dim": 64, "num_heads": 1}  # of the recorded problem
TIME_LIMIT = 300.0  # seconds for one run


def swept(request: Request, field: str) -> list[Request]:
    """A request with each value of a sweep. The scope is the first query tile, because every length has one."""
    values = VALUES[field].get(request.backend, ())
    return [replace(request, problem=request.problem.with_fields(**{field: v}), scope=Scope()) for v in values]


# ---- recorded ----


def asked(backend: str = "gpu") -> list[Request]:
    """The recorded requests: a kernel of each type, as on the page of Precision, and the first rung with an optimistic
    max. Each kernel has its tuned constants."""
    accepted = probed.accepting(precision).values()
    first = min(filter(softmax_rows.is_optimistic, accepted), key=lambda spec: spec.rung)
    dtypes = fields_of(first.problem_type)["dtype"].metadata["allowed"]
    wanted = [*precision.of_each_type(accepted).values(), *((first, {"dtype": dtype}) for dtype in dtypes)]
    found: dict[Request, None] = {}
    for spec, changes in wanted:
        fields = {name: value for name, value in BEGIN.items() if name in fields_of(spec.problem_type)}
        problem = spec.problem_type(**{**fields, **changes})
        one_group = {c.name: 1 for c in spec.constants_of("key_groups")}  # one that a replay can follow
        found[Request(spec, problem, tuple(spec.settings_for(problem, one_group).items()), Scope(), backend)] = None
    return list(found)


def record(device: Device, requests: Iterable[Request]) -> Path:
    """Runs the requests over every sweep and writes this GPU's table. A run that the device refuses has no row.
    Returns the path."""
    rows: list[pd.DataFrame] = []
    codes: dict[str, str] = {}
    for request in requests:
        for field in VALUES:
            for one in swept(request, field):
                job = workers.submit(
                    execute.run, one, backend=one.backend, title=one.kernel.name, time_limit=TIME_LIMIT
                )
                try:
                    table = error_tables.sweep_table(field, [rounding.replay(job.result())])
                except WarpglassError as error:
                    print(f"{one.kernel.name}, {field} {one.problem.values()[field]}: {error}", file=sys.stderr)
                    continue
                spec, codes[one.kernel.name] = one.kernel, one.kernel.code_hash
                said = {"name": spec.name, "code_hash": spec.code_hash, "field": field}
                rows.append(table.rename(columns={field: "value"}).assign(**said))
    return tables.save(
        pd.concat(rows, ignore_index=True), tables.path_of(KIND, device.name), tables.provenance(device, codes)
    )


@of_recordings(lru_cache(maxsize=1))
def recorded() -> tuple[pd.DataFrame, Provenance] | None:
    for table, where in tables.recorded(KIND).values():
        if len(rows := tables.of_present_code(table, where)):
            return rows.reset_index(drop=True), where
    return None


def recorded_sweep(table: pd.DataFrame, field: str) -> pd.DataFrame:
    """The recorded rows of a sweep as error_tables.sweep_table has them, a type with its kernel's name."""
    rows = table[table.field == field].rename(columns={"value": field})
    rows = rows.assign(**{"computes in": rows["computes in"] + ", " + rows["name"]})
    if (rows[field] % 1 == 0).all():
        rows[field] = rows[field].astype(np.int64)
    return rows[[field, "computes in", "RMS error of O", "relative error", "most of it"]].reset_index(drop=True)


def main() -> int:
    """Records the sweeps on this GPU. Returns the exit code: 3 without a GPU."""
    try:
        print(record(workers.survey().pick("gpu"), asked()))
        return 0
    except BackendUnavailable as error:
        print(error, file=sys.stderr)
        return 3
    finally:
        workers.stop()
