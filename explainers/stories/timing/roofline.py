"""The roofline: TFLOP/s against FLOP per byte, under measured roofs and the peaks of datasheets."""

import math
from collections.abc import Hashable

import altair as alt
import pandas as pd

from explainers.charts.line_ends import decades, spread_out
from explainers.charts.palette import AXIS
from explainers.stories.timing.chart_layers import HEIGHT, Roofs, Sheet, dash, dots, line_ends, new_sheet
from explainers.stories.timing.roof_lines import Sheets, roof_corners
from kernels import catalog
from kernels.measure.bench_rows import arithmetic_title, tensor_products

SIZE_GAP = 0.1  # share of the axis between two points with the text of one size


def roofline(
    rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str, sheets: Sheets
) -> alt.LayerChart:
    """Returns the chart of TFLOP/s against FLOP per byte, a line for each kernel through its sizes.

    Solid: the measured roofs. Dashed: the peaks of the datasheets.
    """
    sheet = new_sheet(rows[rows.tflops.notna()], field, part, name)
    points = sheet.points
    wide = (1.0, 100.0)
    if len(points):
        wide = points.intensity.min() / 1.6, points.intensity.max() * 1.6
    corners = roof_corners(*wide, roofs, sheets, _arithmetic(rows))
    high = max([*corners.tflops, *points.tflops_high.dropna(), 1.0]) * 2
    low = min([*points.tflops_low.dropna(), high / 10]) / 1.3
    across = alt.Scale(type="log", domain=list(wide), nice=False)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("intensity:Q", title="FLOP per byte that must move", scale=across, axis=_axis(*wide))
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=scale, axis=_axis(low, high))
    layers = [
        *_roofs(sheet, corners, x, y),
        *_roof_names(sheet, corners, x, y, (low, high)),
        *_points(sheet, x, y),
        _size_texts(sheet, wide, x, y),
        *line_ends(sheet, x, y, (low, high), {}),
    ]
    return sheet.data.layered(layers, HEIGHT)


def _roofs(sheet: Sheet, corners: pd.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Returns the measured roofs, solid, and the datasheets', dotted."""
    measured = sheet.data.chart("roofs", corners[~corners.datasheet.astype(bool)])
    stated = sheet.data.chart("datasheet", corners[corners.datasheet.astype(bool)])
    lines = (
        measured.mark_line(color=AXIS, strokeWidth=2, strokeDash=[1, 0]),
        stated.mark_line(color=AXIS, strokeWidth=1.5, strokeDash=[2, 4]),
    )
    return [line.encode(x=x, y=y, detail="roof:N", tooltip=["said:N"]) for line in lines]


def _roof_names(
    sheet: Sheet, corners: pd.DataFrame, x: alt.X, y: alt.Y, bounds: tuple[float, float]
) -> list[alt.Chart]:
    """Returns the names of the roofs at their right ends. The measured copy's name is below its slope."""
    ends = corners.sort_values("intensity").groupby("roof").tail(1).drop_duplicates("named").sort_values("tflops")
    ends = ends.assign(beside=spread_out(list(ends.tflops), bounds))
    ends = ends.assign(under=~ends.datasheet.astype(bool) & ends.named.str.startswith("copy"))
    names = sheet.data.chart("roof_names", ends)
    above = names.transform_filter("datum.under == false").mark_text(color=AXIS, align="right", dy=-8, dx=-4)
    below = names.transform_filter("datum.under == true").mark_text(color=AXIS, align="right", dy=16, dx=-4)
    return [
        above.encode(x=x, y=alt.Y("beside:Q", scale=y["scale"]), text="named:N"),
        below.encode(x=x, y=alt.Y("tflops:Q", scale=y["scale"]), text="named:N"),
    ]


def _points(sheet: Sheet, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Returns each kernel's line, its spread and its points."""
    base = sheet.data.chart("points")
    line = base.mark_line(strokeWidth=1.5, opacity=0.7).encode(
        x=x, y=y, color=sheet.colour, strokeDash=dash(), detail="line:N", order=alt.Order(f"{sheet.field}:Q")
    )
    low = alt.Y("tflops_low:Q", scale=y["scale"])
    spread = base.mark_rule(strokeWidth=5, opacity=0.45).encode(x=x, y=low, y2="tflops_high:Q", color=sheet.colour)
    return [line, spread, dots(sheet).encode(x=x, y=y)]


def _size_texts(sheet: Sheet, wide: tuple[float, float], x: alt.X, y: alt.Y) -> alt.Chart:
    """Returns the size of the step below its lowest points."""
    texts = sheet.data.chart("sizes", _that_say_their_size(sheet.points, wide)).mark_text(dy=16)
    return texts.encode(x=x, y=y, text="said_size:N").transform_filter("datum.step == step")


def _that_say_their_size(points: pd.DataFrame, wide: tuple[float, float]) -> pd.DataFrame:
    """Returns the lowest point of each size at each place of the x axis. Only this point shows its size."""
    gap = SIZE_GAP * math.log(wide[1] / wide[0])
    kept: dict[Hashable, tuple[int, float]] = {}  # row -> its step and the logarithm of its intensity
    for row in points[points.tflops.notna()].sort_values("tflops", kind="stable").itertuples():
        place = math.log(row.intensity)
        if all(row.step != step or abs(place - other) > gap for step, other in kept.values()):
            kept[row.Index] = row.step, place
    return points.loc[list(kept), ["intensity", "tflops", "said_size", "step"]]


def _axis(low: float, high: float) -> alt.Axis:
    return alt.Axis(values=decades(low, high), format=",~g", grid=False)


def _arithmetic(rows: pd.DataFrame) -> dict[str, int]:
    """Returns the arithmetic of these rows: title -> 16-bit products for a multiply-add, 0 for fp32."""
    used = {
        tensor_products(name, kind == "peer", dtype)
        for name, kind, dtype in set(zip(rows["name"], rows.kind, rows["dtype"]))
        if kind == "peer" or name in catalog.current().kernels
    }
    return {arithmetic_title(n): n for n in sorted(used)}
