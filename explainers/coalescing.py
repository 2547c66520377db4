"""Coalescing: which 32-byte sectors each warp's request of global memory touches, and how much of them it uses.

Lanes, offsets and widths are logged; sectors and lines are derived: distinct 32-byte and 128-byte units of the bytes asked for.
"""

from dataclasses import dataclass

import altair as alt
import pandas as pd

from explainers.glossary import count
from explainers.palette import OKABE_ITO
from kernels import memory

SHOWN_REQUESTS = 24
LAYOUT_TITLES = {"row_major": "Row-major", "strided": "Strided", "misaligned": "Misaligned", "paged_split": "Paged K, split by x",
                 "paged_whole": "Paged K, not split"}


@dataclass(frozen=True)
class Story:
    """frames: one per request of one warp, with sentence, title and lines; requests: for the view, offsets (-1: inactive lane), bytes, sectors, lines, used.

    left_out: requests of the warp that are not shown.
    """

    frames: list[dict]
    requests: list[dict]
    left_out: int


def explain(run, line=None, warp=0):
    """The Story of one warp of the traced block (of the first launch that has one), or of its accesses on one probe's line."""
    found = memory.requests(run.trace, "global")
    costs, sites = found.costs, run.request.sites
    chosen = costs if line is None else costs[costs.line == line]
    first = chosen.iloc[0] if len(chosen) else None
    rows = chosen[(chosen.launch == first.launch) & (chosen.block == first.block) & (chosen.warp == warp)] if first is not None else chosen
    shown, frames = [], []
    for number, row in enumerate(rows.head(SHOWN_REQUESTS).itertuples()):
        offsets = [int(o) if on else -1 for o, on in zip(found.offsets[row.Index], found.active[row.Index])]
        shown.append({"offsets": offsets, "bytes": int(row.bytes), "tensor": row.tensor, "kind": row.kind, "sectors": int(row.sectors),
                      "lines": int(row.lines), "used": int(row.bytes_used), "active": int(row.active)})
        frames.append({"tile": int(row.line), "title": f"Request {number} · {row.tensor}", "sentence": _sentence(number, row),
                       "lines": {sites[row.line].code_line: 1}})
    return Story(frames, shown, max(0, len(rows) - SHOWN_REQUESTS))


def by_line(run):
    """Per source line: code line and text, tensor, kind, bytes a lane, requests, sectors and lines a request, useful bytes a sector (of 32)."""
    request = run.request
    found, source = memory.requests(run.trace, "global").by_line, request.kernel.source.splitlines()
    code = [request.sites[n].code_line for n in found.line]
    return pd.DataFrame({"source line": code, "tensor": found.tensor, "kind": found.kind,
                         "bytes": found.bytes, "requests": found.requests, "sectors a request": found.sectors / found.requests,
                         "lines a request": found["lines"] / found.requests, "used of 32 bytes": found.bytes_used / found.sectors,
                         "sectors": found.sectors, "access": [source[n - 1].strip() for n in code], "probe": found.line})


def _sentence(number, row):
    used = row.bytes_used / row.sectors
    verb = "reads" if row.kind == "load" else "writes"
    fewest = -(-row.bytes_used // memory.SECTOR)
    text = (f"Request {number}: {row.active} lanes {verb[:-1]} {row.bytes} bytes each of {row.tensor}. They touch {count(row.sectors, 'sector')} "
            f"in {count(row.lines, 'line')}; of each sector's 32 bytes {used:.3g} are used.")
    return text + (f" {count(fewest, 'sector')} would hold those bytes." if fewest < row.sectors else " No fewer could hold those bytes.")


def layouts(runs):
    """The five layouts side by side (layout -> Run of lab_global): a row each, with sectors and lines a request and useful bytes a sector."""
    rows = []
    for layout, run in runs.items():
        costs = memory.requests(run.trace, "global").costs
        reads = costs[costs.kind == "load"]
        rows.append({"layout": LAYOUT_TITLES[layout], "bytes": int(reads.bytes.iloc[0]), "sectors": reads.sectors.mean(),
                     "lines": reads["lines"].mean(), "used of 32 bytes": reads.bytes_used.sum() / reads.sectors.sum(),
                     "at best": -(-reads.bytes_used.iloc[0] // memory.SECTOR)})
    return pd.DataFrame(rows)


def layouts_chart(table):
    """Sectors per request of each layout: those that would do, and those on top of them."""
    rows = table.assign(best=table["at best"], more=table["sectors"] - table["at best"]).melt(
        ["layout", "used of 32 bytes"], ["best", "more"], var_name="part", value_name="moved")
    rows["order"] = (rows.part == "more").astype(int)
    colour = alt.Color("part:N", title=None, legend=alt.Legend(orient="top", labelExpr="datum.value === 'best' ? 'would do' : 'on top of that'"),
                       scale=alt.Scale(domain=["best", "more"], range=[OKABE_ITO["blue"], OKABE_ITO["orange"]]))
    names = alt.Axis(labelLimit=220, labelOverlap=False)
    return alt.Chart(rows).mark_bar().encode(
        x=alt.X("moved:Q", title="sectors per request", stack=True), y=alt.Y("layout:N", title=None, sort=list(table.layout), axis=names),
        color=colour, order=alt.Order("order:Q"),
        tooltip=["layout:N", "part:N", alt.Tooltip("moved:Q", title="sectors"), alt.Tooltip("used of 32 bytes:Q", format=".3g")]).properties(height=300)
