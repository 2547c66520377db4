"""The charts of the online softmax story: m and l after each tile beside float64, and each key's weight beside ordinary
softmax."""

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, SOURCES, WRONG
from explainers.stories.online_softmax.row_story import RowStory
from explainers.story.glossary import MOST_WHOLE

HEIGHT = 220
_GROUP = {"m": "max", "l": "sum"}


def state_chart(story: RowStory, quantity: str) -> alt.LayerChart:
    """m or l after each tile, as logged and in float64. A rule marks the step. NaN and infinity are at the top, with
    their names."""
    group = _GROUP[quantity]
    positions = {f["tile"]: number for number, f in enumerate(story.frames, 1) if f["group"] == group}
    steps = story.tiles.tile.map(positions)
    if list(story.tiles.tile) == [-1]:  # a row with one m and l keeps them from their step on
        steps = pd.Series([next(n for n, f in enumerate(story.frames, 1) if f["group"] == group)])
    table = story.tiles.assign(step=steps, logged=story.tiles[quantity], float64=story.tiles[f"{quantity}_true"])
    table = table.melt(["step", "tile"], ["logged", "float64"], var_name="source", value_name="value")
    odd = table[~np.isfinite(table.value) & (table.source == "logged")]
    table = table[np.isfinite(table.value)]
    last = len(story.frames)
    # the last value continues to the end
    ends = table.sort_values("step").groupby("source").last().reset_index().assign(step=last)
    step = alt.param(name="step", value=1)
    scale = alt.Scale(domain=[1, last], nice=False)
    x = alt.X("step:Q", title="step", scale=scale, axis=alt.Axis(tickMinStep=1, format="d", grid=False))
    low, high = table.value.min(), table.value.max()
    margin = max(0.08 * (high - low), 0.05 * abs(high), 1e-3)  # rounding must not look like a difference
    y = alt.Y(
        "value:Q",
        title={"m": "running max m", "l": "running sum l"}[quantity],
        scale=alt.Scale(domain=[low - margin, high + margin], nice=False),
        axis=alt.Axis(tickCount=5, format="~g") if max(abs(low), abs(high)) >= MOST_WHOLE else alt.Axis(tickCount=5),
    )
    dash = alt.StrokeDash("source:N", title=None, scale=alt.Scale(domain=["logged", "float64"], range=[[1, 0], [5, 4]]))
    line = alt.Chart(pd.concat([table, ends])).mark_line(interpolate="step-after", strokeWidth=2.5)
    points = alt.Chart(table).mark_point(filled=True, size=70, opacity=1)
    tips = ["source:N", "tile:Q", alt.Tooltip("value:Q", format=".7g", title=quantity)]
    now = alt.Chart(pd.DataFrame({"rule": [0]})).mark_rule(color=AXIS, strokeWidth=1.5)
    layers = (
        line.encode(x=x, y=y, color=_source_colour(), strokeDash=dash)
        + points.encode(x=x, y=y, color=_source_colour(), tooltip=tips)
        + now.encode(x=alt.XDatum(alt.ExprRef("step"), type="quantitative"))
    )
    if len(odd):
        named = odd.assign(name=odd.value.map(_name), value=high + margin / 2)[["step", "tile", "name", "value"]]
        mark = alt.Chart(named).mark_text(color=WRONG, fontWeight="bold", baseline="top")
        layers += mark.encode(x=x, y=y, text="name:N", tooltip=["tile:Q", alt.Tooltip("name:N", title=quantity)])
    return layers.add_params(step).properties(height=HEIGHT)


def _name(value: float) -> str:
    return "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"


def ordinary_chart(story: RowStory) -> alt.LayerChart:
    """The weight of each key by ordinary softmax in float64 (bars) and in this kernel (points)."""
    table = story.keys.assign(left=story.keys.key - 0.4, right=story.keys.key + 0.4)
    odd = table[~np.isfinite(table.weight)].assign(name=table.weight.map(_name), weight=table.weight_true.max())
    table = table.replace([np.inf, -np.inf], np.nan)
    scale, ticks = (
        alt.Scale(domain=[int(table.key.min()) - 0.5, int(table.key.max()) + 0.5], nice=False),
        alt.Axis(tickMinStep=1, format="d", grid=False),
    )
    tip = [
        "key:Q",
        alt.Tooltip("weight_true:Q", format=".7g", title="float64"),
        alt.Tooltip("weight:Q", format=".7g", title="this kernel"),
    ]
    bars = (
        alt.Chart(table)
        .mark_rect(color=SOURCES["float64"])
        .encode(
            x=alt.X("left:Q", title="key", scale=scale, axis=ticks),
            x2="right:Q",
            y=alt.Y("weight_true:Q", title="weight", axis=alt.Axis(tickCount=5)),
            y2=alt.datum(0),
            tooltip=tip,
        )
    )
    points = (
        alt.Chart(table)
        .mark_point(filled=True, size=36, color=SOURCES["logged"], opacity=1)
        .encode(x=alt.X("key:Q", title="key", scale=scale, axis=ticks), y="weight:Q", tooltip=tip)
    )
    layers = bars + points
    if len(odd):
        names = alt.Chart(odd).mark_text(color=WRONG, fontWeight="bold", angle=270, align="right")
        layers += names.encode(x=alt.X("key:Q", scale=scale), y="weight:Q", text="name:N", tooltip=["key:Q", "name:N"])
    return layers.properties(height=HEIGHT)


def _source_colour() -> alt.Color:
    names = ["logged", "float64"]
    legend = alt.Legend(orient="top", symbolType="circle", symbolStrokeWidth=0)
    return alt.Color(
        "source:N", title=None, legend=legend, scale=alt.Scale(domain=names, range=[SOURCES[name] for name in names])
    )
