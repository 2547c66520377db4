"""The recorded times of a fused kernel, its separate kernels and torch.compile, under one clock."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS, MARKS, OKABE_ITO
from explainers.stories.fusion.frames import ShownTime
from explainers.story.glossary import count
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure import chains
from kernels.measure.chain_runs import COMPILED
from kernels.recordings.tables import Provenance

SHOWN = (("separate", "stream"), ("separate", "graph"), ("fused", "graph"), ("compiled", "graph"))
IN = {"stream": "one after another", "graph": "in a graph"}
ROW = 62  # pixels of a line of the chart
ALT = "The time of one chain of launches: separate one after another, separate in a graph, fused, and torch.compile"
NONE = "No times of this code are recorded. On a GPU, python -m kernels measure chains records them."


@dataclass(frozen=True)
class Times:
    """The recorded times of one problem.

    rows: of chains.COLUMNS, with `who`: separate, fused or compiled.
    place: the GPU and the date.
    siblings: the Times of all problems of the kernel, this one among them.
    """

    problem: Problem
    rows: pd.DataFrame
    place: str
    siblings: "list[Times]" = field(default_factory=list, repr=False, compare=False)

    @property
    def said(self) -> str:
        return f"Recorded on {self.place}."

    def us(self, who: str, mode: str, l2: str = "hot") -> float:
        """us of one chain, NaN without a time. A graph is sustained. Launches one after another are rested: the host
        cannot keep a chip at work with them. So each chain has one time on the page."""
        rows = self.rows[(self.rows.who == who) & (self.rows["mode"] == mode) & (self.rows.l2 == l2)]
        return float(rows["sustained_us" if mode == "graph" else "us"].iloc[0]) if len(rows) else math.nan

    def spans(self, who: str, mode: str) -> list[list[float]]:
        """[start, end] of each launch in us."""
        rows = self.rows[(self.rows.who == who) & (self.rows["mode"] == mode) & (self.rows.l2 == "hot")]
        return json.loads(rows.spans.iloc[0]) if len(rows) and isinstance(rows.spans.iloc[0], str) else []


@lru_cache(maxsize=16)
def all_times(spec: KernelSpec) -> list[Times]:
    """The Times of each recorded problem of a fused kernel, in the order of the table."""
    found = chains.recorded(spec)
    if found is None:
        return []
    rows, where = found
    other = {spec.name: "fused", COMPILED: "compiled"}
    rows = rows.assign(who=rows["name"].map(other).fillna("separate"))
    made = list[Times]()
    for text, part in rows.groupby("problem", sort=False):
        made.append(Times(spec.problem_type(**json.loads(str(text))), part, place_of(where), made))
    return made


def place_of(where: Provenance) -> str:
    return f"{where.device.removeprefix('NVIDIA ')}, {where.date}"


def nearest(request: Request) -> Times | None:
    """The Times of the recorded problem nearest to a request in work, in its type if there are some."""
    times = all_times(request.kernel)
    wanted = request.problem.values().get("dtype")

    def gap(one: Times) -> tuple[bool, float]:
        work = math.log(one.problem.cpu_steps / max(1, request.problem.cpu_steps))
        return one.problem.values().get("dtype") != wanted, abs(work)

    return min(times, key=gap) if times else None


def who_said(who: str, mode: str) -> str:
    return f"{COMPILED if who == 'compiled' else who}, {IN[mode]}"


def chart(times: Times) -> alt.LayerChart | alt.FacetChart:
    """A line for each way, all on one scale of microseconds: the launches, and the time of the whole chain."""
    chain, launches = list[dict[str, object]](), list[dict[str, object]]()
    for who, mode in SHOWN:
        us = times.us(who, mode)
        if not math.isnan(us):
            name = who_said(who, mode)
            chain.append({"way": name, "start": 0.0, "end": us, "us": f"{us:.2f} µs"})
            spans = times.spans(who, mode)
            launches += [
                {"way": name, "start": a, "end": b, "launch": f"launch {n + 1}"} for n, (a, b) in enumerate(spans)
            ]
    order = [str(row["way"]) for row in chain]
    y = alt.Y("way:N", title=None, sort=order, axis=alt.Axis(labelLimit=220, labelFontSize=13))
    most = 1.3 * max(float(str(row["end"])) for row in chain)
    axis, scale = alt.Axis(tickCount=8), alt.Scale(domain=[0, most], nice=False)
    x = alt.X("start:Q", title="microseconds from the start of a chain", axis=axis, scale=scale)
    base = alt.Chart(pd.DataFrame(chain))
    whole = base.mark_bar(height={"band": 0.85}, color=OKABE_ITO["grey"], opacity=0.35).encode(x=x, x2="end:Q", y=y)
    said = base.mark_text(align="left", dx=6, fontSize=13, color=AXIS).encode(x="end:Q", y=y, text="us:N")
    layers = [whole]
    if launches:
        names = sorted({str(row["launch"]) for row in launches})
        colours = [MARKS["load"], OKABE_ITO["orange"], OKABE_ITO["purple"], OKABE_ITO["green"]][: len(names)]
        colour = alt.Color(
            "launch:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(orient="top")
        )
        bars = alt.Chart(pd.DataFrame(launches)).mark_bar(height={"band": 0.45})
        tips = ["way:N", "launch:N", alt.Tooltip("start:Q", format=".2f"), alt.Tooltip("end:Q", format=".2f")]
        layers.append(bars.encode(x="start:Q", x2="end:Q", y=y, color=colour, tooltip=tips))
    lines = alt.TitleParams(
        caption(times)[0], subtitle=caption(times)[1:], anchor="start", fontSize=13, subtitleColor=AXIS
    )
    return alt.layer(*layers, said).properties(height=ROW * len(chain), title=lines)


def caption(times: Times) -> list[str]:
    """The meaning of the lines."""
    kind = times.problem.values().get("dtype", "")
    return [
        times.problem.size,
        f"{times.said} {kind}, hot L2. A graph: sustained. One after another: rested.",
        "Grey: from one chain to the next.",
        "Colours: from a launch's first block to its last one, by the timeline build.",
    ]


def table(times: list[Times]) -> pd.DataFrame:
    """us of each way at every recorded problem, with a hot and a cold L2. Graphs sustained, streams rested."""
    rows = []
    for one in times:
        for l2 in chains.L2:
            found = {who_said(w, m): one.us(w, m, l2) for w, m in SHOWN}
            graph, fused, peer = (one.us(w, "graph", l2) for w in ("separate", "fused", "compiled"))
            texts = {name: "none" if math.isnan(us) else f"{us:.2f}" for name, us in found.items()}
            gains = {"separate / fused": graph / fused, f"{COMPILED} / fused": peer / fused}
            said = {name: "none" if math.isnan(v) else f"{v:.2f}" for name, v in gains.items()}
            kind = one.problem.values().get("dtype", "")
            rows.append({"problem": one.problem.size, "type": kind, "L2": l2, **texts, **said})
    return pd.DataFrame(rows)


def in_graph(times: Times, who: str) -> float:
    """us of a chain in a CUDA graph, sustained. NaN without a time."""
    return times.us(who, "graph")


def saved(times: Times) -> float:
    """us that fusion saves of the separate launches in a CUDA graph. NaN without a time."""
    return in_graph(times, "separate") - in_graph(times, "fused")


def alike(times: Times) -> list[Times]:
    """The Times of the kernel in one type, the smallest problem first."""
    kind = times.problem.values().get("dtype")
    found = [one for one in times.siblings if one.problem.values().get("dtype") == kind and not math.isnan(saved(one))]
    return sorted(found, key=lambda one: one.problem.cpu_steps)


def gaps(times: Times) -> list[float]:
    """us between two neighbouring separate launches in a graph, in which no kernel runs."""
    spans = times.spans("separate", "graph")
    return [after[0] - before[1] for before, after in zip(spans, spans[1:])]


def gap_share(times: Times) -> float:
    """The gaps between the separate launches over the time that fusion saves. NaN without them.

    It can exceed 1: the gaps come from the timeline build, the time from the timed one.
    """
    return sum(gaps(times)) / saved(times) if gaps(times) and saved(times) > 0 else math.nan


def first_size(problem: Problem) -> tuple[str, int]:
    """The name and value of a problem's first size, such as tokens, 16."""
    name, value = next(iter(problem.values().items()))
    return name, int(str(value))


