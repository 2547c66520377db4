"""Times of many points, and their recorded table for each GPU, kernels/recordings/data/bench/."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import metadata
from itertools import groupby
from pathlib import Path

import pandas as pd

from kernels import catalog
from kernels.errors import TraceError, WarpglassError
from kernels.measure import load, peers, protocol
from kernels.measure.bench_rows import Row, problem_text, row, rows_of, settings_text, skipped_row, table, under, whole
from kernels.measure.protocol import Point, Timing
from kernels.measure.reports import load_kept
from kernels.measure.sweeps import Skipped, by_problem, can_sweep, points
from kernels.recordings import tables
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device

KIND = "bench"
TIME_LIMIT = 600.0  # seconds for one point, after its start
Key = tuple[str, ...]


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
    """protocol.roofs of this machine, measured in the GPU's worker."""
    from kernels.run import workers

    return workers.submit(protocol.roofs, backend="gpu", title="Measuring the roofs", time_limit=TIME_LIMIT).result()


def time_together(group: Sequence[Point | Skipped], roofs: Mapping[str, float]) -> list[Row]:
    """The rows of points of one problem, timed in turns in the GPU's worker. If that fails, each point runs in a job of
    its own. A point that ends the worker then ends only its own job."""
    from kernels.run import workers

    if len(group) > 1:
        with suppress(WarpglassError):
            job = workers.submit(
                protocol.measure_in_turns, group, backend="gpu", title=group[0].name, time_limit=TIME_LIMIT
            )
            return [row(timing, roofs) for timing in job.result()]
    return [time_point(point, roofs) for point in group]


def _together(asked: Iterable[Point | Skipped]) -> Iterator[list[Point | Skipped]]:
    """Neighbours for turns: points of one problem and one state of the L2."""
    for _, group in groupby(
        asked, lambda point: (point.problem, point.cold) if isinstance(point, Point) else id(point)
    ):
        yield list(group)


def time_point(point: Point | Skipped, roofs: Mapping[str, float]) -> Row:
    """The row of one point, timed in the GPU's worker. A failed point has a row with the reason."""
    from kernels.run import workers

    if isinstance(point, Skipped):
        return skipped_row(point)
    try:
        timing = workers.submit(
            protocol.measure, point, backend="gpu", title=point.name, time_limit=TIME_LIMIT
        ).result()
    except WarpglassError as error:  # its worker died or ran out of time, and the other points follow
        timing = Timing(point, "failed", str(error))
    return row(timing, roofs)


def provenance(device: Device, roofs: Mapping[str, float], made: pd.DataFrame) -> tables.Provenance:
    """The provenance of a table: device, driver, date, torch, compiler, roofs, the code of its kernels, and the
    protocol."""
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
        f"warmed up {protocol.WARM_UP:g} s. Sustained: {load.SECONDS:g} s without a pause after {load.LEAD:g} s. "
        f"Several points of one problem take {protocol.TURNS} turns, a single one takes 1",
        libraries=_libraries(),
    )


def _libraries() -> dict[str, str]:
    """package -> version of the peers' installed libraries."""
    found = {}
    for name, (_, package) in peers.LIBRARIES.items():
        if peers.installed(name):
            with suppress(metadata.PackageNotFoundError):
                found[package] = metadata.version(package)
    return found


# ---- the recorded table ----


