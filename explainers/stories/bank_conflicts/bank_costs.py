"""The cost of each source line in wavefronts, and of each access in cycles."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.stories.bank_conflicts.padding import compare_padding
from kernels.run.results import Run


def by_line(runs: Sequence[Run]) -> pd.DataFrame:
    """Returns `compare_padding` of two runs. For one run, the table has no columns of the comparison."""
    if len(runs) > 1:
        return compare_padding(*runs)
    table = compare_padding(runs[0], runs[0]).rename(columns={"padded": "wavefronts a request"})
    return table.drop(columns=["not padded", "wavefronts without"]).rename(columns={"wavefronts with": "wavefronts"})


def cycles_chart(table: pd.DataFrame, now: pd.DataFrame | None = None) -> alt.LayerChart:
    """Returns the measured cycles per access against derived wavefronts, a point for each recorded setting.

    The line is one cycle per wavefront. now: the marked rows.
    """
    settings = [f"{name}:Q" for name in table.columns if name.isupper()]
    numbers = [alt.Tooltip("wavefronts:Q", format=".3g"), alt.Tooltip("cycles:Q", format=".4g")]
    tips = ["stride:Q", *settings, *numbers]
    scale, ticks = alt.Scale(type="log", base=2, domain=[1, 40]), alt.Axis(values=[1, 2, 4, 8, 16, 32])
    x = alt.X("wavefronts:Q", scale=scale, title="wavefronts per access (derived)", axis=ticks)
    y = alt.Y("cycles:Q", scale=scale, title="cycles per access (measured)", axis=ticks)
    points = (
        alt.Chart(table)
        .mark_point(filled=True, size=60, opacity=0.75, color=OKABE_ITO["blue"])
        .encode(x=x, y=y, tooltip=tips)
    )
    ends = pd.DataFrame({"wavefronts": [1, 32], "cycles": [1, 32]})
    layers = [alt.Chart(ends).mark_line(color=AXIS, strokeDash=[4, 4]).encode(x=x, y=y), points]
    if now is not None and len(now):
        ring = alt.Chart(now).mark_point(size=220, strokeWidth=3, color=OKABE_ITO["vermillion"])
        layers.append(ring.encode(x=x, y=y, tooltip=tips))
    return alt.LayerChart(layer=layers).properties(height=300)
