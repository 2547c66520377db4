"""The levels of the memory: their plateaus, and the working sets at which the caches end."""

from typing import NamedTuple

import pandas as pd

from kernels.build.occupancy import MACHINES, Machine, arch_named
from kernels.measure.hierarchy import Measured

KIB, MIB = 2**10, 2**20
SPACES = {  # the space of a chase or a stream -> its name
    "shared": "shared memory",
    "through_l1": "global, through L1",
    "from_l2": "global, past L1",
    "copy": "copy, read + written",
}
# name, textbook latency in cycles, plateau of the latency, plateau of the bandwidth: (space, from, to) in bytes
LEVELS = (
    ("Registers", 1, None, None),
    ("Shared memory", 20, ("shared", KIB, 256 * KIB), ("shared", 0, 2**40)),
    ("L1 cache", 28, ("through_l1", KIB, 128 * KIB), ("through_l1", 0, 26 * MIB)),
    ("L2 cache", 200, ("from_l2", 512 * KIB, 16 * MIB), ("from_l2", 0, 44 * MIB)),
    ("Device memory", 400, ("from_l2", 128 * MIB, 2**40), ("from_l2", 128 * MIB, 2**40)),
)


def labelled(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Returns the measured rows with the columns of the charts: where (the space in words) and source."""
    return table.assign(where=table.space.map(SPACES), source=source)


def beside(measured: Measured, now: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of the charts: the new rows, if any, and the recorded rows, each with a label."""
    recorded = labelled(measured.table, f"recorded, {measured.device}")
    return recorded if now.empty else pd.concat([labelled(now, "measured now"), recorded])


def plateaus(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each level: textbook cycles, and the medians of cycles, ns and GB/s. None without a
    measurement."""
    rows = []
    for name, textbook, latency, bandwidth in LEVELS:
        row = {"level": name, "textbook cycles": textbook, "cycles": None, "ns": None, "GB/s": None}
        row |= _medians(table, "latency", latency, {"cycles": "cycles", "ns": "ns"})
        rows.append(row | _medians(table, "bandwidth", bandwidth, {"GB/s": "gb_per_s"}))
    copies = table[(table.kind == "bandwidth") & (table.space == "copy")]
    copied = copies.gb_per_s.max() if len(copies) else None
    rows.append({"level": "Device memory, copy", "textbook cycles": None, "cycles": None, "ns": None, "GB/s": copied})
    return pd.DataFrame(rows)


def _medians(
    table: pd.DataFrame, kind: str, wanted: tuple[str, int, int] | None, names: dict[str, str]
) -> dict[str, float | None]:
    """Returns shown name -> median of its column over a kind, a space and a range of working sets.

    wanted: (space, from, to) in bytes, or None for an empty result.
    names: shown name -> column.
    """
    if not wanted:
        return {}
    space, low, high = wanted
    part = table[(table.kind == kind) & (table.space == space) & table.working_set.between(low, high)]
    return {shown: part[column].median() if len(part) else None for shown, column in names.items()}


class Edge(NamedTuple):
    """The end of a cache level.

    level: its name.
    fits: the largest working set with the level's own figure, in bytes.
    leaves: the next measured working set, in bytes. None if no measurement is larger.
    """

    level: str
    fits: int
    leaves: int | None


NEAR = 0.1  # relative distance from the plateau


def edges(table: pd.DataFrame, kind: str = "latency") -> list[Edge]:
    """Returns the measured ends of the caches.

    Rule: the figure of a level is the median over its plateau (LEVELS). `fits` is the last working set within a
        tenth of
    this figure. `leaves` is the next one.
    """
    column = "cycles" if kind == "latency" else "gb_per_s"
    found = []
    for name, _, *wanted in LEVELS:
        of_kind = wanted[0] if kind == "latency" else wanted[1]
        if not name.endswith("cache") or not of_kind:
            continue
        space, low, high = of_kind
        rows = table[(table.kind == kind) & (table.space == space)].sort_values("working_set")
        plateau = rows[rows.working_set.between(low, high)][column].median()
        rows = rows[rows.working_set >= low]
        off = (rows[column] / plateau - 1).abs() > NEAR
        if len(rows) and not off.iloc[0]:
            leaves = rows.working_set[off].min()
            fits = rows.working_set[~off & (rows.working_set < (leaves if off.any() else float("inf")))].max()
            found.append(Edge(name, int(fits), int(leaves) if off.any() else None))
    return found


def machine_of(device: str) -> Machine | None:
    """Returns the GPU's row in CUDA's table of compute capabilities."""
    return MACHINES.get(arch_named(device))


def levels_met(table: pd.DataFrame) -> dict[int, str]:
    """Returns working set -> the level of a chain through it, in words.

    Rule: up to a cache's edge, the chain fits the cache. Above the edge, a part of it fits while the figure is a tenth
    below the next level's.
    """
    known, cycles = edges(table), plateaus(table).set_index("level").cycles
    chain = table[(table.kind == "latency") & (table.space == "through_l1")].set_index("working_set").cycles
    found = {}
    for size in sizes(table):
        found[size] = "it comes from device memory"
        for number, edge in enumerate(known):
            beyond = known[number + 1].level if number + 1 < len(known) else "Device memory"
            if size <= edge.fits:
                found[size] = f"it fits {level_name(edge.level)}"
                break
            if size in chain.index and chain[size] < (1 - NEAR) * cycles[beyond]:
                found[size] = f"a part of it fits {level_name(edge.level)}, the rest comes from {level_name(beyond)}"
                break
    return found


def level_name(level: str) -> str:
    return f"the {level.split()[0]}" if level.endswith("cache") else level.lower()


def latencies(table: pd.DataFrame) -> dict[tuple[str, int], tuple[float, float]]:
    """Returns (space, working set) -> (cycles, ns) of one load."""
    rows = table[(table.kind == "latency") & table.cycles.notna()]
    return {(r.space, int(r.working_set)): (float(r.cycles), float(r.ns)) for r in rows.itertuples()}


def nearest_bandwidth(table: pd.DataFrame, size: int) -> tuple[float, int] | None:
    """Returns (GB/s, working set) of the nearest stream through L1 within a half of the size, else None."""
    rows = table[(table.kind == "bandwidth") & (table.space == "through_l1")]
    rows = rows[rows.working_set.between(size / 1.5, size * 1.5)]
    if rows.empty:
        return None
    row = rows.loc[(rows.working_set / size - 1).abs().idxmin()]
    return float(row.gb_per_s), int(row.working_set)


def bytes_said(size: float) -> str:
    """Returns a working set with its unit: 64 KiB, 24.8 MiB."""
    unit, name = (2**30, "GiB") if size >= 2**30 else (MIB, "MiB") if size >= MIB else (KIB, "KiB")
    return f"{size / unit:.3g} {name}"


def nothing(table: pd.DataFrame) -> bool:
    """Whether the table has no chain."""
    return not (table.kind == "latency").any()


def sizes(table: pd.DataFrame) -> list[int]:
    """Returns the steps of the clock: the working sets of the chains, in order."""
    return sorted(int(v) for v in table[table.kind == "latency"].working_set.unique())
