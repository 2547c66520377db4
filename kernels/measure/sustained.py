"""Adds sustained times to rows of the recorded table of times without them. The rested times stay.

A row takes part if its kernel has its present code, or its peer is installed. Each point is judged first, as for every
time. A missing peer keeps only its rested time.
"""

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pandas as pd

from kernels import catalog
from kernels.core.problem import Problem
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import bench, load, peers, protocol, reports
from kernels.measure.bench_rows import SUSTAINED, sustained_figures
from kernels.measure.protocol import Point, Timing
from kernels.recordings import tables
from kernels.run.backends import Device


def record(
    device: Device,
    progress: Callable[[int, int, str], None] = lambda done, of, what: None,
    anew: bool = False,
    families: Sequence[str] = (),
    names: Sequence[str] = (),
) -> list[Path]:
    """Adds sustained times to this GPU's recorded table, problem by problem. Returns the path. Rows with sustained
    times stay, unless `anew`.

    families: of the catalogue, such as tensor_cores. All if empty.
    names: kernels and peers, all if empty. With a kernel among them, peers run only on the problems of these kernels.

    ProblemError for an unknown name.
    """
    path = tables.path_of(bench.KIND, device.name)
    made, where = reports.load_kept(path)
    wanted = [(at, point) for at, point in _points(made, families, names) if anew or _is_empty(made, at)]
    made = made.astype({name: float for name in SUSTAINED})
    done = 0
    for problem, group in groupby(wanted, key=lambda pair: (pair[1].problem, pair[1].cold)):
        pairs = list(group)
        progress(done, len(wanted), problem[0].size)
        for (at, _), timing in zip(pairs, _timings([point for _, point in pairs])):
            for name, value in sustained_figures(timing).items():
                made.loc[at, name] = value
        done += len(pairs)
        made = made.copy()
        tables.save(made, path, replace(where, more={**where.more, "sustained": _said(device)}))
    progress(len(wanted), len(wanted), "")
    return [path]


def _is_empty(made: pd.DataFrame, at: int) -> bool:
    return bool(pd.isna(made.loc[at, SUSTAINED[0]]))


def _points(made: pd.DataFrame, families: Sequence[str], names: Sequence[str]) -> list[tuple[int, Point]]:
    """(index of the row, Point) of the recorded rows with a time for these families and names, problem by problem."""
    unknown = [f for f in families if f not in catalog.current().families]
    unknown += [n for n in names if n not in (*catalog.current().kernels, *peers.NAMES)]
    if unknown:
        raise ProblemError(
            f"No family, kernel or peer has the name {', '.join(unknown)}. python -m kernels list has them."
        )
    present = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    kinds = {spec.problem_type.title: spec for spec in catalog.current().kernels.values()}
    asked = {name for name in [*catalog.current().kernels, *peers.NAMES] if not names or name in names}
    found = []
    for at, entry in made[made.status == "ok"].iterrows():
        spec = kinds.get(entry.title)
        if spec is None or entry["name"] not in asked or (families and spec.family not in families):
            continue
        kernel = entry.kind == "kernel"
        if entry.code_hash != present.get(entry["name"]) if kernel else not peers.installed(entry["name"]):
            continue
        found.append((at, _point(entry, spec.problem_type)))
    ours = {point.problem for _, point in found if not point.is_peer}
    if any(name in catalog.current().kernels for name in names):
        found = [(at, point) for at, point in found if point.problem in ours]
    order = list(dict.fromkeys((point.problem, point.cold) for _, point in found))
    return sorted(found, key=lambda pair: order.index((pair[1].problem, pair[1].cold)))


def _point(entry: pd.Series, kind: Callable[..., Problem]) -> Point:
    """The Point of a recorded row."""
    pairs = [pair.split("=") for pair in str(entry.settings).split()] if isinstance(entry.settings, str) else []
    problem = kind(**json.loads(entry.problem))
    return Point(entry["name"], problem, tuple((name, int(value)) for name, value in pairs), entry.l2 == "cold")


def _timings(points: list[Point]) -> list[Timing]:
    """The sustained Timings of points of one problem. If that fails, each point runs in a job of its own."""
    from kernels.run import workers

    try:
        job = workers.submit(protocol.sustain, points, backend="gpu", title=points[0].name, time_limit=bench.TIME_LIMIT)
        return job.result()
    except WarpglassError as error:
        if len(points) == 1:
            return [Timing(points[0], "failed", str(error))]
    return [timing for point in points for timing in _timings([point])]


def _said(device: Device) -> dict[str, str]:
    """The provenance of the last sustained times."""
    import torch

    how = f"each row {load.LEAD:g} s of load, then {load.SECONDS:g} s of runs without a pause. The rows of a problem"
    here = {"driver": device.driver, "date": datetime.date.today().isoformat(), "torch": torch.__version__}
    return {**here, "protocol": f"{how} follow each other"}