def size_of(problem: Problem) -> str:
    """The size of a problem as a person says it, such as 16 tokens, hidden 4096."""
    name, value = first_size(problem)
    first, *others = problem.size.split(", ")
    return ", ".join([count(value, name.removesuffix("s"), name) if first == f"{name} {value}" else first, *others])


def source(times: Times) -> str:
    """The GPU, date, size and type of a recording."""
    kind = times.problem.values().get("dtype", "")
    return f"recorded on {times.place}, with {size_of(times.problem)}{f', {kind}' if kind else ''}"


def shown(times: Times) -> ShownTime | None:
    """The times in the picture."""
    if math.isnan(saved(times)):
        return None
    names = [who for who in ("separate", "compiled", "fused") if not math.isnan(in_graph(times, who))]
    return {
        "names": [launched(times, who) for who in names],
        "us": [in_graph(times, who) for who in names],
        "texts": [f"{in_graph(times, who):.2f} µs" for who in names],
        "spans": [times.spans(who, "graph") for who in names],
        "pieces": [pieces(times.spans(who, "graph"), in_graph(times, who)) for who in names],
        "said": source(times).removeprefix("recorded on "),
        "note": by_size(times),
    }


def pieces(spans: Sequence[Sequence[float]], end: float) -> list[list[str]]:
    """The us of each launch and of the gap after it, as texts. end: of the chain, in us."""
    after = [*(start for start, _ in spans[1:]), end]
    return [[f"{stop - start:.2f}", f"{then - stop:.2f}"] for (start, stop), then in zip(spans, after)]


