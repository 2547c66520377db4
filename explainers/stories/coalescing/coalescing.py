"""Coalescing: which 32-byte sectors each warp's request of global memory touches, and how much of them it uses.

Lanes, offsets and widths are logged; sectors and lines are derived: distinct 32-byte and 128-byte units of the bytes
asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import OKABE_ITO, WAVEFRONTS
from explainers.stories.bank_conflicts.bank_conflicts import numbered, source_lines
from explainers.story import marks, probed, stage
from explainers.story.frames import Frame, SectorRequest, SectorSide, SectorsMeta
from explainers.story.glossary import count
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.memory import model
from kernels.trace.probes import sites_of

SHOWN_REQUESTS = 24  # different ones
WANTS = ("score",)
LAYOUT = "layout"  # the field of a problem that says where its elements lie
Place = tuple[str, int]  # file and line of a probe


@dataclass(frozen=True)
class Story:
    """frames: one for each different request of one warp, for the browser. sides: what the view draws; one, or one for
    each layout. left_out: different requests that are not shown. total: all requests of the warp there."""

    frames: list[Frame]
    sides: list[SectorSide]
    left_out: int
    total: int


def accepts(spec: KernelSpec) -> bool:
    """Every kernel that has a probe of an access of global memory."""
    return probed.accesses(spec, "global")


def has_layouts(spec: KernelSpec) -> bool:
    """Whether the kernel's problem is one access of a chosen width, laid out in several ways."""
    return {LAYOUT, "width"} <= set(fields_of(spec.problem_type))


# ---- one warp's requests ----


def explain(run: Run, places: Sequence[Place] | None = None, warp: int = 0) -> Story:
    """The Story of one warp of the traced block (of the first launch that has one) at each of these probes, in order,
    or at all of them as the source has them.

    Requests that touch the same of their sectors and lines, up to which sectors and lines these are, are shown once,
    and counted.
    """
    found = model.requests(run.trace, space="global")
    if places is None:
        places = list(dict.fromkeys(zip(found.table.file, found.table.line)))
    shown: list[SectorRequest] = []
    at: list[Place] = []
    left_out = total = 0
    for place in places:
        groups: dict[Any, list[int]] = {}
        mine = _of_warp(found, place, warp)
        for number, index in enumerate(mine):
            groups.setdefault(_pattern(found, index), []).append(number)
        here = list(groups.values())[:SHOWN_REQUESTS]
        shown += [_request(found, mine[alike[0]], alike[0], len(alike)) for alike in here]
        at += [place] * len(here)
        left_out, total = left_out + len(groups) - len(here), total + len(mine)
    return Story(_frames(run, at, shown, [""] * len(shown)), [{"name": "", "requests": shown}], left_out, total)


def explain_layouts(runs: Mapping[str, Run], chosen: str, at: Place, warp: int = 0) -> Story:
    """The Story of the same requests under several layouts, title -> Run, side by side on one clock: each request by
    itself. The sentences are of the chosen one, beside the first."""
    found = {name: model.requests(run.trace, space="global") for name, run in runs.items()}
    rows = {name: _of_warp(requests, at, warp)[:SHOWN_REQUESTS] for name, requests in found.items()}
    fewest = min(map(len, rows.values()))
    sides: list[SectorSide] = [
        {"name": name, "requests": [_request(found[name], i, n, 1) for n, i in enumerate(rows[name][:fewest])]}
        for name in runs
    ]
    mine = next(side for side in sides if side["name"] == chosen)
    first = sides[0]
    beside = [
        f" {first['name']}: {count(r['sectors'], 'sector')} for {r['used']:,} bytes." if first is not mine else ""
        for r in first["requests"]
    ]
    frames = _frames(runs[chosen], [at] * fewest, mine["requests"], beside, f"{chosen}. ")
    return Story(frames, sides, 0, fewest)


def _of_warp(found: model.Requests, at: Place, warp: int) -> list[int]:
    """The warp's requests there, as rows of the table; of the first warp that makes any, if that warp makes none."""
    table = found.table[(found.table.file == at[0]) & (found.table.line == at[1])]
    if table.empty:
        return []
    first = table.iloc[0]
    mine = table[(table.launch == first.launch) & (table.block == first.block)]
    warps = set(mine.warp)
    return list(mine[mine.warp == (warp if warp in warps else min(warps))].index)


