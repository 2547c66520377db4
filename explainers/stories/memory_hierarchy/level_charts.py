"""The charts of latency and bandwidth against the working set."""

from dataclasses import dataclass
from typing import Literal

import altair as alt
import pandas as pd

from explainers.charts.layers import Inline, decades, named_ends
from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.models.memory_levels import (
    SPACES,
    bytes_said,
    edges,
    levels_met,
    plateaus,
    short_name,
    stairs,
)
from kernels.build.occupancy import Machine

HUES = ("green", "blue", "orange", "purple", "vermillion", "grey")
COLOURS = dict(zip(SPACES.values(), (OKABE_ITO[name] for name in HUES)))
ROW = 20  # pixels between the names of two caches
HEADROOM = 0.25  # share of the axis above the lines, for these names


PLATEAUS = {"in L1": "through L1", "in L2": "L2", "in device memory": "device memory"}
FAR, SPREAD = "partly in L2", 0.05  # a level, and the spread of a plateau
HALVES = {FAR: "far half of L2 (likely)"}  # names if FAR is a plateau


@dataclass(frozen=True)
class Measure:
    """The measured figure of a chart.

    kind: latency or bandwidth.
    column: the column of the figure. COLUMN_least and COLUMN_most are its spread.
    title: its name at the axis.
    """

    kind: str
    column: str
    title: str


LATENCY = Measure("latency", "cycles", "cycles a load (log)")
BANDWIDTH = Measure("bandwidth", "gb_per_s", "GB/s, whole GPU")


def latency_chart(
    rows: pd.DataFrame, marked: pd.DataFrame | None = None, machine: Machine | None = None
) -> alt.LayerChart:
    """The cycles of one load in a chain, against the bytes of the chain.

    marked: the rows with the marked caches.
    machine: for a rule at the shared memory of an SM.
    """
    shared = machine.shared_bytes if machine else None
    return _chart(rows, rows if marked is None else marked, LATENCY, shared)


def bandwidth_chart(rows: pd.DataFrame, marked: pd.DataFrame | None = None) -> alt.LayerChart:
    """The gigabytes per second of the whole GPU, against the bytes of its repeated reads."""
    return _chart(rows, rows if marked is None else marked, BANDWIDTH, None)


_SIZE = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? datum.value / 1048576 + "
    "' MiB' : datum.value / 1024 + ' KiB'"
)


