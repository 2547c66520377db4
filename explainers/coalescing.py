"""Coalescing: which 32-byte sectors each warp's request of global memory touches, and how much of them it uses.

Lanes, offsets and widths are logged; sectors and lines are derived: distinct 32-byte and 128-byte units of the bytes
asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from explainers import stories
from explainers.bank_conflicts import source_lines
from explainers.frames import Frame, SectorRequest, SectorsMeta
from explainers.glossary import count
from explainers.palette import OKABE_ITO
from kernels.core.spec import KernelSpec
from kernels.memory import model
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.probes import sites_of

SHOWN_REQUESTS = 24
WANTS = ("score", "rescale", "o")


@dataclass(frozen=True)
class Story:
    """frames: one per request of one warp, for the browser. requests: what the view draws of each. left_out: requests
    of the warp that are not shown."""

    frames: list[Frame]
    requests: list[SectorRequest]
    left_out: int


def accepts(spec: KernelSpec) -> bool:
    """Every kernel that has a probe of an access of global memory."""
    return stories.accesses(spec, "global")


def explain(run: Run, at: tuple[str, int] | None = None, warp: int = 0) -> Story:
    """The Story of one warp of the traced block (of the first launch that has one), or of its accesses at one probe's
    (file, line)."""
    found = model.requests(run.trace, space="global")
    costs, sites = found.costs, sites_of(run.request)
    places = {place: number for number, place in enumerate(dict.fromkeys(zip(costs.file, costs.line)))}
    chosen = costs if at is None else costs[(costs.file == at[0]) & (costs.line == at[1])]
    first = chosen.iloc[0] if len(chosen) else None
    mine = chosen
    if first is not None:
        mine = chosen[(chosen.launch == first.launch) & (chosen.block == first.block) & (chosen.warp == warp)]
    shown: list[SectorRequest] = []
    frames: list[Frame] = []
    for number, row in enumerate(mine.head(SHOWN_REQUESTS).itertuples()):
        offsets = [int(o) if on else -1 for o, on in zip(found.offsets[row.Index], found.active[row.Index])]
        shown.append(
            {
                "offsets": offsets,
                "bytes": int(row.bytes),
                "tensor": row.tensor,
                "kind": row.kind,
                "sectors": int(row.sectors),
                "lines": int(row.lines),
                "used": int(row.bytes_used),
                "active": int(row.active),
            }
        )
        frames.append(
            {
                "tile": places[row.file, row.line],
                "title": f"Request {number} · {row.tensor}",
                "sentence": _sentence(number, row),
                "lines": {sites.find(row.file, row.line).place: 1},
            }
        )
    return Story(frames, shown, max(0, len(mine) - SHOWN_REQUESTS))


def view(story: Story) -> SectorsMeta:
    """What the view `sectors` draws."""
    return {"frames": story.frames, "requests": story.requests}


def by_line(run: Run) -> pd.DataFrame:
    """Per source line: FILE:LINE and text, tensor, kind, bytes a lane, requests, sectors and lines a request, useful
    bytes a sector (of 32).

    Columns `file` and `line` name the probe, as explain takes it.
    """
    found = model.requests(run.trace, space="global").by_line
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
            "file": found.file,
            "line": found.line,
        }
    )


def _sentence(number: int, row: Any) -> str:
    used = row.bytes_used / row.sectors
    verb = "read" if kind_of(row.kind, "global").direction == "read" else "write"
    fewest = -(-row.bytes_used // model.SECTOR)
    text = (
        f"Request {number}: {row.active} lanes {verb} {row.bytes} bytes each of {row.tensor}. They touch "
        f"{count(row.sectors, 'sector')} "
        f"in {count(row.lines, 'line')}; of each sector's 32 bytes {used:.3g} are used."
    )
    return text + (
        f" {count(fewest, 'sector')} would hold those bytes."
        if fewest < row.sectors
        else " No fewer could hold those bytes."
    )


def layouts(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Runs side by side, each under its title: a row each, of its reads, with sectors and lines a request and useful
    bytes a sector."""
    rows = []
    for layout, run in runs.items():
        costs = model.requests(run.trace, space="global").costs
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
    """Sectors per request of each layout: those that would do, and those on top of them."""
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