def _pattern(found: model.Requests, index: int) -> Any:
    """Which lanes share sectors, lines and words: these renamed in the order in which lanes name them."""
    row, on = found.table.loc[index], found.active[index]
    offsets = found.offsets[index][on]
    renamed = (
        np.unique(offsets // unit, return_index=True, return_inverse=True)
        for unit in (model.LINE, model.SECTOR, model.WORD)
    )
    order = tuple(tuple(np.argsort(np.argsort(first))[inverse].tolist()) for _, first, inverse in renamed)
    return int(row.bytes), row.kind, on.tobytes(), order


def _request(found: model.Requests, index: int, number: int, alike: int) -> SectorRequest:
    """What the view draws of one request."""
    row = found.costs.loc[index]
    return {
        "offsets": [int(o) if on else -1 for o, on in zip(found.offsets[index], found.active[index])],
        "bytes": int(row.bytes),
        "tensor": row.tensor,
        "kind": row.kind,
        "sectors": int(row.sectors),
        "lines": int(row.lines),
        "used": int(row.bytes_used),
        "active": int(row.active),
        "number": number,
        "alike": alike,
    }


def _frames(
    run: Run, at: Sequence[Place], requests: Sequence[SectorRequest], after: Sequence[str], before: str = ""
) -> list[Frame]:
    """at: the probe of each request."""
    sites, numbers = sites_of(run.request), {place: number for number, place in enumerate(dict.fromkeys(at))}
    return [
        {
            "tile": numbers[place],
            "title": f"{request['tensor']} · {numbered('request', request)}",
            "sentence": before + _sentence(request) + beside,
            "lines": {sites.find(*place).place: 1},
            "marks": [marks.UNCOALESCED] if fewest(request["used"]) < request["sectors"] else [],
        }
        for place, request, beside in zip(at, requests, after)
    ]


def _sentence(request: SectorRequest) -> str:
    used, least = request["used"] / max(1, request["sectors"]), fewest(request["used"])
    verb = "read" if kind_of(request["kind"], "global").direction == "read" else "write"
    lanes = (
        f"{count(request['active'], 'lane')} {verb} {request['bytes']} bytes each of {request['tensor']}. They touch"
    )
    if request["active"] == 1:
        lanes = f"1 lane {verb}s {request['bytes']} bytes of {request['tensor']}. It touches"
    sectors = f"{count(request['sectors'], 'sector')} in {count(request['lines'], 'line')}"
    text = f"{numbered('Request', request)}: {lanes} {sectors}; of each sector's 32 bytes {used:.3g} are used."
    if least < request["sectors"]:
        return f"{text} {count(least, 'sector')} would hold those bytes."
    return f"{text} No fewer could hold those bytes."


def fewest(used: int) -> int:
    """The sectors that would hold so many bytes."""
    return -(-used // model.SECTOR)


# ---- the stage ----


def stage_of(
    story: Story,
    run: Run,
    provenance: stage.Provenance,
    chosen: str = "",
    late: Sequence[Any] = (),
    told: Sequence[str] = (),
) -> stage.Stage:
    """The whole stage of one run, or of the chosen one of several layouts."""
    mine = next(side for side in story.sides if side["name"] == chosen)
    alone: list[SectorSide] = [{"name": "", "requests": mine["requests"]}]
    only: SectorsMeta = {"sides": alone}
    views = [stage.View("sectors", "sectors", "The chosen layout" if chosen else "Sectors", only)]
    tabs = [stage.Tab("lines", "Every access"), stage.Tab("builds", "Builds"), stage.Tab("data", "Data and labels")]
    if chosen:
        every: SectorsMeta = {"sides": story.sides, "chosen": chosen}
        views.insert(0, stage.View("sectors", "layouts", "Layouts side by side", every))
        tabs.insert(0, stage.Tab("layouts", "Layouts"))
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=views,
        codes=[stage.code(run.request, story.frames)],
        state=states(mine["requests"]),
        tabs=tabs,
        provenance=provenance,
        late=late,
        told=told,
        questions=questions(mine["requests"], veils(chosen)),
    )


def states(requests: Sequence[SectorRequest]) -> list[stage.State]:
    """The strip: what a request touches, and how much of that it uses."""
    moved = [r["sectors"] * model.SECTOR for r in requests]
    use = [round(100 * r["used"] / m, 1) if m else 0.0 for r, m in zip(requests, moved)]
    found = [
        stage.State("sectors", [r["sectors"] for r in requests], colour=WAVEFRONTS["moved"]),
        stage.State("at best", [str(fewest(r["used"])) for r in requests]),
        stage.State("lines", [str(r["lines"]) for r in requests]),
        stage.State("bytes used", [f"{r['used']:,} of {m:,} moved" for r, m in zip(requests, moved)]),
        stage.State("use", use, "%", colour=WAVEFRONTS["before"]),
    ]
    if any(r["alike"] > 1 for r in requests):
        found.append(stage.State("of this kind", [count(r["alike"], "request") for r in requests]))
    return found


def veils(chosen: str) -> tuple[str, ...]:
    """What says how much a request moves and uses; the picture of several layouts does too."""
    return ("sentence", "strip", "tabs", *(("picture",) if chosen else ()))


def questions(requests: Sequence[SectorRequest], veils: Sequence[str]) -> list[stage.Question]:
    """Asked before the picture is read; the key is the trace's. veils: of Question."""
    if not requests:
        return []
    first = requests[0]
    text = (
        f"{count(first['active'], 'lane')} of a warp ask for {first['bytes']} bytes each of {first['tensor']} at once. "
        "How many sectors of 32 bytes does this request move?"
    )
    more: dict[str, Any] = {"unit": "sectors", "view": "sectors", "veils": veils}
    return [stage.Question("sectors", text, "number", first["sectors"], _sentence(first), **more)]


# ---- every line, and every layout ----


def worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """by_line's table, the line that uses its sectors worst first. Where no fewer sectors could hold what is asked for
    there is nothing to gain: those lines come after all others. Of equals the one with more sectors comes first."""
    kept = table["sectors"] <= table["sectors at best"]
    order = table.assign(kept=kept, less=-table["sectors"])
    return table.loc[order.sort_values(["kept", "used of 32 bytes", "less"], kind="stable").index]


def by_line(run: Run) -> pd.DataFrame:
    """Per source line: FILE:LINE and text, tensor, kind, bytes a lane, requests, sectors and lines a request, useful
    bytes a sector (of 32), sectors in all, and those that would hold the bytes.

    Columns `file` and `line` name the probe, as explain takes it.
    """
    requests = model.requests(run.trace, space="global")
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
