"""The recorded times of a fused kernel, its separate kernels and torch.compile: tables, a chart and the bars."""

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS, MARKS, OKABE_ITO
from explainers.story.glossary import count
from explainers.story.scene import Bar, Bars, Part
from explainers.story.stage import place
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure import chains
from kernels.measure.chains import COMPILED

SHOWN = (("separate", "stream"), ("separate", "graph"), ("fused", "graph"), ("compiled", "graph"))
IN = {"stream": "one after another", "graph": "in a graph"}
ALT = "The time of one chain of launches: separate one after another, separate in a graph, fused, and torch.compile"
LAUNCH_COLOURS = [MARKS["load"], OKABE_ITO["orange"], OKABE_ITO["purple"], OKABE_ITO["green"]]


@lru_cache(maxsize=16)
def recorded(spec: KernelSpec) -> tuple[pd.DataFrame, str]:
    """Every recorded time of a fused kernel, and the GPU with the date. An empty table without a recording.

    A row for each problem, L2 and way: a chain's time in us. A graph's time is sustained. Launches one after another
        are rested: the host cannot keep a chip at work with them.
    Columns: problem, who (separate, fused or compiled), mode (stream or graph), l2 (hot or cold), us, launches,
        spans: [start, end] of each launch in us.
    """
    found = chains.recorded(spec)
    if found is None:
        return pd.DataFrame(columns=["problem", "who", "mode", "l2", "us", "launches", "spans"]), ""
    rows, where = found
    problems = {text: spec.problem_type(**json.loads(text)) for text in rows.problem.unique()}
    table = pd.DataFrame(
        {
            "problem": rows.problem.map(problems),
            "who": rows["name"].map({spec.name: "fused", COMPILED: "compiled"}).fillna("separate"),
            "mode": rows["mode"],
            "l2": rows.l2,
            "us": rows.us.where(rows["mode"] == "stream", rows.sustained_us),
            "launches": rows.launches,
            "spans": [json.loads(spans) if isinstance(spans, str) else [] for spans in rows.spans],
        }
    )
    return table, place(where.device, where.date)


def of_problem(table: pd.DataFrame, problem: Problem, l2: str = "hot") -> dict[str, Any]:
    """The times of one problem: stream, separate, fused and compiled in us, NaN without one, and more.

    saved: us that fusion saves of the separate launches in a graph.
    gaps, first_gap: us in which no kernel runs between the separate launches. first: us of the first launch.
    gap_share: gaps over saved. It can exceed 1: the gaps come from the timeline build, the time from the timed one.
    gain: separate over fused.
    name, count: of the problem's first size, such as tokens, 16.
    """
    rows = table[(table.problem == problem) & (table.l2 == l2)].set_index(["who", "mode"])
    us = {key: float(rows.us[key]) if key in rows.index else math.nan for key in SHOWN}
    spans = {who: rows.spans[who, "graph"] if (who, "graph") in rows.index else [] for who, _ in SHOWN}
    gaps = [after[0] - before[1] for before, after in zip(spans["separate"], spans["separate"][1:])]
    before, after = us["separate", "graph"], us["fused", "graph"]
    name, size = next(iter(problem.values().items()))
    return {
        "problem": problem,
        "stream": us["separate", "stream"],
        "separate": before,
        "fused": after,
        "compiled": us["compiled", "graph"],
        "saved": before - after,
        "gain": before / after,
        "gaps": sum(gaps),
        "first_gap": gaps[0] if gaps else 0.0,
        "first": spans["separate"][0][1] - spans["separate"][0][0] if gaps else 0.0,
        "gap_share": sum(gaps) / (before - after) if gaps and before > after else math.nan,
        "launches": len(spans["separate"]),
        "counts": {who: rows.launches[who, "graph"] if (who, "graph") in rows.index else None for who, _ in SHOWN},
        "spans": spans,
        "name": name,
        "count": int(str(size)),
    }


