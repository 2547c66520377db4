"""The charts of latency and bandwidth against the working set."""

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline
from explainers.charts.line_ends import decades, named_ends
from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.stories.memory_hierarchy.memory_levels import SPACES, bytes_said, edges, sizes
from explainers.story import stage
from kernels.build.occupancy import Machine

COLOURS = dict(zip(SPACES.values(), (OKABE_ITO[name] for name in ("green", "blue", "orange", "purple"))))
ROW = 20  # pixels between the names of two caches


def chart_view(kind: str, title: str, chart: alt.LayerChart, about: str, at: list[int]) -> stage.View:
    spec = chart.to_dict(validate=False)  # tests do
    room = max((len(row["said"]) for data in spec["datasets"].values() for row in data if "beside" in row), default=0)
    legend = [[f"background:{colour}", name] for name, colour in COLOURS.items()]
    meta = {
        "spec": spec,
        "alt": about,
        "note": NOTES[kind],
        "at": at,
        "room": room,
        "ends": spec["usermeta"]["ends"],
        "legend": legend,
    }
    return stage.View("chart", kind, title, meta)


NOTES = {
    "latency": "One thread, one load at a time, each waiting for the one before. Grey bands: where the measured figure "
    "leaves a cache's own, as a thread of one multiprocessor sees it; a cache's size may be larger. Dashed: shared "
    "memory of a multiprocessor, from CUDA's table of compute capabilities.",
    "bandwidth": "Every multiprocessor reads its own part over and over: a working set that fits all L1 caches "
    "together, the L2, or neither. Grey bands: where the measured figure leaves a cache's own.",
}


def latency_chart(
    rows: pd.DataFrame, told: pd.DataFrame | None = None, machine: Machine | None = None
) -> alt.LayerChart:
    """Returns the cycles of one load in a chain, against the bytes of the chain. told: the rows with the marked
    caches."""
    shared = machine.shared_bytes if machine else None
    return _chart(rows, rows if told is None else told, "latency", "cycles", "cycles of a load", shared)


def bandwidth_chart(rows: pd.DataFrame, told: pd.DataFrame | None = None) -> alt.LayerChart:
    """Returns the gigabytes per second of the whole GPU, against the bytes of its repeated reads."""
    return _chart(rows, rows if told is None else told, "bandwidth", "gb_per_s", "GB/s, whole GPU", None)


_SIZE = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? datum.value / 1048576 + "
    "' MiB' : datum.value / 1024 + ' KiB'"
)


def _size_axis(ticks: list[int]) -> alt.Axis:
    return alt.Axis(values=ticks, labelExpr=_SIZE, labelOverlap="greedy", labelSeparation=8, grid=False)


def _chart(
    rows: pd.DataFrame, told: pd.DataFrame, kind: str, value: str, title: str, shared: int | None
) -> alt.LayerChart:
    data, at = Inline(), sizes(told)
    rows = rows[rows.kind == kind].copy()
    step = {size: n for n, size in enumerate(at, 1)}
    rows = rows.assign(line=rows["where"] + ", " + rows.source, step=[step.get(int(v)) for v in rows.working_set])
    smallest, largest = rows.working_set.min(), rows.working_set.max()
    low, high = rows[f"{value}_least"].min() / 1.25, rows[f"{value}_most"].max() * 1.25
    every = 6 if largest > 2**12 * smallest else 2
    ticks = [2**n for n in range(10, 31, every) if smallest / 2 <= 2**n <= largest * 2]
    wide = alt.Scale(type="log", base=2, domain=[float(smallest) / 1.1, float(largest) * 1.1], nice=False)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("working_set:Q", title="working set", scale=wide, axis=_size_axis(ticks))
    y = alt.Y(f"{value}:Q", title=title, scale=scale, axis=alt.Axis(values=decades(low, high), format=",~g"))
    present = [name for name in COLOURS if name in set(rows["where"])]
    colours = alt.Scale(domain=present, range=[COLOURS[name] for name in present])
    colour = alt.Color("where:N", legend=None, scale=colours)
    several = rows.source.nunique() > 1
    shape = alt.Shape(
        "source:N", title=None, legend=alt.Legend(orient="bottom", symbolFillColor=AXIS) if several else None
    )
    tips = [
        alt.Tooltip("where:N", title="loads"),
        alt.Tooltip("size:N", title="working set"),
        alt.Tooltip(f"{value}:Q", format=",.5g", title=f"median, {title}"),
        alt.Tooltip(f"{value}_least:Q", format=",.5g", title="least"),
        alt.Tooltip(f"{value}_most:Q", format=",.5g", title="most"),
        alt.Tooltip("source:N", title="from"),
    ]
    rows = rows.assign(size=rows.working_set.map(bytes_said))
    base, least = data.chart("points", rows), alt.Y(f"{value}_least:Q", scale=scale)
    spread = base.mark_rule(strokeWidth=2).encode(x=x, y=least, y2=f"{value}_most:Q", color=colour)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, detail="line:N")
    larger = alt.when("datum.step == step").then(alt.value(170)).otherwise(alt.value(45))
    points = base.mark_point(filled=True, opacity=1)
    points = points.encode(x=x, y=y, color=colour, shape=shape, size=larger, tooltip=tips)
    at_step = pd.DataFrame(
        [{"working_set": size, "step": n} for size, n in step.items() if smallest <= size <= largest]
    )
    rule = (
        data.chart("steps", at_step)
        .mark_rule(color=AXIS, strokeWidth=1.5)
        .encode(x=x)
        .transform_filter("datum.step == step")
    )
    last = rows.sort_values("working_set").groupby("line", sort=False).tail(1)
    names = named_ends(data, last.assign(said=last.line if several else last["where"]), x, y, (low, high), colour)
    layers = [
        *_marks(data, told, kind, shared, x, largest),
        *([rule] if len(at_step) else []),
        spread,
        line,
        points,
        *names,
    ]
    return data.layered(layers, 360)


def _marks(
    data: Inline, told: pd.DataFrame, kind: str, shared: int | None, x: alt.X, largest: float
) -> list[alt.Chart]:
    """Returns a band with a name at the end of each cache, and a rule at the size of an SM's shared memory."""
    ends = [
        {
            "working_set": edge.fits,
            "to": edge.leaves or largest,
            "said": f"{edge.level.split()[0]} measured: {bytes_said(edge.fits)}",
        }
        for edge in edges(told, kind)
    ]
    layers = []
    if ends:
        base = data.chart("caches", pd.DataFrame(ends))
        layers.append(base.mark_rect(color=AXIS, opacity=0.25).encode(x=x, x2="to:Q"))
        for row, edge in enumerate(reversed(ends)):  # one below the other, since bands may be close
            text = base.mark_text(align="right", baseline="top", dx=-5, dy=4 + ROW * row).encode(
                x=x, y=alt.YValue(0), text="said:N"
            )
            layers.append(text.transform_filter(alt.datum.working_set == edge["working_set"]))
    if shared:
        said = f"shared memory: {bytes_said(shared)}"
        base = data.chart("shared", pd.DataFrame([{"working_set": shared, "said": said}]))
        text = base.mark_text(align="right", baseline="top", dx=-12, dy=4 + 2 * ROW)  # no line is further left
        layers += [
            base.mark_rule(color=AXIS, strokeDash=[4, 4]).encode(x=x),
            text.encode(x=x, y=alt.YValue(0), text="said:N"),
        ]
    return layers
