"""The levels of the memory: their plateaus, and the working sets at which the caches end."""

from dataclasses import dataclass

import pandas as pd

from explainers.story.glossary import BINARY, amount
from kernels.build.occupancy import MACHINES, Machine, arch_named
from kernels.measure.hierarchy import Measured

KIB, MIB, GIB = 2**10, 2**20, 2**30
SPACES = {  # the space of a chase or a stream -> its name
    "shared": "shared memory",
    "through_l1": "global, through L1",
    "from_l2": "global, past L1",
    "copy": "copy, read + written",
    "constant": "constant memory",
    "texture": "texture",
}


LARGEST = 2**40  # bytes, beyond any working set
COLUMNS = {"latency": "cycles", "bandwidth": "gb_per_s"}  # kind of a measurement -> the column of its figure


@dataclass(frozen=True)
class Plateau:
    """The rows of a table on one plateau of a level.

    space: the space of the loads, a key of SPACES.
    low, high: the least and the largest working set, in bytes.
    """

    space: str
    low: int
    high: int

    def rows(self, table: pd.DataFrame, kind: str) -> pd.DataFrame:
        """The rows of that kind on the plateau. kind: latency or bandwidth."""
        of_space = table[(table.kind == kind) & (table.space == self.space)]
        return of_space[of_space.working_set.between(self.low, self.high)]