def nearest(request: Request) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The times of the recorded problem nearest to a request in work, in its type if there are some. And those of all
    problems in its type with both times, the smallest first. None without a recording."""
    table, where = recorded(request.kernel)
    kind = request.problem.values().get("dtype")

    def gap(problem: Problem) -> tuple[bool, float]:
        return problem.values().get("dtype") != kind, abs(
            math.log(problem.cpu_steps / max(1, request.problem.cpu_steps))
        )

    if table.empty:
        return None
    problems = list(table.problem.unique())
    near = of_problem(table, min(problems, key=gap))
    kind = near["problem"].values().get("dtype")
    alike = [of_problem(table, problem) for problem in problems if problem.values().get("dtype") == kind]
    size = size_said(near["problem"])
    near |= {"where": where, "source": f"recorded on {where}, with {size}{f', {kind}' if kind else ''}"}
    return near, sorted((t for t in alike if t["saved"] == t["saved"]), key=lambda t: t["problem"].cpu_steps)


def size_said(problem: Problem) -> str:
    """The size of a problem as a person says it, such as 16 tokens, hidden 4096."""
    name, value = next(iter(problem.values().items()))
    first, *others = problem.size.split(", ")
    said = count(int(str(value)), name.removesuffix("s"), name) if first == f"{name} {value}" else first
    return ", ".join([said, *others])


def bars(times: Mapping[str, Any], alike: list[dict[str, Any]], now: list[int]) -> Bars:
    """The bars of the picture. now: the steps about them."""
    name, size = times["name"], size_said(times["problem"]).split(",")[0]
    rows = [(COMPILED if who == "compiled" else who, who) for who in ("separate", "compiled", "fused")]
    gains = {t["count"]: t["gain"] for t in alike}
    shown = [n for n in gains if n in (min(gains), times["count"], max(gains))]
    said = [
        f"{gains[n]:.2f} with {count(n, name.removesuffix('s'), name) if n == shown[0] else f'{n:,}'}" for n in shown
    ]
    return Bars(
        title=[
            f"Time in a CUDA graph, {times['source']}",
            f"In a CUDA graph, {size} (recorded, {times['where'].split(', 20')[0]})",
            "Time (recorded)",
        ],
        bars=[
            Bar(
                name=title
                if pd.isna(times["counts"][who])
                else f"{title}, {count(int(times['counts'][who]), 'launch', 'launches')}",
                value=times[who],
                text=f"{times[who]:.2f} µs",
                parts=_parts(times["spans"][who], times[who]),
                strong=who == "fused",
                datum={"time": who},
                tip=f"{title}: {times[who]:.2f} µs\nin a CUDA graph, sustained, {times['source']}",
            )
            for title, who in rows
            if not math.isnan(times[who])
        ],
        note=f"Times as fast: {', '.join(said)}" if len(gains) > 1 else "",
        datum={"note": "time"},
        now=now,
    )


def _parts(spans: list[list[float]], end: float) -> list[Part]:
    """Each launch, and the gap after it. end: of the chain, in us."""
    after = [*(start for start, _ in spans[1:]), end]
    return [
        Part(start=start, end=stop, text=f"{stop - start:.2f}", gap=f"{then - stop:.2f}")
        for (start, stop), then in zip(spans, after)
    ]


def way(who: str, mode: str) -> str:
    return f"{COMPILED if who == 'compiled' else who}, {IN[mode]}"


def table(spec: KernelSpec) -> pd.DataFrame:
    """us of each way at every recorded problem, with a hot and a cold L2."""
    times, rows = recorded(spec)[0], []
    for problem in times.problem.unique():
        for l2 in chains.L2:
            one = of_problem(times, problem, l2)
            us = {way(who, mode): one["stream" if mode == "stream" else who] for who, mode in SHOWN}
            us |= {"separate / fused": one["gain"], f"{COMPILED} / fused": one["compiled"] / one["fused"]}
            texts = {name: "none" if math.isnan(value) else f"{value:.2f}" for name, value in us.items()}
            rows.append({"problem": problem.size, "type": problem.values().get("dtype", ""), "L2": l2, **texts})
    return pd.DataFrame(rows)


def chart(times: Mapping[str, Any]) -> alt.LayerChart | alt.FacetChart:
    """A line for each way, all on one scale of microseconds: the launches, and the time of the whole chain."""
    ways = [(who, mode, times["stream" if mode == "stream" else who]) for who, mode in SHOWN]
    chain = [
        {"way": way(who, mode), "start": 0.0, "end": us, "us": f"{us:.2f} µs"} for who, mode, us in ways if us == us
    ]
    launches = [
        {"way": way(who, mode), "start": start, "end": end, "launch": f"launch {n}"}
        for who, mode, us in ways
        if us == us and mode == "graph"
        for n, (start, end) in enumerate(times["spans"][who], 1)
    ]
    y = alt.Y("way:N", title=None, sort=[row["way"] for row in chain], axis=alt.Axis(labelLimit=220, labelFontSize=13))
    most = 1.3 * max(us for _, _, us in ways if us == us)
    axis, scale = alt.Axis(tickCount=8), alt.Scale(domain=[0, most], nice=False)
    x = alt.X("start:Q", title="microseconds from the start of a chain", axis=axis, scale=scale)
    base = alt.Chart(pd.DataFrame(chain))
    layers = [base.mark_bar(height={"band": 0.85}, color=OKABE_ITO["grey"], opacity=0.35).encode(x=x, x2="end:Q", y=y)]
    if launches:
        names = sorted({str(row["launch"]) for row in launches})
        scale = alt.Scale(domain=names, range=LAUNCH_COLOURS[: len(names)])
        colour = alt.Color("launch:N", title=None, scale=scale, legend=alt.Legend(orient="top"))
        tips = ["way:N", "launch:N", alt.Tooltip("start:Q", format=".2f"), alt.Tooltip("end:Q", format=".2f")]
        drawn = alt.Chart(pd.DataFrame(launches)).mark_bar(height={"band": 0.45})
        layers.append(drawn.encode(x="start:Q", x2="end:Q", y=y, color=colour, tooltip=tips))
    layers.append(base.mark_text(align="left", dx=6, fontSize=13, color=AXIS).encode(x="end:Q", y=y, text="us:N"))
    caption = [
        f"Recorded on {times['where']}. {times['problem'].values().get('dtype', '')}, hot L2. "
        "A graph: sustained. One after another: rested.",
        "Grey: from one chain to the next.",
        "Colours: from a launch's first block to its last one, by the timeline build.",
    ]
    title = alt.TitleParams(times["problem"].size, subtitle=caption, anchor="start", fontSize=13, subtitleColor=AXIS)
    return alt.layer(*layers).properties(height=62 * len(chain), title=title)