def _chart(rows: pd.DataFrame, marked: pd.DataFrame, measure: Measure, shared: int | None) -> alt.LayerChart:
    """The chart. marked: the rows of the steps. shared: bytes of an SM's shared memory, for a rule."""
    data, column, known = Inline(), measure.column, edges(marked)
    steps = {size: n for n, size in enumerate(stairs(marked, measure.kind), 1)}
    rows = rows[rows.kind == measure.kind]
    rows = rows.loc[(rows.space == "through_l1").sort_values(kind="stable").index]  # its points cover others
    beyond = rows.working_set > known[0].fits if known else False
    through, past = (rows["where"] == SPACES[space] for space in ("through_l1", "from_l2"))
    rows = rows.assign(
        line=rows["where"] + ", " + rows.source,
        beyond=past | through & beyond,
        step=[steps.get(int(size)) for size in rows.working_set],
        size=rows.working_set.map(bytes_said),
    )
    several, drawn = rows.source.nunique() > 1, set(rows["where"])

    # the axes: working sets with a tick at every second or sixth power of two, and room for names above the lines
    smallest, largest = rows.working_set.min(), rows.working_set.max()
    every = 6 if largest > 2**12 * smallest else 2
    ticks = [2**n for n in range(10, 31, every) if smallest / 2 <= 2**n <= largest * 2]
    x = alt.X(
        "working_set:Q",
        title="size of the data that the loads visit (log)",
        scale=alt.Scale(type="log", base=2, domain=[float(smallest) / 1.1, float(largest) * 1.1], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=_SIZE, labelOverlap="greedy", labelSeparation=8, grid=False),
    )
    low, high = rows[f"{column}_least"].min() / 1.25, rows[f"{column}_most"].max() * 1.1
    bounds = (low, high * (high / low) ** HEADROOM)
    scale = alt.Scale(type="log", domain=list(bounds), nice=False)
    y = alt.Y(f"{column}:Q", title=measure.title, scale=scale, axis=alt.Axis(values=decades(*bounds), format=",~g"))
    present = [name for name in COLOURS if name in drawn]
    colours = alt.Scale(domain=present, range=[COLOURS[name] for name in present])
    colour = alt.Color("where:N", legend=None, scale=colours)

    # the spread, the lines and the points
    base, least = data.chart("points", rows), alt.Y(f"{column}_least:Q", scale=scale)
    spread = base.mark_rule(strokeWidth=2).encode(x=x, y=least, y2=f"{column}_most:Q", color=colour)
    over = alt.datum.where == SPACES["from_l2"]  # it covers the chain through L1 beyond the end of L1
    line = base.mark_line().encode(
        x=x,
        y=y,
        color=colour,
        detail="line:N",
        strokeDash=alt.when(over).then(alt.value([5, 4])).otherwise(alt.value([1, 0])),
        strokeWidth=alt.when(alt.datum.where == SPACES["through_l1"]).then(alt.value(4)).otherwise(alt.value(2)),
    )
    larger = alt.when("datum.step == step").then(alt.value(170)).when(over).then(alt.value(16))
    legend = alt.Legend(orient="bottom", symbolFillColor=AXIS) if several else None
    points = base.mark_point(filled=True, opacity=1).encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape("source:N", title=None, legend=legend),
        size=larger.otherwise(alt.value(45)),
        tooltip=[
            alt.Tooltip("where:N", title="loads"),
            alt.Tooltip("size:N", title="working set: the bytes that the loads visit"),
            alt.Tooltip(f"{column}:Q", format=",.5g", title=f"median, {measure.title}"),
            alt.Tooltip(f"{column}_least:Q", format=",.5g", title="least"),
            alt.Tooltip(f"{column}_most:Q", format=",.5g", title="most"),
            alt.Tooltip("source:N", title="from"),
        ],
    )
    at = [{"working_set": size, "step": n} for size, n in steps.items() if smallest <= size <= largest]
    rule = [data.step_rule(pd.DataFrame(at), x)] if at else []

    # the names of the lines. Both lines of global memory have one name if they end at one height
    last = rows.sort_values("working_set").groupby("line", sort=False).tail(1)
    last = last.assign(said=last.line if several else last["where"])
    both = last[last["where"].isin([SPACES["through_l1"], SPACES["from_l2"]])]
    if len(both) == 2 and both[column].max() / both[column].min() <= 1 + SPREAD / 2:
        kept = both[both["where"] == SPACES["through_l1"]]
        last = last.drop(both.index.difference(kept.index)).replace({"said": {kept.said.iloc[0]: "global memory"}})
    ends = named_ends(data, last, x, y, bounds, colour, ["beyond"])
    marks = _marks(data, marked, measure.kind, shared, x, (smallest, largest))
    named = measure.kind == "latency" and SPACES["through_l1"] in drawn and SPACES["texture"] not in drawn
    levels = _haloed(_plateau_names(data, marked, x, y)) if named else []
    return data.layered([*marks, *rule, spread, line, points, *levels, *ends], 360)


def far_half(marked: pd.DataFrame) -> float:
    """The cycles of the plateau between L2 and device memory, 0 without one."""
    chain = marked[(marked.kind == "latency") & (marked.space == "through_l1")].set_index("working_set").cycles
    far = chain[chain.index.map(levels_met(marked)) == FAR]
    return far.median() if len(far) > 1 and far.max() / far.min() < 1 + SPREAD else 0.0


