"""The roofline: TFLOP/s against FLOP per byte, under measured roofs and the peaks of datasheets."""

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from explainers.charts.line_ends import decades, spread_out
from explainers.charts.palette import AXIS
from explainers.stories.timing.chart_layers import HEIGHT, Roofs, dash, dots, line_ends, new_sheet
from kernels import catalog
from kernels.measure.bench_rows import arithmetic_roofs, arithmetic_title, tensor_products
from kernels.measure.datasheets import Peaks

Sheets = Mapping[str, Peaks]  # a GPU's name -> its datasheet
SIZE_GAP = 0.1  # share of the axis between two points with the text of one size


def roofline(
    rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str, sheets: Sheets
) -> alt.LayerChart:
    """Returns the chart of TFLOP/s against FLOP per byte, a line for each kernel through its sizes.

    Solid: the measured roofs. Dashed: the peaks of the datasheets.
    """
    sheet = new_sheet(rows[rows.tflops.notna()], field, part, name)
    points = sheet.points
    wide = (points.intensity.min() / 1.6, points.intensity.max() * 1.6) if len(points) else (1.0, 100.0)
    corners = pd.DataFrame(_roof_lines(wide[0], wide[1], roofs, sheets, _arithmetic(rows)), columns=list(_ROOF))
    high = max([*corners.tflops, *points.tflops_high.dropna(), 1.0]) * 2
    low = min([*points.tflops_low.dropna(), high / 10]) / 1.3
    scale, across = (alt.Scale(type="log", domain=list(d), nice=False) for d in ((low, high), wide))
    x = alt.X("intensity:Q", title="FLOP per byte that must move", scale=across, axis=_axis(*wide))
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=scale, axis=_axis(low, high))
    roof = [
        sheet.data.chart(data, corners[corners.datasheet == stated])
        .mark_line(color=AXIS, strokeWidth=1.5 if stated else 2, strokeDash=[2, 4] if stated else [1, 0])
        .encode(x=x, y=y, detail="roof:N", tooltip=["said:N"])
        for data, stated in (("roofs", False), ("datasheet", True))
    ]
    ends = corners.sort_values("intensity").groupby("roof").tail(1).drop_duplicates("named").sort_values("tflops")
    ends = ends.assign(beside=spread_out(list(ends.tflops), (low, high)))
    ends = ends.assign(under=~ends.datasheet & ends.named.str.startswith("copy"))  # clear of the datasheet's slope
    names = sheet.data.chart("roof_names", ends)
    said = [
        names.transform_filter(f"datum.under == {under}")
        .mark_text(color=AXIS, align="right", dy=16 if under == "true" else -8, dx=-4)
        .encode(x=x, y=alt.Y(f"{at}:Q", scale=scale), text="named:N")
        for under, at in (("false", "beside"), ("true", "tflops"))
    ]
    base = sheet.data.chart("points")
    joined = base.mark_line(strokeWidth=1.5, opacity=0.7)
    joined = joined.encode(
        x=x, y=y, color=sheet.colour, strokeDash=dash(), detail="line:N", order=alt.Order(f"{field}:Q")
    )
    spread = base.mark_rule(strokeWidth=5, opacity=0.45)
    spread = spread.encode(x=x, y=alt.Y("tflops_low:Q", scale=scale), y2="tflops_high:Q", color=sheet.colour)
    size = sheet.data.chart("sizes", _that_say_their_size(points, wide)).mark_text(dy=16)
    size = size.encode(x=x, y=y, text="said_size:N").transform_filter("datum.step == step")
    layers = [*roof, *said, joined, spread, dots(sheet).encode(x=x, y=y), size]
    return sheet.data.layered([*layers, *line_ends(sheet, x, y, (low, high), {})], HEIGHT)


def _that_say_their_size(points: pd.DataFrame, wide: tuple[float, float]) -> pd.DataFrame:
    """Returns the lowest point of each size at each place of the x axis. Only this point shows its size."""
    gap = SIZE_GAP * math.log(wide[1] / wide[0])
    kept: list[Any] = []
    for row in points[points.tflops.notna()].sort_values("tflops", kind="stable").itertuples():
        if all(row.step != r.step or abs(math.log(row.intensity / r.intensity)) > gap for r in kept):
            kept.append(row)
    return points.loc[[row.Index for row in kept], ["intensity", "tflops", "said_size", "step"]]


def _axis(low: float, high: float) -> alt.Axis:
    return alt.Axis(values=decades(low, high), format=",~g", grid=False)


_ROOF = ("intensity", "tflops", "roof", "said", "named", "datasheet")


def _arithmetic(rows: pd.DataFrame) -> dict[str, int]:
    """Returns the arithmetic of these rows: title -> 16-bit products for a multiply-add, 0 for fp32."""
    used = {
        tensor_products(name, kind == "peer", dtype)
        for name, kind, dtype in set(zip(rows["name"], rows.kind, rows["dtype"]))
        if kind == "peer" or name in catalog.current().kernels
    }
    return {arithmetic_title(n): n for n in sorted(used)}


def _roof_lines(low: float, high: float, roofs: Roofs, sheets: Sheets, used: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns the corners of each measured roof and of each datasheet between two intensities, by _ROOF.

    used: the arithmetic with a drawn roof, title -> products.
    """
    lines = []
    for source, roof in roofs.items():
        where = f", {source}" if len(roofs) > 1 else ""
        slope = f"copy: {roof['copy_gb_per_s']:,.0f} GB/s{where}"
        for title, tflops in arithmetic_roofs(roof).items():
            if title in used or not used:
                said = f"{title}: {tflops:.4g} TFLOP/s{where}"
                ends = _roof_line(low, high, roof["copy_gb_per_s"], tflops)
                lines += [{**end, "roof": f"{title}, {source}", "said": said, "datasheet": False} for end in ends]
                lines[-1]["named"] = said if ends[-1]["tflops"] == tflops else slope
    for device, stated in sheets.items():
        where = f", {device}" if len(sheets) > 1 else ""
        slope = f"datasheet, {stated.memory}: {stated.tb_per_s:g} TB/s{where}"
        for n in (n for n in used.values() if n):
            arithmetic = "fp16 or bf16" if n == 1 else f"fp16 / {n}"
            said = f"datasheet, {arithmetic}: {stated.half_tflops / n:,.0f} TFLOP/s{where}"
            ends = _roof_line(low, high, 1000 * stated.tb_per_s, stated.half_tflops / n)
            lines += [{**end, "roof": said, "said": said, "datasheet": True} for end in ends]
            lines[-1]["named"] = said if ends[-1]["tflops"] == stated.half_tflops / n else slope
    return lines


def _roof_line(low: float, high: float, gb_per_s: float, tflops: float) -> list[dict[str, float]]:
    """Returns the corners of one roof between two intensities: the slope of the memory, then a flat line."""
    corner = 1000 * tflops / gb_per_s
    return [
        {"intensity": at, "tflops": min(at * gb_per_s / 1000, tflops)}
        for at in sorted({low, min(max(corner, low), high), high})
    ]