def recorded_points(kernels: Iterable[str] = ()) -> list[Point | Skipped]:
    """The points to record: every kernel of the catalogue (or only these) and the installed peers, over the sweeps of
    its problem (bench_sweeps). A sweep of a constant covers the kernels that have it."""
    found = {}
    specs = {name: catalog.find(name) for name in kernels or catalog.current().kernels}
    for kind in dict.fromkeys(spec.problem_type for spec in specs.values()):
        for sweeps, held in kind.bench_sweeps():
            names = [n for n, spec in specs.items() if spec.solves_class(kind) and can_sweep(spec, sweeps)]
            for point in points(names, sweeps, held.items(), with_peers=True, most=10**6):
                if point.name not in peers.NAMES or peers.installed(point.name):
                    found[point if isinstance(point, Point) else (point.name, *point.at.items())] = point
    return by_problem(found.values())


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Times every point of `recorded_points`, and writes this GPU's table after every problem. Returns the path. Rows
    of the same code, driver, torch and compiler stay, unless `anew`."""
    path = tables.path_of(KIND, device.name)
    kept, old_roofs = ({}, {}) if anew else _kept(path, device)
    roofs = old_roofs or measured_roofs()
    wanted = {_key_of(point): point for point in recorded_points()}

    def write(rows: Mapping[Key, Row]) -> None:
        made = table(rows[key] for key in wanted if key in rows)
        tables.save(made, path, provenance(device, roofs, made))

    missing = _together(point for key, point in wanted.items() if key not in kept)
    groups = [Group(g[0].name, [*map(_key_of, g)], partial(_timed, g, roofs)) for g in missing]
    resume(groups, {key: entry for key, entry in kept.items() if key in wanted}, write, progress)
    return [path]


def _timed(group: Sequence[Point | Skipped], roofs: Mapping[str, float]) -> dict[Key, Row]:
    return dict(zip(map(_key_of, group), time_together(group, roofs)))


def merge(path: str | Path) -> Path:
    """Puts the rows of a table from `bench --out` into the recorded table of its GPU. Returns the path. They replace
    rows of the same points, and rows of the kernels' earlier code.

    The provenance's `merged` lists when and how which rows came. Each roof is the highest of both tables, and every
    row has its share of that roof.
    """
    made, where = load_kept(path)
    target = tables.path_of(KIND, where.device)
    kept, before = load_kept(target) if target.exists() else (table([]), where)
    kept = kept[~kept["name"].isin([*where.codes]) | kept.code_hash.isin([*where.codes.values()])]
    rows = {_key(entry): entry for part in (kept, made) for entry in rows_of(part)}
    source = {name: value for name, value in where.as_json().items() if name not in ("device", "codes", "roofs")}
    source["names"] = list(dict.fromkeys(made["name"]))
    merged = [*(entry for entry in before.more.get("merged", []) if entry != source), source]
    roofs = {name: max(roof, before.roofs.get(name, 0.0)) for name, roof in where.roofs.items()}
    both = replace(
        before,
        codes={**before.codes, **where.codes},
        date=max(before.date, where.date),
        roofs=roofs,
        more={**before.more, "merged": merged},
    )
    return tables.save(table(under(entry, roofs) for entry in rows.values()), target, both)


def _kept(path: Path, device: Device) -> tuple[dict[Key, Row], dict[str, float]]:
    """(the rows of this machine's table without need of a new time, its roofs)."""
    try:
        made, where = tables.load(path)
    except TraceError:
        return {}, {}
    now = provenance(device, {}, made)
    if (where.device, where.driver, where.torch, where.compiler) != (now.device, now.driver, now.torch, now.compiler):
        return {}, {}
    good = whole(made[_is_present(made) & (made.status != "failed")])
    return {_key(entry): entry for entry in rows_of(good)}, where.roofs


def _key_of(point: Point | Skipped) -> Key:
    if isinstance(point, Skipped):
        return _key(skipped_row(point))
    settings, l2 = settings_text(point.settings), "cold" if point.cold else "warm"
    return _key({"name": point.name, "settings": settings, "l2": l2, "problem": problem_text(point.problem)})


def _key(entry: Row) -> Key:
    """The identity of a row's point. A skipped place has no problem, so its reason takes part."""
    name, problem = entry["name"], entry.get("problem")
    return (name, problem, entry["settings"] or "", entry["l2"]) if problem else (name, entry["reason"])


def _is_present(made: pd.DataFrame) -> pd.Series:
    """Whether each row is of its kernel's present code. Rows without a compiled kernel are present: peers, and skipped
    places."""
    here = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    known = made["name"].isin([*here, *peers.NAMES])
    return known & ((made.code_hash == made["name"].map(here)) | made.code_hash.isna() | (made.code_hash == ""))


def recorded() -> dict[str, tuple[pd.DataFrame, tables.Provenance]]:
    """GPU name -> (table of the rows of kernels' present code, Provenance), the newest first. `not_recorded` gives the
    reasons for missing tables."""
    found = tables.recorded(KIND)
    return {
        device: (whole(made[_is_present(made)].reset_index(drop=True)), where)
        for device, (made, where) in found.items()
    }


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