def _plateau_names(data: Inline, marked: pd.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The name of each level over its part of the chain through L1. The page removes them in a low chart."""
    chain = marked[(marked.kind == "latency") & (marked.space == "through_l1")].set_index("working_set").cycles
    parts, found = dict(iter(chain.groupby(chain.index.map(levels_met(marked))))), []
    cycles = plateaus(marked).set_index("level").cycles.rename(short_name)
    names = PLATEAUS | (HALVES if far_half(marked) else {})
    for level, part in parts.items():
        if name := names.get(level):
            low, high = float(part.index.min()), float(part.index.max())
            middle = level in ("in L1", "in L2")
            side, x_at = ("center", (low * high) ** 0.5) if middle else ("right", low / 2 if level == FAR else high)
            at = {"working_set": x_at, "cycles": part.median()}
            least, most = f"{part.min():.0f}", f"{part.max():.0f}"
            one = part.median() if level == FAR else cycles[level.removeprefix("in ")]
            figures = f"{least} to {most}" if level == FAR and least != most else f"{one:.0f}"
            said = f"{name}: {figures}"
            found.append({"said": said, **at, "side": side, "beyond": level != "in L1"})
    past = marked[(marked.kind == "latency") & (marked.space == "from_l2")].sort_values("working_set")
    if (
        parts
        and len(past)
        and past.working_set.iloc[0] <= parts.get("in L1", past.set_index("working_set")).index.max()
    ):
        at = {"working_set": float(past.working_set.iloc[0]), "cycles": past.cycles.iloc[0]}
        found.append({"said": "L1 skipped", **at, "side": "left", "beyond": True})
    base, height = data.chart("levels", pd.DataFrame(found)), alt.Y("cycles:Q", scale=y["scale"])
    sides: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")
    return [
        base.mark_text(align=side, baseline="bottom", dy=-9)
        .encode(x=x, y=height, text="said:N")
        .transform_filter(alt.datum.side == side)
        .properties(name=f"levels_{side}")
        for side in sides
    ]


def _haloed(texts: list[alt.Chart]) -> list[alt.Chart]:
    """Texts with a ground of the page's colour, so that no line crosses them."""
    found = []
    for text in texts:
        ground = text.copy(deep=True)
        ground.mark.style = "halo"
        found += [ground.properties(name=f"{text.name}_ground"), text]
    return found


def _marks(
    data: Inline,
    marked: pd.DataFrame,
    kind: str,
    shared: int | None,
    x: alt.X,
    ends_of_axis: tuple[float, float],
) -> list[alt.Chart]:
    """A band at the end of each cache, with its name, and a rule at the size of an SM's shared memory."""
    half = kind == "latency" and far_half(marked)
    names = {"L2 cache": "near half of L2 (likely)"} if half else {}
    names |= {"L1 cache": "L1 of all SMs"} if kind == "bandwidth" else {}
    ends = [
        {
            "working_set": edge.fits,
            "to": edge.leaves or ends_of_axis[1],
            "said": f"{names.get(edge.level, edge.level.split()[0])}: {bytes_said(edge.fits)}",
        }
        for edge in edges(marked, kind)
    ]
    layers, middle = [], ends_of_axis[0] ** 0.7 * ends_of_axis[1] ** 0.3 if kind == "latency" else ends_of_axis[1]
    if ends:
        base = data.chart("caches", pd.DataFrame(ends))
        layers.append(base.mark_rect(color=AXIS, opacity=0.25).encode(x=x, x2="to:Q"))
        for row, edge in enumerate(reversed(ends)):  # one below the other, since bands may be close
            text = _beside(base, x, float(edge["to"]), row, middle)
            text = text.transform_filter(alt.datum.working_set == edge["working_set"])
            layers += _haloed([text.properties(name=f"levels_band_{row}")])
    if shared:
        said = f"shared: {bytes_said(shared)}"
        base = data.chart("shared", pd.DataFrame([{"working_set": shared, "to": shared, "said": said}]))
        rule = base.mark_rule(color=AXIS, strokeDash=[4, 4]).encode(x=x)
        layers += [rule, _beside(base, x, shared, 2, middle)]
    return layers


def _beside(base: alt.Chart, x: alt.X, end: float, row: int, middle: float) -> alt.Chart:
    """The name of a band or rule, on the side with more room.

    end: its right end, in bytes.
    middle: before it, the name is on the right side.
    """
    right = end < middle
    text = base.mark_text(align="left" if right else "right", baseline="top", dx=5 if right else -5, dy=4 + ROW * row)
    across = alt.X("to:Q", scale=x["scale"]) if right else x
    return text.encode(x=across, y=alt.YValue(0), text="said:N")
