"""The parts that the charts of times share: the drawn points, axes, dots, rules and names of lines.

A rule follows the clock, whose steps are the sizes. The parameter `step` counts the steps from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline
from explainers.charts.line_ends import named_ends
from explainers.charts.palette import AXIS
from explainers.models.recorded_times import shown_name, sizes
from explainers.stories.timing.sweep_rows import colours, labels
from explainers.stories.timing.timed_row import TimedRow
from explainers.stories.timing.wording import as_fast, times_said
from explainers.story.glossary import microseconds, short

HEIGHT = 400
Roofs = Mapping[str, Mapping[str, float]]  # source of times -> its measured roofs, from protocol.roofs


@dataclass(frozen=True)
class Sheet:
    """The common parts of a chart's layers.

    data: the tables of the chart.
    points: the drawn rows, from `chart_points`.
    part: all rows of the sweep.
    field: the swept field.
    name: the baseline in words.
    colour: the colour of the lines, independent of hidden lines.
    """

    data: Inline
    points: pd.DataFrame
    part: pd.DataFrame
    field: str
    name: str
    colour: alt.Color


def new_sheet(rows: pd.DataFrame, field: str, part: pd.DataFrame, name: str) -> Sheet:
    names = labels(part)
    chosen = colours(names)
    scale = alt.Scale(domain=names, range=[chosen[n] for n in names])
    data, points = Inline(), chart_points(rows, field, part)
    data.chart("points", points)
    return Sheet(data, points, part, field, name, alt.Color("label:N", legend=None, scale=scale))


def chart_points(rows: pd.DataFrame, field: str, part: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows with line, step, spread of rates, and the texts of the tooltip.

    A row without values breaks a line at each size without a time.
    """
    at, rows = sizes(part, field), _with_rate_spread(rows)
    several = rows[["device", "source"]].drop_duplicates().shape[0] > 1
    each = list(rows.itertuples())
    rows = rows.assign(
        line=[shown_name(r.label, r.title) + (f", {r.source}, {r.device}" if several else "") for r in each],
        step=[at.index(float(v)) + 1 for v in rows[field]],
        said_size=[f"{v:,.0f}" for v in rows[field]],
        said_time=[f"{microseconds(r.median_us)} ({microseconds(r.p10_us)} to {microseconds(r.p90_us)})" for r in each],
        said_beside=["" if pd.isna(r.speedup) else as_fast(r.speedup, r.speedup_low, r.speedup_high) for r in each],
        said_rate=[_rate(r) for r in each],
        said_from=[f"{r.source}, {r.device}, {r.date}" for r in each],
    )
    gaps = []
    for _, own in rows.groupby("line", sort=False):
        timed, same = {float(v) for v in own[field]}, own.iloc[0][["line", "label", "kind", "source", "device"]]
        gaps += [{**same, field: v} for v in at if min(timed) < v < max(timed) and v not in timed]
    points = pd.concat([rows, pd.DataFrame(gaps)], ignore_index=True) if gaps else rows
    return points.reindex(columns=[field, *_COLUMNS]).sort_values(["line", field], kind="stable")


_COLUMNS = (
    *("line", "label", "kind", "source", "device", "step", "median_us", "p10_us", "p90_us"),
    *("speedup", "speedup_low", "speedup_high", "peak_bytes", "intensity", "tflops", "tflops_low", "tflops_high"),
    *("gb_per_s", "gb_per_s_low", "gb_per_s_high", "said_size", "said_time", "said_beside", "said_rate", "said_from"),
)  # columns of the points next to the size


def _rate(r: TimedRow) -> str:
    if pd.isna(r.tflops):
        return "" if pd.isna(r.gb_per_s) else f"{short(r.gb_per_s)} GB/s"
    return f"{short(r.tflops, 3)} TFLOP/s, {short(r.roof_percent, 3)} % of {r.roof}"


def _with_rate_spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows with the spread of their rates. A slower run has a lower rate."""
    ends = [("low", "p90_us"), ("high", "p10_us")]
    spread = {
        f"{name}_{end}": rows[name] * rows.median_us / rows[time]
        for name in ("tflops", "gb_per_s")
        for end, time in ends
    }
    return rows.assign(**spread)


def step_rule(sheet: Sheet, x: alt.X) -> alt.Chart:
    """Returns a rule at the size of the step."""
    at = pd.DataFrame([{"step": n, sheet.field: v} for n, v in enumerate(sizes(sheet.part, sheet.field), 1)])
    rule = sheet.data.chart("steps", at).mark_rule(color=AXIS, strokeWidth=1.5)
    return rule.encode(x=x).transform_filter("datum.step == step")


def dots(sheet: Sheet) -> alt.Chart:
    """Returns the points. The points of the step are larger."""
    size = alt.when("datum.step == step").then(alt.value(170)).otherwise(alt.value(55))
    dots = sheet.data.chart("points").mark_point(filled=True, opacity=1, clip=True)
    return dots.encode(size=size, color=sheet.colour, shape=_shape(sheet.points), tooltip=tips(sheet))


def tips(sheet: Sheet) -> list[alt.Tooltip]:
    titles = {  # six lines
        "line": "kernel", "said_size": sheet.field, "said_time": "median (p10 to p90)",
        "said_beside": f"beside {sheet.name}", "said_rate": "rate", "said_from": "from",
    }  # fmt: skip
    return [alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()]


def dash() -> alt.StrokeDash:
    scale = alt.Scale(domain=["kernel", "peer"], range=[[1, 0], [5, 3]])
    return alt.StrokeDash("kind:N", title=None, legend=None, scale=scale)


def _shape(points: pd.DataFrame) -> alt.Shape:
    several = points.source.nunique() > 1
    legend = alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if several else None
    scale = alt.Scale(domain=["recorded", "measured"], range=["circle", "diamond"])
    return alt.Shape("source:N", title=None, legend=legend, scale=scale)


def line_ends(
    sheet: Sheet, x: alt.X, y: alt.Y, bounds: tuple[float, float], grows: Mapping[str, float]
) -> list[alt.Chart]:
    value = str(y["shorthand"]).split(":")[0]
    last = sheet.points[sheet.points[value].notna()].sort_values(sheet.field).groupby("line", sort=False).tail(1)
    last = last.assign(**{value: last[value].clip(*bounds)})  # a line may leave the chart at its foot
    ours = last[last.kind == "kernel"].sort_values("median_us").label.head(1).tolist()
    roles = {"baseline": [r.label for r in last.itertuples() if r.line == sheet.name], "our fastest": ours}
    notes = {label: f" ({role})" for role, labels in roles.items() for label in labels} | {
        label: f" {times_said(times)}" for label, times in grows.items()
    }
    said = [r.line + notes.get(r.label, "") for r in last.itertuples()]
    return named_ends(sheet.data, last.assign(said=said), x, y, bounds, sheet.colour)
