"""The charts of times against a swept size: latency, speed-up, throughput, bandwidth and memory.

A line breaks at each size without a time. Each chart shows the spread from the 10th to the 90th percentile.
"""

import altair as alt
import pandas as pd

from explainers.charts.line_ends import decades, ratios
from explainers.charts.palette import AXIS
from explainers.models.recorded_times import shown_name, size_axis, sizes
from explainers.stories.timing.chart_layers import HEIGHT, Roofs, Sheet, dash, dots, line_ends, new_sheet, step_rule
from explainers.stories.timing.ladder_chart import ladder
from explainers.stories.timing.roof_lines import Sheets
from explainers.stories.timing.roofline import roofline
from explainers.stories.timing.sweep_search import GROWING
from explainers.stories.timing.trends import FAR_BEHIND, crossings, growth, left_out
from explainers.stories.timing.wording import title_of, why
from explainers.story.glossary import microseconds

_MEASURES = {  # kind -> column, title, columns of the spread's low and high end
    "latency": ("median_us", "time of one run", "p10_us", "p90_us"),
    "speedup": ("speedup", "speed next to {}: above 1 is faster", "speedup_low", "speedup_high"),
    "tflops": ("tflops", "TFLOP/s", "tflops_low", "tflops_high"),
    "bandwidth": ("gb_per_s", "GB/s, the least that must move", "gb_per_s_low", "gb_per_s_high"),
    "memory": ("peak_bytes", "bytes allocated for one run", None, None),
}
_TEXT_OF = {  # kind -> text of a tick
    "latency": "datum.value >= 999999 ? datum.value / 1e6 + ' s' : datum.value >= 999 ? datum.value / 1000 + ' ms' "
    ": datum.value + ' us'",
    "speedup": "format(datum.value, '~g') + '×'",
    "memory": "format(datum.value, '~s') + 'B'",
}


def chart(
    kind: str,
    rows: pd.DataFrame,
    field: str,
    baseline: str,
    roofs: Roofs,
    part: pd.DataFrame | None = None,
    name: str = "",
    sheets: Sheets | None = None,
) -> alt.LayerChart:
    """Returns one of CHARTS.

    kind: a key of CHARTS.
    rows: the shown rows, from sweep_rows.compared.
    field: the swept field.
    baseline: a label, or ITSELF.
    roofs: the measured roofs of each source.
    part: all rows of the sweep. A row without a time becomes a gap.
    name: the baseline in words.
    sheets: the peaks of the datasheets, for the roofline.
    """
    part = rows if part is None else part
    name = name or shown_name(baseline, title_of(part))
    if kind == "roofline":
        return roofline(rows, field, roofs, part, name, sheets or {})
    return (
        ladder(rows, field, roofs, part, name)
        if kind == "ladder"
        else _over_sizes(kind, rows, field, roofs, part, name)
    )


def _over_sizes(
    kind: str, rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str
) -> alt.LayerChart:
    value, title, low, high = _MEASURES[kind]
    far = left_out(kind, rows, field)
    rows = rows[~rows.label.isin(far)]
    sheet = new_sheet(rows[rows[value].notna()], field, part, name)
    known = [v for column in (low, value, high) if column for v in sheet.points[column].dropna()] or [1.0]
    extra = sorted({r["copy_gb_per_s"] for r in roofs.values()}) if kind == "bandwidth" else []
    extra += [1.0] if kind == "speedup" else []
    edges = [*known, *extra]
    bounds = (min(edges) / 1.15, max(edges) * 1.15)
    if kind == "latency" and field not in GROWING:
        bounds = (min(edges) / 1.05, max(edges) * 1.03)
    if kind == "speedup":  # lines that are slower at some sizes leave the chart at its foot
        best = rows[rows.kind == "kernel"].groupby(field).speedup.max().min() if (rows.kind == "kernel").any() else 1.0
        bounds = (max(min(edges), min(FAR_BEHIND, best)) / 1.05, max(edges) * 1.08)
    scale = alt.Scale(type="log", domain=list(bounds), nice=False, clamp=False)
    values = ratios(*bounds) if kind == "speedup" else decades(*bounds)
    axis = alt.Axis(values=values, labelExpr=_TEXT_OF.get(kind, "format(datum.value, '~g')"))
    x, y = size_axis(part, field), alt.Y(f"{value}:Q", title=title.format(name), scale=scale, axis=axis)
    layers = [step_rule(sheet, x), *_lines(sheet, x, y, low, high)]
    if kind == "latency":
        layers += _rings(sheet, rows, x, scale)
    if extra:
        rule = sheet.data.chart("fixed", pd.DataFrame({"at": extra})).mark_rule(color=AXIS, strokeDash=[4, 4])
        layers.append(rule.encode(y=alt.Y("at:Q", scale=scale)))
    if kind in ("speedup", "latency"):
        layers += _best(sheet, kind, x, y)
    grows = growth(rows, field, value) if kind == "memory" else {}
    return sheet.data.layered([*layers, *_gaps(sheet, x), *line_ends(sheet, x, y, bounds, grows)], HEIGHT)


