"""How times grow with the size, and at which sizes two lines cross."""

from itertools import combinations, pairwise

import numpy as np
import pandas as pd

from explainers.stories.timing.sweep_search import GROWING, SWEPT
from kernels.measure.reports import exponents

FAR_BEHIND = 0.5  # speed next to the baseline: ratios leave out a line that is slower at most sizes
FAR_ABOVE = 1.5  # times our fastest time: where no problem grows, times leave out a library that is slower at each size


def left_out(kind: str, rows: pd.DataFrame, field: str) -> list[str]:
    """Returns the labels that would flatten a chart of this kind: far from our fastest kernel and the baseline. The
    fastest kernel itself stays."""
    ours = rows[rows.kind == "kernel"]
    ours = ours if len(ours) else rows
    if kind == "speedup" and rows.speedup.notna().any():
        usual, least = rows.groupby("label").speedup.median(), ours.groupby(field).speedup.max().min()
        return [label for label, speed in usual.items() if speed < min(FAR_BEHIND, least)]
    if kind == "latency" and field not in GROWING:
        most = FAR_ABOVE * ours.groupby(field).median_us.min().max()
        peers = rows[rows.kind == "peer"].groupby("label").median_us.min()
        return [label for label, us in peers.items() if us > most]
    return []


def growth(rows: pd.DataFrame, field: str, column: str) -> dict[str, float]:
    """Returns label -> growth factor of the column per doubling of the field, over the largest half of at least four
    sizes."""
    if field not in GROWING:
        return {}
    timed = rows[rows[column].notna()].assign(median_us=lambda r: r[column])
    return {label: 2.0**slope for label, (slope, _) in exponents(timed, field).items()}


def crossings(rows: pd.DataFrame, field: str) -> pd.DataFrame:
    """Returns the crossings of two lines of times: x, median_us, faster (after the crossing) and slower.

    Lines are straight on the chart's logarithmic axes. Pairs of peers and sizes with overlapping spreads do not count.
    """
    found = []
    if field in SWEPT:
        for _, part in rows.groupby(["source", "device"], sort=False):
            us, low, high = (
                part.pivot_table(index=field, columns="label", values=f"{name}_us") for name in ("median", "p10", "p90")
            )
            peers = set(part[part.kind == "peer"].label)
            for a, b in combinations(us.columns, 2):
                if not {a, b} <= peers:
                    apart = (low[a] > high[b]) | (low[b] > high[a])
                    found += _crossings(us[[a, b]].dropna(), apart, field)
    return pd.DataFrame(found, columns=[field, "median_us", "faster", "slower"]).sort_values(field)


def _crossings(us: pd.DataFrame, apart: pd.Series, field: str) -> list[dict[str, float | str]]:
    logs, found = np.log(us), []
    a, b = us.columns
    gaps = logs[a] - logs[b]
    for start, end in pairwise(us.index[apart[us.index]]):
        if gaps[start] * gaps[end] >= 0:
            continue
        sizes = pairwise(us.loc[start:end].index)  # with those between whose spreads overlap
        x0, x1 = next(pair for pair in sizes if gaps[pair[0]] * gaps[pair[1]] <= 0)
        share = gaps[x0] / (gaps[x0] - gaps[x1])
        x = np.log(x0) + share * np.log(x1 / x0)
        y = logs[a][x0] + share * (logs[a][x1] - logs[a][x0])
        fast, slow = (a, b) if gaps[end] < 0 else (b, a)
        found.append({field: float(np.exp(x)), "median_us": float(np.exp(y)), "faster": fast, "slower": slow})
    return found
