"""The error of O over score_scale and seq_len, in every type, and its recorded tables (kernels/recordings).

python -m app.sweeps      records it on this GPU: the first query tile of head 0, replayed in float64
"""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from explainers.models import softmax_rows
from explainers.stories.precision import error_tables, rounding
from explainers.story import probed
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, WarpglassError
from kernels.recordings.tables import Case, Cases, Kept, RecordedTable, Row, by
from kernels.run import execute, workers
from kernels.run.backends import Device

KIND = "precision"
VALUES: dict[str, dict[str, tuple[float, ...]]] = {  # a field of the problem -> its values, on the CPU and on a GPU
    "score_scale": {"cpu": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), "gpu": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
    "seq_len": {"cpu": (32, 64, 128, 256), "gpu": (64, 256, 1024, 4096)},
}
BEGIN = {"seq_len": 1024, "head_dim": 64, "num_heads": 1}  # of the recorded problem
TIME_LIMIT = 300.0  # seconds for one run


def swept(request: Request, field: str) -> list[Request]:
    """A request with each value of a sweep. The scope is the first query tile, because every length has one."""
    values = VALUES[field].get(request.backend, ())
    return [replace(request, problem=request.problem.with_fields(**{field: v}), scope=Scope()) for v in values]


def asked(backend: str = "gpu") -> list[Request]:
    """The recorded requests: a kernel of each type, as on the page of Precision, and the first rung with an optimistic
    max. Each kernel has its tuned constants."""
    accepted = probed.accepting(rounding).values()
    first = min(filter(softmax_rows.is_optimistic, accepted), key=lambda spec: spec.rung)
    dtypes = fields_of(first.problem_type)["dtype"].metadata["allowed"]
    wanted = [*rounding.of_each_type(accepted).values(), *((first, {"dtype": dtype}) for dtype in dtypes)]
    found: dict[Request, None] = {}
    for spec, changes in wanted:
        fields = {name: value for name, value in BEGIN.items() if name in fields_of(spec.problem_type)}
        problem = spec.problem_type(**{**fields, **changes})
        one_group = {c.name: 1 for c in spec.constants_of("key_groups")}  # one that a replay can follow
        found[Request(spec, problem, tuple(spec.settings_for(problem, one_group).items()), Scope(), backend)] = None
    return list(found)


def _cases(device: Device, kept: Kept | None) -> Cases:
    """A case for each run."""
    cases = []
    for request in asked():
        for field in VALUES:
            for one in swept(request, field):
                spec, value = one.kernel, one.problem.values()[field]
                key = spec.name, rounding.label_of(one), field, value
                cases.append(Case(f"{spec.name}, {field} {value}", [key], partial(_rows, one, field)))
    return cases, {}


def _rows(request: Request, field: str, missing: object) -> list[Row]:
    spec = request.kernel
    job = workers.submit(
        execute.run, request, backend=request.backend, title=request.kernel.name, time_limit=TIME_LIMIT
    )
    table = error_tables.sweep_table(field, [rounding.replay(job.result())]).rename(columns={field: "value"})
    return table.assign(name=spec.name, code_hash=spec.code_hash, field=field).to_dict("records")


TABLE = RecordedTable(KIND, by("name", "computes in", "field", "value"), _cases)
recorded = TABLE.newest


def recorded_sweep(table: pd.DataFrame, field: str) -> pd.DataFrame:
    """The recorded rows of a sweep as error_tables.sweep_table has them, a type with its kernel's name."""
    rows = table[table.field == field].rename(columns={"value": field})
    rows = rows.assign(**{"computes in": rows["computes in"] + ", " + rows["name"]})
    if (rows[field] % 1 == 0).all():
        rows[field] = rows[field].astype(np.int64)
    return rows[[field, "computes in", "RMS error of O", "relative error", "most of it"]].reset_index(drop=True)


def main() -> int:
    """Records what this GPU's table lacks. Returns the exit code: 3 without a GPU, 1 after a failed run."""
    try:
        print(*TABLE.record(workers.survey().pick("gpu")))
        return 0
    except WarpglassError as error:
        print(error, file=sys.stderr)
        return 3 if isinstance(error, BackendUnavailable) else 1
    finally:
        workers.stop()
