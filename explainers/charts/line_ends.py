"""The names of a chart's lines at its right edge, and the ticks of a logarithmic axis."""

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline

LABEL_GAP = 0.05  # share of the axis between the names of two lines


def decades(low: float, high: float) -> list[float]:
    """Returns the ticks of a logarithmic axis: powers of ten, or also 2 and 5 times each if three do not fit, or equal
    steps on a short axis."""
    powers = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    inside = [v for v in powers if low <= v <= high]
    if len(inside) >= 3:
        return inside
    finer = [round(v * m, 12) for v in powers for m in (1, 2, 5) if low <= v * m <= high]
    if len(finer) >= 3:
        return finer
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if power * m >= rough)
    return [round(n * step, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def ratios(low: float, high: float) -> list[float]:
    """Returns the ticks of an axis of ratios around 1."""
    wide = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
    tenths = [round(0.1 * n, 1) for n in range(1, 31)]
    return [v for v in (tenths if high / low < 4 else wide) if low <= v <= high]


def named_ends(
    data: Inline,
    last: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    bounds: tuple[float, float],
    colour: alt.Color,
    kept: Sequence[str] = (),
) -> list[alt.Chart]:
    """Returns the layers with each line's name at the right edge, at the height of its end or next to the next name.

    data: the tables of the chart.
    last: the last point of each line, with the name of the line in the column `said`.
    x, y, colour: the channels of the lines.
    bounds: the ends of the y axis.
    kept: more columns of `last`, for covers.
    The layers have the names ends_0 to ends_2. The page removes them in a narrow chart.
    """
    value, across, own = (str(channel["shorthand"]).split(":")[0] for channel in (y, x, colour))
    last = last.sort_values(value).reset_index(drop=True)
    names = last[[own, across, value, "said", *kept]].assign(beside=spread_out(last[value], bounds))
    data.ends = {"value": value, "bounds": list(bounds)}
    base, edge = data.chart("ends", names), alt.XValue("width")
    at_line, at_name = alt.Y(f"{value}:Q", scale=y["scale"]), alt.Y("beside:Q", scale=y["scale"])
    to = base.mark_rule(opacity=0.6, strokeDash=[1, 2])
    to = to.encode(x=x, x2=alt.X2Value("width"), y=at_line, y2="beside:Q", color=colour)
    dot = base.mark_point(filled=True, size=60, xOffset=7, opacity=1).encode(x=edge, y=at_name, color=colour)
    text = base.mark_text(align="left", baseline="middle", dx=15).encode(x=edge, y=at_name, text="said:N")
    return [layer.properties(name=f"ends_{n}") for n, layer in enumerate((to, dot, text))]


def spread_out(values: Sequence[float], bounds: tuple[float, float]) -> list[float]:
    """Returns the heights of names on a logarithmic axis, in rising order. Each name moves only as far as the next
    needs.

    values: the ends of the lines, rising.
    bounds: the ends of the axis.
    """
    low, high = math.log(bounds[0]), math.log(bounds[1])
    gap = min(LABEL_GAP, 1 / max(1, len(values))) * (high - low)
    found = [math.log(v) for v in values]
    for n in range(1, len(found)):
        found[n] = max(found[n], found[n - 1] + gap)
    for n in reversed(range(len(found))):
        found[n] = min(found[n], (found[n + 1] - gap) if n + 1 < len(found) else high)
    return [math.exp(v) for v in found]
