"""The times of the timing page: recorded tables of named GPUs, and the results of this GPU."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import pandas as pd

from explainers.stories.timing import sweep_rows
from explainers.stories.timing.sweep_rows import Sweep, SweepName
from kernels.measure import bench, bench_rows
from kernels.recordings import tables
from kernels.recordings.tables import Provenance

NOW = "this GPU, now"
Stamp = tuple[tuple[str, int], ...]  # the files of recorded times, and when each was written


class Now(Hashable, Protocol):
    """The results of this GPU so far.

    rows: the values of each row. date: ISO. roofs: pairs, as in protocol.roofs.
    """

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]: ...
    @property
    def device(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def date(self) -> str: ...
    @property
    def roofs(self) -> tuple[tuple[str, float], ...]: ...

    def records(self) -> list[dict[str, object]]:
        """The rows with their columns."""


@dataclass(frozen=True)
class Known:
    """Times and their sweeps.

    where: source -> Provenance.
    titles: key of a sweep -> its title.
    names: key of a sweep -> its short name.
    """

    table: pd.DataFrame
    where: Mapping[str, Provenance]
    found: Mapping[str, Sweep]
    titles: Mapping[str, str]
    names: Mapping[str, SweepName]


class Lines(NamedTuple):
    """The lines of a sweep.

    labels: of the lines.
    baselines: the lines for comparison.
    part: the rows of the sweep.
    """

    labels: list[str]
    baselines: list[str]
    part: pd.DataFrame


def stamp(kind: str = bench.KIND) -> Stamp:
    """The files of recorded times of a kind, with their times of change."""
    files = sorted((tables.FOLDER / kind).glob("*.csv"))
    return tuple((file.name, file.stat().st_mtime_ns) for file in files)


def names(now: Now) -> list[str]:
    """The names of the sources of times."""
    return [*([NOW] if now.rows else []), *_recorded(stamp())]


def known(sources: tuple[str, ...], now: Now) -> Known:
    """The times of these sources together, by default of all sources."""
    return _known(sources, now, stamp())


@lru_cache(maxsize=4)
def _recorded(_: Stamp) -> dict[str, tuple[pd.DataFrame, Provenance]]:
    return bench.recorded()


@lru_cache(maxsize=16)
def _known(sources: tuple[str, ...], now: Now, at: Stamp) -> Known:
    recorded, where, found = _recorded(at), {}, []
    for name in sources or [*([NOW] if now.rows else []), *recorded]:
        if name == NOW and now.rows:
            where[name] = Provenance(now.device, now.driver, now.date, roofs=dict(now.roofs))
            found.append(sweep_rows.prepared(bench_rows.table(now.records()), where[name], "measured"))
        elif name in recorded:
            table, where[name] = recorded[name]
            found.append(sweep_rows.prepared(table, where[name], "recorded"))
    nothing = sweep_rows.prepared(bench_rows.table([]), Provenance("", "", ""), "recorded")
    table = pd.concat(found, ignore_index=True) if found else nothing
    sweeps = sweep_rows.sweeps(table)
    return Known(table, where, sweeps, sweep_rows.titles(table, sweeps), sweep_rows.names(table, sweeps))


def lines(sources: tuple[str, ...], now: Now, sweep: str) -> Lines:
    """The lines of one of the sweeps of `known`."""
    return _lines(sources, now, sweep, stamp())


@lru_cache(maxsize=64)
def _lines(sources: tuple[str, ...], now: Now, sweep: str, at: Stamp) -> Lines:
    known = _known(sources, now, at)
    field, fixed = known.found[sweep]
    part = sweep_rows.slice_of(known.table, field, fixed)
    return Lines(sweep_rows.labels(part), sweep_rows.baselines(part, field), part)
