"""Times of many points, and the table of them that is recorded for each GPU, kernels/recordings/data/bench/.

The parts are sweeps.py (which points), rows.py (a row's figures) and reports.py (what follows from a table, in words
and JSON); what others use of them is named here too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from kernels import catalog
from kernels.errors import TraceError, WarpglassError
from kernels.measure import load, peers, protocol
from kernels.measure.protocol import Point, Timing
from kernels.measure.reports import (
    RATIO,
    Report,
    against,
    against_lines,
    became_slower,
    check_out,
    exponents,
    labelled,
    load_kept,
    problem_key,
    records,
    report,
    report_json,
    report_lines,
    roofs_said,
    save,
    speedups,
)
from kernels.measure.rows import (
    COLUMNS,
    SIZES,
    arithmetic_roofs,
    problem_text,
    row,
    settings_text,
    skipped_row,
    table,
    under,
    whole,
)
from kernels.measure.sweeps import (
    MOST_POINTS,
    Skipped,
    by_problem,
    can_sweep,
    default_names,
    points,
    set_field,
    sweep_field,
)
from kernels.recordings import tables

__all__ = [
    "COLUMNS",
    "MOST_POINTS",
    "RATIO",
    "SIZES",
    "Point",
    "Report",
    "Skipped",
    "Timing",
    "against",
    "against_lines",
    "arithmetic_roofs",
    "became_slower",
    "check_out",
    "default_names",
    "exponents",
    "labelled",
    "load_kept",
    "merge",
    "not_recorded",
    "points",
    "problem_key",
    "problem_text",
    "provenance",
    "record",
    "recorded",
    "recorded_points",
    "records",
    "report",
    "report_json",
    "report_lines",
    "roofs_said",
    "row",
    "save",
    "set_field",
    "settings_text",
    "skipped_row",
    "speedups",
    "sweep_field",
    "table",
    "time_point",
    "time_points",
]

KIND = "bench"
TIME_LIMIT = 600.0  # seconds for one point, from when it starts


# ---- timing them ----


def time_points(
    asked: Sequence[Point | Skipped], progress: Callable[[int, int, str], None] = lambda done, of, what: None
) -> tuple[pd.DataFrame, dict[str, float]]:
    """(table of their rows, the machine's roofs), timed in the GPU's worker, neighbours of one problem in turns.
    progress(done, of, what) is told before each problem and at the end. Ctrl-C ends it; what is done by then is kept,
    and the table is shorter than the points."""
    rows: list[dict[str, Any]] = []
    roofs = measured_roofs()
    try:
        for group in _together(asked):
            progress(len(rows), len(asked), group[0].name)
            rows += time_together(group, roofs)
        progress(len(asked), len(asked), "")
    except KeyboardInterrupt:
        pass
    return table(rows), roofs


def measured_roofs() -> dict[str, float]:
    """protocol.roofs of this machine, measured in the GPU's worker."""
    from kernels.run import workers

    return workers.submit(protocol.roofs, backend="gpu", title="Measuring the roofs", time_limit=TIME_LIMIT).result()


def time_together(group: Sequence[Point | Skipped], roofs: Mapping[str, float]) -> list[dict[str, Any]]:
    """The rows of points of one problem, timed in turns in the GPU's worker; each alone where that fails, so that one
    which ends the worker ends only itself."""
    from kernels.run import workers

    if len(group) > 1:
        try:
            job = workers.submit(
                protocol.measure_in_turns, group, backend="gpu", title=group[0].name, time_limit=TIME_LIMIT
            )
            return [row(timing, roofs) for timing in job.result()]
        except WarpglassError:
            pass
    return [time_point(point, roofs) for point in group]


def _together(asked: Iterable[Point | Skipped]) -> list[list[Any]]:
    """Neighbours that can take turns: points of one problem and one state of the L2."""
    groups = groupby(asked, lambda point: (point.problem, point.cold) if isinstance(point, Point) else id(point))
    return [list(group) for _, group in groups]


def time_point(point: Point | Skipped, roofs: Mapping[str, float]) -> dict[str, Any]:
    """The row of one point, timed in the GPU's worker; of one that fails, with its reason."""
    from kernels.run import workers

    if isinstance(point, Skipped):
        return skipped_row(point)
    try:
        timing = workers.submit(
            protocol.measure, point, backend="gpu", title=point.name, time_limit=TIME_LIMIT
        ).result()
    except WarpglassError as error:  # its worker died or ran out of time: the others go on
        timing = Timing(point, "failed", str(error))
    return row(timing, roofs)


def provenance(device: Any, roofs: Mapping[str, float], made: pd.DataFrame) -> tables.Provenance:
    """What a table's file says of its making: device, driver, date, torch, compiler, roofs, the code of the kernels in
    it, and the protocol."""
    import torch

    from kernels.build.nvrtc import Toolchain

    timed = made[made.code_hash.notna() & (made.code_hash != "")]
    return tables.provenance(
        device,
        dict(zip(timed.name, timed.code_hash)),
        torch=torch.__version__,
        compiler=Toolchain(device.target).version,
        roofs=dict(roofs),
        protocol=f"device events, median of {protocol.LEAST_RUNS} to {protocol.MOST_RUNS} runs, "
        f"warmed up {protocol.WARM_UP:g} s; sustained: {load.SECONDS:g} s without a pause after {load.LEAD:g} s; "
        f"several points of one problem in {protocol.TURNS} turns, one alone in 1",
        libraries=_libraries(),
    )


def _libraries() -> dict[str, str]:
    """package -> version of the peers' libraries that are installed."""
    there = (package for name, (_, package) in peers.LIBRARIES.items() if peers.installed(name))
    found = {}
    for package in there:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


# ---- recorded ----


def recorded_points(kernels: Iterable[str] = ()) -> list[Point | Skipped]:
    """What is recorded: every kernel of the catalogue (or these alone), and the peers that are installed, over the
    sweeps of its problem (bench_sweeps); a constant is swept for the kernels that have it."""
    found = {}
    specs = {name: catalog.find(name) for name in kernels or catalog.KERNELS}
    for kind in dict.fromkeys(spec.problem_type for spec in specs.values()):
        for sweeps, held in kind.bench_sweeps():
            names = [n for n, spec in specs.items() if kind is spec.problem_type and can_sweep(spec, sweeps)]
            for point in points(names, sweeps, held.items(), with_peers=True, most=10**6):
                if point.name not in peers.NAMES or peers.installed(point.name):
                    found[point if isinstance(point, Point) else (point.name, *point.at.items())] = point
    return by_problem(found.values())


def record(
    device: Any, progress: Callable[[int, int, str], None] = lambda done, of, what: None, anew: bool = False
) -> list[Path]:
    """Times every point of `recorded_points` and writes this GPU's table; the path. Resumable: the table is written
    after every problem, and rows of the same code, driver, torch and compiler that are there already are kept, unless
    `anew`."""
    asked, path = recorded_points(), tables.path_of(KIND, device.name)
    rows, roofs = ({}, {}) if anew else _kept(path, device)
    roofs = roofs or measured_roofs()
    wanted = [_key_of(point) for point in asked]
    for group in _together(point for point, key in zip(asked, wanted) if key not in rows):
        progress(len(rows), len(asked), group[0].name)
        rows |= zip(map(_key_of, group), time_together(group, roofs))
        made = table(rows[key] for key in wanted if key in rows)
        tables.save(made, path, provenance(device, roofs, made))
    progress(len(asked), len(asked), "")
    return [path]


def merge(path: str | Path) -> Path:
    """Puts the rows of a table that `bench --out` wrote into the recorded table of its GPU, in the place of rows of the
    same points and of these kernels' former code; the path. Its `merged` says which rows came when and how. A roof is
    the highest that was measured for any of the rows, and every row says its share of that."""
    made, where = load_kept(path)
    target = tables.path_of(KIND, where.device)
    kept, before = load_kept(target) if target.exists() else (table([]), where)
    kept = kept[~kept["name"].isin([*where.codes]) | kept.code_hash.isin([*where.codes.values()])]
    rows: dict[tuple, dict[str, Any]] = {}
    for part in (kept, made):
        rows |= {_key(entry): entry for entry in part.astype(object).where(part.notna(), None).to_dict("records")}
    said = {name: value for name, value in where.as_json().items() if name not in ("device", "codes", "roofs")}
    said["names"] = list(dict.fromkeys(made["name"]))
    merged = [*(entry for entry in before.more.get("merged", []) if entry != said), said]
    more = {**before.more, "merged": merged}
    roofs = {name: max(roof, before.roofs.get(name, 0.0)) for name, roof in where.roofs.items()}
    codes, date = {**before.codes, **where.codes}, max(before.date, where.date)
    whole = replace(before, codes=codes, date=date, roofs=roofs, more=more)
    return tables.save(table(under(entry, roofs) for entry in rows.values()), target, whole)


def _kept(path: Path, device: Any) -> tuple[dict[tuple, dict[str, Any]], dict[str, float]]:
    """The rows of a table of this very machine that need not be timed again, by _key, and its roofs."""
    try:
        made, where = tables.load(path)
    except TraceError:
        return {}, {}
    now = provenance(device, {}, made)
    if (where.device, where.driver, where.torch, where.compiler) != (now.device, now.driver, now.torch, now.compiler):
        return {}, {}
    good = whole(made[_is_present(made) & (made.status != "failed")])
    return {
        _key(entry): entry for entry in good.astype(object).where(good.notna(), None).to_dict("records")
    }, where.roofs


def _key_of(point: Point | Skipped) -> tuple:
    if isinstance(point, Skipped):
        return _key(skipped_row(point))
    settings, l2 = settings_text(point.settings), "cold" if point.cold else "warm"
    return _key({"name": point.name, "settings": settings, "l2": l2, "problem": problem_text(point.problem)})


def _key(entry: Mapping[str, Any]) -> tuple:
    """What makes two rows the same point; of a place that is no problem, its reason."""
    name, problem = entry["name"], entry.get("problem")
    return (name, problem, entry["settings"] or "", entry["l2"]) if problem else (name, entry["reason"])


def _is_present(made: pd.DataFrame) -> pd.Series:
    """Whether each row is of the code that its kernel has today. Rows that nothing was compiled for are: peers, and
    what was skipped before."""
    here = {name: spec.code_hash for name, spec in catalog.KERNELS.items()}
    known = made["name"].isin([*here, *peers.NAMES])
    return known & ((made.code_hash == made["name"].map(here)) | made.code_hash.isna() | (made.code_hash == ""))


def recorded() -> dict[str, tuple[pd.DataFrame, tables.Provenance]]:
    """GPU name -> (table of the rows whose kernel has its present code, Provenance), the newest first. Where nothing is
    recorded, or only by another version of this program, it is not there, and `not_recorded` says so."""
    found = tables.recorded(KIND)
    return {
        device: (whole(made[_is_present(made)].reset_index(drop=True)), where)
        for device, (made, where) in found.items()
    }


def not_recorded() -> list[str]:
    """What a reader of the recorded tables should know is missing, a sentence for each reason."""
    reasons = tables.left_out(KIND)
    asked = [(point.name, _key_of(point)) for point in recorded_points()]
    for device, (made, _) in recorded().items():
        absent = [name for name in catalog.KERNELS if name not in set(made["name"])]
        if absent:
            reasons.append(f"Of {', '.join(absent)} no times of the present code are recorded on {device}.")
        there = {_key(entry) for entry in made.astype(object).where(made.notna(), None).to_dict("records")}
        missing = [name for name, key in asked if key not in there and name not in absent]
        if missing:
            said = f"{len(missing)} of {len(asked)} points of the present sweeps are not recorded on {device}"
            reasons.append(
                f"{said}: of {', '.join(dict.fromkeys(missing))}. Record them with python -m kernels record."
            )
    if not reasons and not recorded():
        reasons.append("No times are recorded. Record them on a GPU with python -m kernels record.")
    return reasons