def launched(times: Times, who: str) -> str:
    """A way with its number of launches."""
    rows = times.rows[(times.rows.who == who) & (times.rows["mode"] == "graph")]
    launches = rows.launches.iloc[0]
    name = COMPILED if who == "compiled" else who
    return name if pd.isna(launches) else f"{name}, {count(int(launches), 'launch', 'launches')}"


def sentence(times: Times) -> str:
    """The time before and after fusion, and the part of the gaps."""
    if math.isnan(saved(times)):
        return ""
    before, after, share = in_graph(times, "separate"), in_graph(times, "fused"), gap_share(times)
    said = f"It takes {after:.2f} in place of {before:.2f} µs (recorded, sustained)."
    if not share > 0.5:
        return said
    if share >= 1:
        return f"{said} The gap between the launches explains all of the {saved(times):.2f} µs saved."
    return f"{said} Of the {saved(times):.2f} µs saved, about {sum(gaps(times)):.1f} are the gap between the launches."


def by_size(times: Times) -> str:
    """The speedup of the smallest, this and the largest problem, or ""."""
    gains = {first_size(one.problem)[1]: gain_of(one) for one in alike(times)}
    if len(gains) < 2:
        return ""
    name, own = first_size(times.problem)
    few, *others = [size for size in gains if size in (min(gains), own, max(gains))]
    said = [f"{gains[few]:.2f} with {count(few, name.removesuffix('s'), name)}"]
    return f"Times as fast: {', '.join(said + [f'{gains[size]:.2f} with {size:,}' for size in others])}"


def gap_sentence(times: Times, entries: Sequence[str]) -> str:
    """The gap before the second launch in words, or "" without a recording."""
    if not gaps(times):
        return ""
    first = times.spans("separate", "graph")[0]
    return (
        f"{entries[0]} runs for {first[1] - first[0]:.2f} µs. Then no kernel runs for {gaps(times)[0]:.2f} µs, "
        f"until {entries[1]} starts. One launch has no such gap."
    )


def largest_sentence(times: Times, fewer: float) -> str:
    """The saved time of the largest problem: of the gap, and of the bytes. "" if this problem is the largest.

    fewer: the share of bytes that fusion saves.
    """
    largest = alike(times)[-1] if alike(times) else times
    if largest is times or not gaps(largest) or saved(largest) <= 0 or fewer <= 0:
        return ""
    name, size = first_size(largest.problem)
    before, after = in_graph(largest, "separate"), in_graph(largest, "fused")
    return (
        f"With {size:,} {name}, {before:.1f} µs become {after:.1f}: {before - after:.1f} saved. "
        f"The gap is {sum(gaps(largest)):.1f} of it. At equal speed, {fewer:.0%} fewer bytes would save "
        f"{fewer * before:.1f} (derived)."
    )


def gain_of(times: Times) -> float:
    """Separate over fused, in a graph."""
    return in_graph(times, "separate") / in_graph(times, "fused")
