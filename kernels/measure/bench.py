"""Times of many points, and their recorded table for each GPU, kernels/recordings/data/bench/."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from itertools import groupby

import pandas as pd

from kernels import catalog
from kernels.build.nvrtc import Toolchain
from kernels.core.fields import write_value
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, WarpglassError
from kernels.measure import load, peers, protocol
from kernels.measure.bench_rows import (
    COLUMNS,
    SUSTAINED,
    pairs_of,
    problem_text,
    row,
    settings_text,
    skipped_row,
    sustained_figures,
    table,
)
from kernels.measure.in_worker import in_worker
from kernels.measure.protocol import Point, Timing
from kernels.measure.reports import Report, report
from kernels.measure.sweeps import Skipped, by_problem, can_sweep, points
from kernels.recordings import tables
from kernels.recordings.tables import Case, Cases, Key, Progress, RecordedTable, Row, rows_of, silent
from kernels.run.backends import Device

KIND = "bench"


# ---- timing ----


def time_points(asked: Sequence[Point | Skipped], progress: Progress = silent) -> tuple[pd.DataFrame, dict[str, float]]:
    """(table of the points' rows, the machine's roofs). Points of one problem take turns in the GPU's worker. Ctrl-C
    ends the work, and the table then has fewer rows than points."""
    rows: list[Row] = []
    roofs = measured_roofs()
    with suppress(KeyboardInterrupt):
        for group in _together(asked):
            progress(len(rows), len(asked), group[0].name)
            rows += time_together(group, roofs)
        progress(len(asked), len(asked), "")
    return table(rows), roofs


def measured_roofs() -> dict[str, float]:
    return in_worker("Measuring the roofs", protocol.roofs)


def time_together(group: Sequence[Point | Skipped], roofs: Mapping[str, float]) -> list[Row]:
    """The rows of points of one problem, timed in turns in the GPU's worker. If that fails, each point runs in a job of
    its own. A point that ends the worker then ends only its own job."""
    if len(group) > 1:
        with suppress(WarpglassError):
            timings = in_worker(group[0].name, protocol.measure_in_turns, group)
            return [row(timing, roofs) for timing in timings]
    return [time_point(point, roofs) for point in group]


def _together(asked: Iterable[Point | Skipped]) -> Iterator[list[Point | Skipped]]:
    """Neighbours for turns: points of one problem and one state of the L2."""
    for _, group in groupby(
        asked, lambda point: (point.problem, point.cold) if isinstance(point, Point) else id(point)
    ):
        yield list(group)


def time_point(point: Point | Skipped, roofs: Mapping[str, float]) -> Row:
    """The row of one point, timed in the GPU's worker. A failed point has a row with the reason."""
    if isinstance(point, Skipped):
        return skipped_row(point)
    try:
        timing = in_worker(point.name, protocol.measure, point)
    except WarpglassError as error:  # its worker died or ran out of time, and the other points follow
        timing = Timing(point, "failed", str(error))
    return row(timing, roofs)


def provenance(device: Device, roofs: Mapping[str, float], made: pd.DataFrame) -> tables.Provenance:
    timed = made[made.code_hash.notna() & (made.code_hash != "")]
    return tables.provenance(device, dict(zip(timed.name, timed.code_hash)), **_origin(device, roofs))


def _origin(device: Device, roofs: Mapping[str, float]) -> dict[str, object]:
    import torch

    libraries = {}
    for name, (_, package) in peers.LIBRARIES.items():
        if peers.installed(name):
            with suppress(metadata.PackageNotFoundError):
                libraries[package] = metadata.version(package)
    return {
        "torch": torch.__version__,
        "compiler": Toolchain(device.target).version,
        "roofs": dict(roofs),
        "protocol": f"device events, median of {protocol.LEAST_RUNS} to {protocol.MOST_RUNS} runs, "
        f"warmed up {protocol.WARM_UP:g} s. Sustained: {load.SECONDS:g} s without a pause after {load.LEAD:g} s. "
        f"Several points of one problem take {protocol.TURNS} turns, a single one takes 1",
        "libraries": libraries,
    }


# ---- the recorded table ----


def recorded_points() -> list[Point | Skipped]:
    """The points to record: every kernel of the catalogue and the installed peers, over the sweeps of its problem
    (bench_sweeps). A sweep of a constant covers the kernels that have it."""
    found = {}
    specs = catalog.current().kernels
    for kind in dict.fromkeys(spec.problem_type for spec in specs.values()):
        for sweeps, held in kind.bench_sweeps():
            names = [n for n, spec in specs.items() if spec.solves_class(kind) and can_sweep(spec, sweeps)]
            for point in points(names, sweeps, held.items(), with_peers=True, most=10**6):
                if point.name not in peers.NAMES or peers.installed(point.name):
                    found[point if isinstance(point, Point) else (point.name, *point.at.items())] = point
    return by_problem(found.values())


