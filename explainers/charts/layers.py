"""Charts with many layers: their tables, the names of lines at the right edge, the ticks of logarithmic axes, and a
chart as a picture of the stage."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS
from explainers.story.stage import View

LABEL_GAP = 0.05  # share of the axis between the names of two lines


class Inline:
    """Tables by name, as the records of a spec. Several layers share one copy, which saves most of the work of a chart
    with ten layers."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, object]]] = {}

    ends: dict[str, object] | None = None  # of the names at the lines' ends: their column, and the bounds of the axis

    def chart(self, name: str, frame: pd.DataFrame | None = None) -> alt.Chart:
        """A Chart of the table with that name. Pass `frame` on the first use. A missing value becomes null."""
        if frame is not None:
            self.rows[name] = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return alt.Chart(alt.NamedData(name=name))

    def step_rule(self, steps: pd.DataFrame, x: alt.X) -> alt.Chart:
        """A rule at the place of the step. steps: a row for each, with its number in the column `step`."""
        rule = self.chart("steps", steps).mark_rule(color=AXIS, strokeWidth=1.5).encode(x=x)
        return rule.transform_filter("datum.step == step")

    def layered(self, layers: list[alt.Chart], height: int) -> alt.LayerChart:
        """The layers with their data and the parameter `step`. The step follows the clock, from 1."""
        first = layers[0].add_params(alt.param(name="step", value=1))  # a chart of layers takes it over
        made = alt.LayerChart(layer=[first, *layers[1:]], height=height)  # at once: Altair copies a chart at every turn
        made["datasets"] = self.rows
        made["usermeta"] = {"ends": self.ends}
        return made


def chart_view(
    id: str, title: str, chart: alt.LayerChart, about: str, note: str, at: Sequence[float], colours: Mapping[str, str]
) -> View:
    """Returns the view of a chart from Inline.layered, with names at the ends of its lines.

    about: the chart in words, for readers who cannot see it.
    note: the text below the chart.
    at: the place of each step on the x axis.
    colours: name of a line -> colour, for the legend.
    """
    spec = chart.to_dict(validate=False)  # the tests validate it
    rows = [row for table in spec["datasets"].values() for row in table]
    longest_name = max((len(row["said"]) for row in rows if "beside" in row), default=0)
    meta = {
        "spec": spec,
        "alt": about,
        "note": note,
        "at": at,
        "room": longest_name,
        "ends": spec["usermeta"]["ends"],
        "legend": [[f"background:{colour}", name] for name, colour in colours.items()],
    }
    return View("chart", id, title, meta)


# ---- axes and the ends of lines ----


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
