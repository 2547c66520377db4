"""The sectors of each source line, and of several layouts side by side."""

from collections.abc import Mapping

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.story.warp_requests import source_lines
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.memory import model, traced


def worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the table of `by_line`, the worst use of sectors first.

    Lines at the least number of sectors come last. Between equal lines, the one with more sectors comes first.
    """
    kept = table["sectors"] <= table["sectors at best"]
    order = table.assign(kept=kept, less=-table["sectors"])
    return table.loc[order.sort_values(["kept", "used of 32 bytes", "less"], kind="stable").index]


def by_line(run: Run) -> pd.DataFrame:
    """Returns a row for each source line.

    Columns: FILE:LINE and text, tensor, kind, bytes a lane, requests, sectors and lines a request, useful bytes a
    sector (of 32), all sectors, and the least number of sectors. `file` and `line` name the probe.
    """
    requests = traced.requests(run.trace, space="global")
    found = requests.by_line
    least = requests.costs.assign(least=-(-requests.costs.bytes_used // model.SECTOR))
    keys = ["launch", "file", "line", "kind", "space", "tensor", "bytes"]
    best = least.groupby(keys, sort=True, as_index=False).least.sum().least
    return pd.DataFrame(
        {
            **source_lines(run, found),
            "tensor": found.tensor,
            "kind": found.kind,
            "bytes": found.bytes,
            "requests": found.requests,
            "sectors a request": found.sectors / found.requests,
            "lines a request": found["lines"] / found.requests,
            "used of 32 bytes": found.bytes_used / found.sectors,
            "sectors": found.sectors,
            "sectors at best": best,
            "file": found.file,
            "line": found.line,
        }
    )


def layouts(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Returns a row for each run, under its title: sectors and lines per read request, and useful bytes a sector."""
    rows = []
    for layout, run in runs.items():
        costs = traced.requests(run.trace, space="global").costs
        reads = costs[[kind_of(kind, "global").direction == "read" for kind in costs.kind]]
        rows.append(
            {
                "layout": layout,
                "bytes": int(reads.bytes.iloc[0]),
                "sectors": reads.sectors.mean(),
                "lines": reads["lines"].mean(),
                "used of 32 bytes": reads.bytes_used.sum() / reads.sectors.sum(),
                "at best": -(-reads.bytes_used.iloc[0] // model.SECTOR),
            }
        )
    return pd.DataFrame(rows)


def layouts_chart(table: pd.DataFrame) -> alt.Chart:
    """Returns the sectors per request of each layout: the necessary ones, and the others."""
    rows = table.assign(best=table["at best"], more=table["sectors"] - table["at best"])
    rows = rows.melt(["layout", "used of 32 bytes"], ["best", "more"], var_name="part", value_name="moved")
    rows["order"] = (rows.part == "more").astype(int)
    said = "datum.value === 'best' ? 'would do' : 'on top of that'"
    colour = alt.Color(
        "part:N",
        title=None,
        legend=alt.Legend(orient="top", labelExpr=said),
        scale=alt.Scale(domain=["best", "more"], range=[OKABE_ITO["blue"], OKABE_ITO["orange"]]),
    )
    names = alt.Axis(labelLimit=220, labelOverlap=False)
    tips = [
        "layout:N",
        "part:N",
        alt.Tooltip("moved:Q", title="sectors"),
        alt.Tooltip("used of 32 bytes:Q", format=".3g"),
    ]
    bars = alt.Chart(rows).mark_bar()
    return bars.encode(
        x=alt.X("moved:Q", title="sectors per request", stack=True),
        y=alt.Y("layout:N", title=None, sort=list(table.layout), axis=names),
        color=colour,
        order=alt.Order("order:Q"),
        tooltip=tips,
    ).properties(height=300)