def _cases(device: Device, kept: tables.Kept | None) -> Cases:
    roofs = kept.where.roofs if kept else measured_roofs()
    points = {_key_of(point): point for point in recorded_points()}

    def turn(missing: Sequence[Key]) -> list[Row]:
        rested = {key: row for key in missing if kept for row in kept.rows.get(key, ()) if row["status"] == "ok"}
        others = [points[key] for key in missing if key not in rested]
        made = time_together(others, roofs) if others else []
        asked = [point for key, point in points.items() if key in rested and isinstance(point, Point)]
        timings = in_worker(asked[0].name, protocol.measure_in_turns, asked, 0) if asked else []
        return made + [{**rested[_key_of(timing.point)], **sustained_figures(timing)} for timing in timings]

    groups = _together(points.values())
    return [Case(group[0].name, [*map(_key_of, group)], turn) for group in groups], _origin(device, roofs)


def _is_whole(entry: Row) -> bool:
    """Whether a row needs no new time. A row with only a rested time gains a sustained one."""
    return entry["status"] != "failed" and (entry["status"] != "ok" or entry[SUSTAINED[0]] is not None)


def _key_of(point: Point | Skipped) -> Key:
    if isinstance(point, Skipped):
        return _key(skipped_row(point))
    settings, l2 = settings_text(point.settings), "cold" if point.cold else "warm"
    return _key({"name": point.name, "settings": settings, "l2": l2, "problem": problem_text(point.problem)})


def _key(entry: Row) -> Key:
    """The identity of a row's point. A skipped place has no problem, so its reason takes part."""
    name, problem = entry["name"], entry.get("problem")
    return (name, problem, entry["settings"] or "", entry["l2"]) if problem else (name, entry["reason"])


def _present(made: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    here = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    known = made["name"].isin([*here, *peers.NAMES])
    present = (made.code_hash == made["name"].map(here)) | made.code_hash.isna() | (made.code_hash == "")
    return made[known & present]


TABLE = RecordedTable(KIND, _key, _cases, COLUMNS, _present, ("driver", "torch", "compiler"), _is_whole)
recorded = TABLE.recorded


def recorded_of(
    specs: Sequence[KernelSpec], fields: Sequence[tuple[str, Sequence[str]]], with_peers: bool = False
) -> list[Report]:
    """The recorded times of kernels, a Report for each GPU.

    fields: (field of the problem or constant, its values as text), of all rows.
    with_peers: also the other libraries' times on the same problems.

    Raises ProblemError without a row, and names the values of each field that has rows."""
    found, known = [], dict[str, dict[str, None]]()
    for made, where in recorded().values():
        own = made[made["name"].isin([spec.name for spec in specs])]
        texts = [_texts(row) for row in own.to_dict("records")]
        keep = [all(one.get(name) in values for name, values in fields) for one in texts]
        for one in texts:
            for name, _ in fields:
                known.setdefault(name, {}).setdefault(one.get(name, "none"))
        own = own[keep]
        rest = made["name"].isin(peers.NAMES) & made.problem.isin(own.problem) if with_peers else made.index < 0
        if len(own):
            found.append(report(pd.concat([own, made[rest]]), where))
    if not found:
        have = "; ".join(f"{name} {', '.join(values)}" for name, values in known.items()) or "none"
        names = ", ".join(spec.name for spec in specs)
        raise ProblemError(f"No times of {names} are recorded with these fields. Recorded are: {have}.")
    return found


def _texts(entry: Row) -> dict[str, str]:
    """field or constant -> its value of a recorded row, as a link and a command line write it."""
    values = {**json.loads(str(entry["problem"])), **dict(pairs_of(entry["settings"]))}
    return {name: write_value(value) for name, value in values.items()}


def not_recorded() -> list[str]:
    """The gaps of the recorded tables, a sentence for each."""
    reasons = tables.left_out(KIND)
    asked = [(point.name, _key_of(point)) for point in recorded_points()]
    for device, (made, _) in recorded().items():
        absent = [name for name in catalog.current().kernels if name not in set(made["name"])]
        if absent:
            reasons.append(f"On {device}, no times of the present code are recorded for {', '.join(absent)}.")
        known = {_key(entry) for entry in rows_of(made)}
        missing = [name for name, key in asked if key not in known and name not in absent]
        if missing:
            count = f"{len(missing)} of {len(asked)} points of the present sweeps are not recorded on {device}"
            names = ", ".join(dict.fromkeys(missing))
            reasons.append(f"{count}, of these kernels: {names}. Record them with python -m kernels record.")
    if not reasons and not recorded():
        reasons.append("No times are recorded. Record them on a GPU with python -m kernels record.")
    return reasons