LEVELS: dict[str, dict[str, Plateau]] = {  # level -> kind -> its plateau
    "Registers": {},
    "Shared memory": {
        "latency": Plateau("shared", KIB, 256 * KIB),
        "bandwidth": Plateau("shared", 0, LARGEST),
    },
    "L1 cache": {
        "latency": Plateau("through_l1", KIB, 128 * KIB),
        "bandwidth": Plateau("through_l1", 0, 26 * MIB),
    },
    "L2 cache": {
        "latency": Plateau("from_l2", 512 * KIB, 16 * MIB),
        "bandwidth": Plateau("from_l2", 0, 44 * MIB),
    },
    "Device memory": dict.fromkeys(COLUMNS, Plateau("from_l2", 128 * MIB, LARGEST)),
}
OTHERS = {
    "Constant memory, up to 1.5 KiB": Plateau("constant", KIB, 3 * KIB // 2),
    "Constant memory, 48 KiB and more": Plateau("constant", 48 * KIB, LARGEST),
    "Texture, up to 128 KiB": Plateau("texture", KIB, 128 * KIB),
}
"""Memories with caches of their own, or their own path to a cache."""


def labelled(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Returns the measured rows with the columns of the charts: where (the space in words) and source."""
    return table.assign(where=table.space.map(SPACES), source=source)


def beside(measured: Measured, now: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of the charts: the new rows, if any, and the recorded rows, each with a label."""
    recorded = labelled(measured.table, f"recorded, {measured.device}")
    return recorded if now.empty else pd.concat([labelled(now, "measured now"), recorded])


def plateaus(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each level: the medians of cycles, ns and GB/s.

    A figure without a measurement is None.
    """
    rows = []
    for level, own in LEVELS.items():
        row: dict[str, object] = {"level": level}
        for name, kind, column in (
            ("cycles", "latency", "cycles"),
            ("ns", "latency", "ns"),
            ("GB/s", "bandwidth", "gb_per_s"),
        ):
            measured = own[kind].rows(table, kind) if kind in own else table.iloc[:0]
            row[name] = float(measured[column].median()) if len(measured) else None
        rows.append(row)
    copies = table[(table.kind == "bandwidth") & (table.space == "copy")]
    copied = copies.gb_per_s.max() if len(copies) else None
    rows.append({"level": "Device memory, copy", "cycles": None, "ns": None, "GB/s": copied})
    for name, plateau in OTHERS.items():
        chain = plateau.rows(table, "latency")
        figures = {column: chain[column].median() if len(chain) else None for column in ("cycles", "ns")}
        rows.append({"level": name if len(chain) else f"{name}: not measured yet", **figures, "GB/s": None})
    return pd.DataFrame(rows)


def waits(table: pd.DataFrame) -> dict[tuple[str, int], float]:
    """Returns (space, working set) -> the cycles of one load for people: within a tenth of a level, its one figure."""
    levels = [float(figure) for figure in plateaus(table).cycles[: len(LEVELS)].dropna()]

    def of(space: str, cycles: float) -> float:
        near = (level for level in levels if space in STEPPED and abs(cycles / level - 1) <= NEAR)
        return next(near, cycles)

    return {(space, size): of(space, cycles) for (space, size), (cycles, _) in latencies(table).items()}


@dataclass(frozen=True)
class Edge:
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

    Rule: the figure of a level is the median over its plateau (LEVELS). `fits` is the last working set within a tenth
    of this figure. `leaves` is the next one.
    """
    found, column = list[Edge](), COLUMNS[kind]
    for level in (name for name in LEVELS if name.endswith("cache")):
        plateau = LEVELS[level][kind]
        figure = plateau.rows(table, kind)[column].median()
        rows = table[(table.kind == kind) & (table.space == plateau.space) & (table.working_set >= plateau.low)]
        rows = rows.sort_values("working_set")
        off = (rows[column] / figure - 1).abs() > NEAR
        if rows.empty or off.iloc[0]:  # its first working set lacks the level's figure
            continue
        leaves = int(rows.working_set[off].min()) if off.any() else None
        fits = rows.working_set if leaves is None else rows.working_set[~off & (rows.working_set < leaves)]
        found.append(Edge(level, int(fits.max()), leaves))
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
    following, met = [*(edge.level for edge in known[1:]), "Device memory"], dict[int, str]()
    for size in sizes(table):
        met[size] = "in device memory"
        for edge, beyond in zip(known, following):
            fits = size <= edge.fits
            if fits or (size in chain.index and chain[size] < (1 - NEAR) * cycles[beyond]):
                met[size] = f"{'in' if fits else 'partly in'} {short_name(edge.level)}"
                break
    return met


def short_name(level: str) -> str:
    """Returns a level without its article, for a sentence or a label: L1, device memory."""
    return level.split()[0] if level.endswith("cache") else level.lower()


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
    return amount(size, BINARY[:3])


def nothing(table: pd.DataFrame) -> bool:
    """Whether the table has no chain."""
    return not (table.kind == "latency").any()


def sizes(table: pd.DataFrame) -> list[int]:
    """Returns the working sets of the chains, in order."""
    return sorted(int(v) for v in table[table.kind == "latency"].working_set.unique())


def bandwidths(table: pd.DataFrame) -> dict[tuple[str, int], float]:
    """Returns (space, working set) -> GB/s of the whole GPU."""
    rows = table[(table.kind == "bandwidth") & table.gb_per_s.notna()]
    return {(r.space, int(r.working_set)): float(r.gb_per_s) for r in rows.itertuples()}


STEPPED = ("through_l1", "from_l2", "shared")  # spaces with stairs


def stairs(table: pd.DataFrame, kind: str = "latency") -> list[int]:
    """Returns the steps of the clock: the working sets at both ends of each plateau, and all sizes on a slope.

    kind: latency or bandwidth.

    Rule: the first and the last size of each space, and both sizes of each change of a tenth.
    """
    found, column = set[int](), COLUMNS[kind]
    for _, chain in table[(table.kind == kind) & table.space.isin(STEPPED)].groupby("space"):
        rows = chain.sort_values("working_set")
        found |= {int(rows.working_set.iloc[0]), int(rows.working_set.iloc[-1])}
        points = [*zip(rows.working_set, rows[column])]
        pairs = zip(points, points[1:])
        found |= {int(size) for (a, first), (b, then) in pairs if abs(then / first - 1) > NEAR for size in (a, b)}
    return sorted(found)