def _best(sheet: Sheet, kind: str, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Returns the figure of our fastest kernel at each size: its ratio above its point, or its time below."""
    ours = sheet.points[(sheet.points.kind == "kernel") & sheet.points[_MEASURES[kind][0]].notna()]
    if ours.empty or kind == "latency" and sheet.field in GROWING:
        return []
    best = ours.loc[ours.groupby(sheet.field).median_us.idxmin()]
    said = [f"{r.speedup:.2f}×" if kind == "speedup" else microseconds(r.median_us) for r in best.itertuples()]
    base = sheet.data.chart("best", best.assign(said=said)).encode(x=x, y=y, text="said:N")
    dy = -16 if kind == "speedup" else 18
    ground = base.mark_text(style="halo", dy=dy, fontWeight=600)  # of the page's colour
    return [ground, base.mark_text(dy=dy, fontWeight=600)]


def _lines(sheet: Sheet, x: alt.X, y: alt.Y, low: str | None, high: str | None) -> list[alt.Chart]:
    base = sheet.data.chart("points")
    line = base.mark_line(strokeWidth=2, clip=True).encode(
        x=x, y=y, color=sheet.colour, strokeDash=dash(), detail="line:N"
    )
    spread = []
    if low:
        rule = base.mark_rule(strokeWidth=5, opacity=0.45, clip=True)
        spread = [rule.encode(x=x, y=alt.Y(f"{low}:Q", scale=y["scale"]), y2=f"{high}:Q", color=sheet.colour)]
    return [line, *spread, dots(sheet).encode(x=x, y=y)]


def _rings(sheet: Sheet, rows: pd.DataFrame, x: alt.X, scale: alt.Scale) -> list[alt.Chart]:
    """Returns a ring at each crossing of two lines."""
    field = sheet.field
    found = crossings(rows, field)
    if found.empty:
        return []
    said = [f"{shown_name(r.faster)} overtakes {shown_name(r.slower)}" for r in found.itertuples()]
    tips = [
        alt.Tooltip("said:N", title="crossing"),
        alt.Tooltip(f"{field}:Q", title=f"at about {field}", format=",.0f"),
    ]
    ring = sheet.data.chart("crossings", found.assign(said=said)).mark_point(
        filled=False, size=200, strokeWidth=1.5, color=AXIS, opacity=1
    )
    return [ring.encode(x=x, y=alt.Y("median_us:Q", scale=scale), tooltip=tips)]


def _gaps(sheet: Sheet, x: alt.X) -> list[alt.Chart]:
    """Returns a cross at the foot of each size without a time. The note below the chart has the reasons."""
    part, field = sheet.part, sheet.field
    missing = part[(part.status != "ok") & part.label.isin(sheet.points.label)]
    if missing.empty:
        return []
    each = [{field: v, "label": r.label, "line": shown_name(r.label, r.title), "why": why(r), "reason": r.reason}
            for r, v in zip(missing.itertuples(), missing[field])]  # fmt: skip
    tips = [alt.Tooltip("line:N", title="no time"), alt.Tooltip(f"{field}:Q", format=",d"), "why:N", "reason:N"]
    base, foot = sheet.data.chart("gaps", pd.DataFrame(each)), alt.YValue("height")
    cross = base.mark_point(shape="cross", size=90, filled=True, angle=45, yOffset=-9, opacity=1)
    return [cross.encode(x=x, y=foot, color=sheet.colour, tooltip=tips)]


def at_steps(kind: str, part: pd.DataFrame, field: str) -> list[float]:
    """Returns the place of each step on a chart's x axis. Roofline and ladder have none."""
    return [] if kind in ("roofline", "ladder") else sizes(part, field)
