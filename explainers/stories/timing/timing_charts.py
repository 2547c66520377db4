"""The charts of times: latency, speed-up, throughput, bandwidth and memory against a swept size, and the roofline.

Lines are named at their ends, and break where there is no time. A rule follows the clock, whose steps are the sizes:
the parameter `step` counts them from 1. The spread is drawn everywhere: from the 10th to the 90th percentile.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline
from explainers.charts.palette import AXIS
from explainers.stories.timing.timing import (
    as_fast,
    colours,
    crossings,
    growth,
    labels,
    microseconds,
    shown_name,
    sizes,
    title_of,
    why,
)
from kernels.catalog import KERNELS
from kernels.measure.datasheets import Peaks
from kernels.measure.peers import TENSOR_PRODUCTS
from kernels.measure.rows import arithmetic_roofs, arithmetic_title, tensor_products

LOG = alt.Scale(type="log", nice=False, padding=12)
HEIGHT = 400
CHARTS = {
    "latency": "Latency",
    "speedup": "Speed-up",
    "tflops": "TFLOP/s",
    "bandwidth": "Bandwidth",
    "memory": "Memory",
    "roofline": "Roofline",
    "ladder": "Ladder",
}
ALT = {
    "latency": "Median time of one run against the size, per kernel, with p10 to p90",
    "speedup": "How much faster or slower each kernel is than the baseline, with its spread",
    "tflops": "TFLOP/s against the size, per kernel",
    "bandwidth": "Bandwidth of the bytes that must move, under the measured copy",
    "memory": "Bytes allocated for one run against the size",
    "roofline": "Each point's TFLOP/s against its FLOP per byte, under the measured roofs",
    "ladder": "Each kernel's TFLOP/s at the size of the step, a bar with its idea, beside torch and the measured roofs",
}
Sheets = Mapping[str, Peaks]  # a GPU's name -> what its datasheet states
Roofs = Mapping[str, Mapping[str, float]]  # source of times -> the roofs measured with them, as protocol.roofs gives
LABEL_GAP = 0.05  # of the axis, between the names at the ends of two lines
SIZE_GAP = 0.1  # of the axis, between two points of one size that both say it


def _made_of_products() -> str:
    """Which kernels and peers make an fp32 product of several 16-bit ones on tensor cores, by how many."""
    every = {name: spec.tensor_products for name, spec in KERNELS.items() if spec.tensor_products > 1}
    every |= {shown_name(name): products for name, products in TENSOR_PRODUCTS.items()}
    return "; ".join(
        f"{' and '.join(name for name, n in every.items() if n == products)} by {products}"
        for products in sorted(set(every.values()))
    )


NOTES = {
    "latency": "Device time of one run, median of the runs; the thick rule goes from p10 to p90. Dashed: torch and "
    "other libraries. A ring: two lines cross. A factor after a name: by how much its time grows when the size "
    "doubles, over the largest sizes.",
    "speedup": "The baseline's median over the kernel's, or the reverse where it is slower; the spread goes "
    "from its p10 over the kernel's p90 to its p90 over the kernel's p10.",
    "tflops": "4 FLOP per score and dim, whatever the kernel does, over the median.",
    "bandwidth": "Bytes that must move at least over the median: a bound, not a count. Each of our launches reads or "
    "writes each of its arrays once, its own lists and partial results too; a peer its inputs and O. The roof is of a "
    "copy, which reads and writes: what reads alone can pass it.",
    "memory": "Allocated on the GPU for one run, inputs and output included, as the allocator counted it. "
    "With as many queries as keys, a kernel that keeps S and P grows as seq_len^2.",
    "roofline": "Solid: roofs that were measured on the same GPU. The slope: a device-to-device copy. The flat lines: "
    "a kernel of fp32 multiply-adds, and torch's fp16 matrix product on tensor cores, if a kernel here uses them. "
    "Dotted: the peaks in the GPU's datasheet, if it is known. Where tensor cores make one fp32 product, "
    f"it costs several fp16 products, and the fp16 roof is divided by as many: {_made_of_products()}.",
    "ladder": "A bar for each kernel at the size of the step, in the order in which one was made from the other, with "
    "its idea. Per cent: of its roof, which was measured on the same GPU. Dashed: torch and other libraries. "
    "Solid: the roofs in range. That of the tensor cores is torch's product of two 8,192 x 8,192 matrices, that of "
    "memory a copy, which reads and writes: neither is a peak, and both can be passed.",
}
_MEASURES = {  # kind -> column, title, column of the spread's low end and of its high end
    "latency": ("median_us", "time of one run", "p10_us", "p90_us"),
    "speedup": ("speedup", "beside {}", "speedup_low", "speedup_high"),
    "tflops": ("tflops", "TFLOP/s", "tflops_low", "tflops_high"),
    "bandwidth": ("gb_per_s", "GB/s, the least that must move", "gb_per_s_low", "gb_per_s_high"),
    "memory": ("peak_bytes", "bytes allocated for one run", None, None),
}
_TEXT_OF = {  # kind -> what its axis says of a tick
    "latency": "datum.value >= 999999 ? datum.value / 1e6 + ' s' : datum.value >= 999 ? datum.value / 1000 + ' ms' "
    ": datum.value + ' us'",
    "speedup": "datum.value < 0.999 ? format(1 / datum.value, '.3~g') + '× slower' : datum.value < 1.001 ? 'as fast' "
    ": format(datum.value, '.3~g') + '× as fast'",
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
    """One of CHARTS as an Altair chart. rows: timing.compared of the shown rows; part: all rows of the sweep, so that
    what has no time is a gap; name: the baseline as it is read; sheets: the datasheets' peaks, for the roofline."""
    part = rows if part is None else part
    name = name or shown_name(baseline, title_of(part))
    if kind == "roofline":
        return roofline(rows, field, roofs, part, name, sheets or {})
    return (
        ladder(rows, field, roofs, part, name)
        if kind == "ladder"
        else _over_sizes(kind, rows, field, roofs, part, name)
    )


@dataclass(frozen=True)
class _Sheet:
    """What the layers of a chart share. data: their tables; points: the rows drawn (`_points`); part: all rows of the
    sweep; field: what is swept; name: the baseline as it is read; colour: of the lines, the same whatever is hidden."""

    data: Inline
    points: pd.DataFrame
    part: pd.DataFrame
    field: str
    name: str
    colour: alt.Color


def _sheet(rows: pd.DataFrame, field: str, part: pd.DataFrame, name: str) -> _Sheet:
    names = labels(part)
    chosen = colours(names)
    scale = alt.Scale(domain=names, range=[chosen[n] for n in names])
    data, points = Inline(), _points(rows, field, part)
    data.chart("points", points)
    return _Sheet(data, points, part, field, name, alt.Color("label:N", legend=None, scale=scale))


def _over_sizes(
    kind: str, rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str
) -> alt.LayerChart:
    value, title, low, high = _MEASURES[kind]
    sheet = _sheet(rows[rows[value].notna()], field, part, name)
    known = [v for column in (low, value, high) if column for v in sheet.points[column].dropna()] or [1.0]
    extra = sorted({r["copy_gb_per_s"] for r in roofs.values()}) if kind == "bandwidth" else []
    extra += [1.0] if kind == "speedup" else []
    bounds = (min([*known, *extra]) / 1.15, max([*known, *extra]) * 1.15)
    scale = alt.Scale(type="log", domain=list(bounds), nice=False)
    axis = alt.Axis(values=decades(*bounds), labelExpr=_TEXT_OF.get(kind, "format(datum.value, '~g')"))
    x, y = size_axis(part, field), alt.Y(f"{value}:Q", title=title.format(name), scale=scale, axis=axis)
    layers = [_rule(sheet, x), *_lines(sheet, x, y, low, high)]
    if kind == "latency":
        layers += _rings(sheet, rows, x, scale)
    if extra:
        rule = sheet.data.chart("fixed", pd.DataFrame({"at": extra})).mark_rule(color=AXIS, strokeDash=[4, 4])
        layers.append(rule.encode(y=alt.Y("at:Q", scale=scale)))
    grows = growth(rows, field, value) if kind in ("latency", "memory") else {}
    return sheet.data.layered([*layers, *_gaps(sheet, x), *_ends(sheet, x, y, bounds, grows)], HEIGHT)


def _points(rows: pd.DataFrame, field: str, part: pd.DataFrame) -> pd.DataFrame:
    """The rows with what a chart needs: line, step, the spread of rates, and the tooltip's texts. Where a line has no
    time between two that it has, a row without values breaks it."""
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
        there, same = {float(v) for v in own[field]}, own.iloc[0][["line", "label", "kind", "source", "device"]]
        gaps += [{**same, field: v} for v in at if min(there) < v < max(there) and v not in there]
    made = pd.concat([rows, pd.DataFrame(gaps)], ignore_index=True) if gaps else rows
    return made.reindex(columns=[field, *_COLUMNS]).sort_values(["line", field], kind="stable")


_COLUMNS = (
    *("line", "label", "kind", "source", "device", "step", "median_us", "p10_us", "p90_us"),
    *("speedup", "speedup_low", "speedup_high", "peak_bytes", "intensity", "tflops", "tflops_low", "tflops_high"),
    *("gb_per_s", "gb_per_s_low", "gb_per_s_high", "said_size", "said_time", "said_beside", "said_rate", "said_from"),
)  # of the points, beside the size


def _rate(r: Any) -> str:
    if pd.isna(r.tflops):
        return "" if pd.isna(r.gb_per_s) else f"{r.gb_per_s:,.4g} GB/s"
    return f"{r.tflops:.3g} TFLOP/s, {r.roof_percent:.3g} % of {r.roof}"


def _with_rate_spread(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the spread of their rates: the slower the run, the lower the rate."""
    ends = [("low", "p90_us"), ("high", "p10_us")]
    spread = {
        f"{name}_{end}": rows[name] * rows.median_us / rows[time]
        for name in ("tflops", "gb_per_s")
        for end, time in ends
    }
    return rows.assign(**spread)


# ---- axes ----


def decades(low: float, high: float) -> list[float]:
    """The ticks of a logarithmic axis: powers of ten; with 2 and 5 of them where there are fewer than three."""
    powers = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    inside = [v for v in powers if low <= v <= high]
    if len(inside) >= 3:
        return inside
    return [round(v * m, 12) for v in powers for m in (1, 2, 5) if low <= v * m <= high]


def size_axis(rows: pd.DataFrame, field: str) -> alt.X:
    """The x axis of a size that doubles, or of a constant that can be 0: a tick at each value that was timed."""
    ticks = sizes(rows, field)
    log = min(ticks, default=1) > 0
    scale = (
        alt.Scale(type="log", base=2, nice=False, padding=14) if log else alt.Scale(zero=False, nice=False, padding=14)
    )
    axis = alt.Axis(values=ticks, format=",d", grid=False)
    return alt.X(f"{field}:Q", title=field, scale=scale, axis=axis)


def equal_line() -> alt.Chart:
    """A rule where the ratio is 1."""
    return alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=AXIS, strokeDash=[4, 4]).encode(y="one:Q")


# ---- layers ----


def _rule(sheet: _Sheet, x: alt.X) -> alt.Chart:
    """A rule at the size of the clock's step."""
    at = pd.DataFrame([{"step": n, sheet.field: v} for n, v in enumerate(sizes(sheet.part, sheet.field), 1)])
    rule = sheet.data.chart("steps", at).mark_rule(color=AXIS, strokeWidth=1.5)
    return rule.encode(x=x).transform_filter("datum.step == step")


def _lines(sheet: _Sheet, x: alt.X, y: alt.Y, low: str | None, high: str | None) -> list[alt.Chart]:
    base = sheet.data.chart("points")
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=sheet.colour, strokeDash=_dash(), detail="line:N")
    spread = []
    if low:
        rule = base.mark_rule(strokeWidth=5, opacity=0.45)
        spread = [rule.encode(x=x, y=alt.Y(f"{low}:Q", scale=y["scale"]), y2=f"{high}:Q", color=sheet.colour)]
    return [line, *spread, _dots(sheet).encode(x=x, y=y)]


def _dots(sheet: _Sheet) -> alt.Chart:
    """The points; those of the clock's step are larger."""
    size = alt.when("datum.step == step").then(alt.value(170)).otherwise(alt.value(55))
    dots = sheet.data.chart("points").mark_point(filled=True, opacity=1)
    return dots.encode(size=size, color=sheet.colour, shape=_shape(sheet.points), tooltip=_tips(sheet))


def _tips(sheet: _Sheet) -> list[alt.Tooltip]:
    titles = {  # six lines
        "line": "kernel", "said_size": sheet.field, "said_time": "median (p10 to p90)",
        "said_beside": f"beside {sheet.name}", "said_rate": "rate", "said_from": "from",
    }  # fmt: skip
    return [alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()]


def _dash() -> alt.StrokeDash:
    scale = alt.Scale(domain=["kernel", "peer"], range=[[1, 0], [5, 3]])
    return alt.StrokeDash("kind:N", title=None, legend=None, scale=scale)


def _shape(points: pd.DataFrame) -> alt.Shape:
    several = points.source.nunique() > 1
    legend = alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if several else None
    scale = alt.Scale(domain=["recorded", "measured"], range=["circle", "diamond"])
    return alt.Shape("source:N", title=None, legend=legend, scale=scale)


def _ends(
    sheet: _Sheet, x: alt.X, y: alt.Y, bounds: tuple[float, float], grows: Mapping[str, float]
) -> list[alt.Chart]:
    value = str(y["shorthand"]).split(":")[0]
    last = sheet.points[sheet.points[value].notna()].sort_values(sheet.field).groupby("line", sort=False).tail(1)
    said = [r.line + (f" \u00d7{grows[r.label]:.1f}" if r.label in grows else "") for r in last.itertuples()]
    return named_ends(sheet.data, last.assign(said=said), x, y, bounds, sheet.colour)


def named_ends(
    data: Inline, last: pd.DataFrame, x: alt.X, y: alt.Y, bounds: tuple[float, float], colour: alt.Color
) -> list[alt.Chart]:
    """Each line's name at the right edge, as high as the line ends or beside the next name. last: the last point of
    each line, with its name as `said`. The layers are called ends_0 to ends_2, and the page takes them away where there
    is no room."""
    value, across, own = (str(channel["shorthand"]).split(":")[0] for channel in (y, x, colour))
    last = last.sort_values(value).reset_index(drop=True)
    made = last[[own, across, value, "said"]].assign(beside=spread_out(last[value], bounds))
    data.ends = {"value": value, "bounds": list(bounds)}
    base, edge = data.chart("ends", made), alt.XValue("width")
    at_line, at_name = alt.Y(f"{value}:Q", scale=y["scale"]), alt.Y("beside:Q", scale=y["scale"])
    to = base.mark_rule(opacity=0.6, strokeDash=[1, 2])
    to = to.encode(x=x, x2=alt.X2Value("width"), y=at_line, y2="beside:Q", color=colour)
    dot = base.mark_point(filled=True, size=60, xOffset=7, opacity=1).encode(x=edge, y=at_name, color=colour)
    text = base.mark_text(align="left", baseline="middle", dx=15).encode(x=edge, y=at_name, text="said:N")
    return [layer.properties(name=f"ends_{n}") for n, layer in enumerate((to, dot, text))]


def spread_out(values: Sequence[float], bounds: tuple[float, float]) -> list[float]:
    """Where the names of lines that end at these values (in rising order) stand on a logarithmic axis: there, or as far
    off as the next ones need."""
    low, high = math.log(bounds[0]), math.log(bounds[1])
    gap = min(LABEL_GAP, 1 / max(1, len(values))) * (high - low)
    found = [math.log(v) for v in values]
    for n in range(1, len(found)):
        found[n] = max(found[n], found[n - 1] + gap)
    for n in reversed(range(len(found))):
        found[n] = min(found[n], (found[n + 1] - gap) if n + 1 < len(found) else high)
    return [math.exp(v) for v in found]


def _rings(sheet: _Sheet, rows: pd.DataFrame, x: alt.X, scale: alt.Scale) -> list[alt.Chart]:
    """A ring where two lines cross."""
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


def _gaps(sheet: _Sheet, x: alt.X) -> list[alt.Chart]:
    """A cross at the foot of each size at which a line that is shown has no time, with the reason."""
    part, field = sheet.part, sheet.field
    missing = part[(part.status != "ok") & part.label.isin(sheet.points.label)]
    if missing.empty:
        return []
    each = [{field: v, "label": r.label, "line": shown_name(r.label, r.title), "why": why(r), "reason": r.reason}
            for r, v in zip(missing.itertuples(), missing[field])]  # fmt: skip
    tips = [alt.Tooltip("line:N", title="no time"), alt.Tooltip(f"{field}:Q", format=",d"), "why:N", "reason:N"]
    base, foot = sheet.data.chart("gaps", pd.DataFrame(each)), alt.YValue("height")
    cross = base.mark_point(shape="cross", size=90, filled=True, angle=45, yOffset=-9, opacity=1)
    text = base.mark_text(align="left", angle=270, dx=18).encode(x=x, y=foot, text="why:N")
    return [cross.encode(x=x, y=foot, color=sheet.colour, tooltip=tips), text]


# ---- the roofline ----


def roofline(
    rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str, sheets: Sheets
) -> alt.LayerChart:
    """Every kernel's line through its sizes: FLOP per byte that must move, and TFLOP/s, under the measured roofs and
    the peaks of the datasheets (dashed)."""
    sheet = _sheet(rows[rows.tflops.notna()], field, part, name)
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
        x=x, y=y, color=sheet.colour, strokeDash=_dash(), detail="line:N", order=alt.Order(f"{field}:Q")
    )
    spread = base.mark_rule(strokeWidth=5, opacity=0.45)
    spread = spread.encode(x=x, y=alt.Y("tflops_low:Q", scale=scale), y2="tflops_high:Q", color=sheet.colour)
    size = sheet.data.chart("sizes", _that_say_their_size(points, wide)).mark_text(dy=16)
    size = size.encode(x=x, y=y, text="said_size:N").transform_filter("datum.step == step")
    layers = [*roof, *said, joined, spread, _dots(sheet).encode(x=x, y=y), size]
    return sheet.data.layered([*layers, *_ends(sheet, x, y, (low, high), {})], HEIGHT)


def _that_say_their_size(points: pd.DataFrame, wide: tuple[float, float]) -> pd.DataFrame:
    """Of the points of each size, the lowest at each place of the roofline's x axis: the size stands once, under it,
    and clear of the roofs."""
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
    """title -> 16-bit products of a multiply-add (0: fp32), of the arithmetic that the rows use."""
    used = {
        tensor_products(name, kind == "peer", dtype)
        for name, kind, dtype in set(zip(rows["name"], rows.kind, rows["dtype"]))
        if kind == "peer" or name in KERNELS
    }
    return {arithmetic_title(n): n for n in sorted(used)}


def _roof_lines(low: float, high: float, roofs: Roofs, sheets: Sheets, used: Mapping[str, int]) -> list[dict[str, Any]]:
    """The corners of each source's roofs and of each datasheet's between two intensities, by _ROOF. used: the
    arithmetic whose roofs are drawn. named: a roof's name at the right edge, where it is flat or the memory's slope."""
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
    """The corners of a roof between two intensities: the memory's slope, then flat."""
    corner = 1000 * tflops / gb_per_s
    return [
        {"intensity": at, "tflops": min(at * gb_per_s / 1000, tflops)}
        for at in sorted({low, min(max(corner, low), high), high})
    ]


def ladder(rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str) -> alt.LayerChart:
    """A bar for each kernel at the clock's size, in the catalogue's order: its idea above it, TFLOP/s and the share of
    its roof behind it. torch's and the roofs that a kernel here has are lines across, named in the first row."""
    rows = rows[rows.tflops.notna()]
    sheet = _sheet(rows, field, part, name)
    points = sheet.points[sheet.points.tflops.notna()]
    own = points[points.kind == "kernel"]
    bars = own.assign(idea=[_idea(label) for label in own.label])
    across = _across(points[points.kind != "kernel"], rows, roofs, len(sizes(part, field)))
    high = max([*bars.tflops, *across.tflops, 1e-3]) * 1.02
    near, far = 0.15 * high, 0.75 * high  # names of lines stand behind them near the left edge; rates on long bars
    x = alt.X("tflops:Q", title="TFLOP/s", scale=alt.Scale(domain=[0, high], nice=False), axis=alt.Axis(grid=False))
    place = {label: n for n, label in enumerate(labels(part))}
    order = sorted(dict(zip(bars.line, bars.label)).items(), key=lambda pair: place[pair[1]])
    y = alt.Y("line:N", axis=None, scale=alt.Scale(domain=["", *(line for line, _ in order)]))
    base = sheet.data.chart("bars", bars).transform_filter("datum.step == step")
    bar = base.mark_bar(height={"band": 0.3}, yOffset=8).encode(x=x, y=y, color=sheet.colour, tooltip=_tips(sheet))
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, limit=1000)
    fixed = sheet.data.chart("across", across).transform_filter("datum.step == step")
    dash = alt.StrokeDash("kind:N", legend=None, scale=alt.Scale(domain=["torch", "roof"], range=[[4, 4], [1, 0]]))
    level = alt.Y("level:Q", axis=None, scale=None)
    rate, said = base.transform_filter, {"x": x, "y": y, "text": "said_rate:N"}
    lines, named = fixed.transform_filter, {"x": x, "y": level, "text": "said:N"}
    layers = [
        fixed.mark_rule(color=AXIS, opacity=0.6, strokeWidth=1.5).encode(x=x, strokeDash=dash),
        bar,
        text.encode(x=alt.XDatum(0), y=y, text="idea:N"),
        rate(f"datum.tflops < {far}").mark_text(align="left", baseline="middle", dx=6, dy=8).encode(**said),
        rate(f"datum.tflops >= {far}")
        .mark_text(align="right", baseline="middle", dx=-6, dy=8, color="white")
        .encode(**said),
        lines(f"datum.tflops >= {near}").mark_text(color=AXIS, align="right", dx=-4).encode(**named),
        lines(f"datum.tflops < {near}").mark_text(color=AXIS, align="left", dx=4).encode(**named),
    ]
    return sheet.data.layered(layers, HEIGHT)


def _across(peers: pd.DataFrame, rows: pd.DataFrame, roofs: Roofs, steps: int) -> pd.DataFrame:
    """The lines across the ladder, of every step: tflops, said, step, kind (torch or roof), level (pixels from the top
    at which the name stands, so that neighbours do not meet)."""
    found = [{"tflops": r.tflops, "said": r.line, "step": r.step, "kind": "torch"} for r in peers.itertuples()]
    for roof in roofs.values():
        for title, tflops in arithmetic_roofs(roof).items():
            if title in set(rows.roof):
                said = {"tflops": tflops, "said": f"{title}: {tflops:.4g} TFLOP/s", "kind": "roof"}
                found += [{**said, "step": step} for step in range(1, steps + 1)]
    made = pd.DataFrame(found, columns=["tflops", "said", "step", "kind"]).sort_values(["step", "tflops"])
    return made.assign(level=8 + 13 * (made.groupby("step").cumcount() % 4))


def _idea(label: str) -> str:
    """A kernel's name and what it is about, from the line's label, which begins with the name."""
    spec = KERNELS.get(label.split(" ")[0])
    return f"{shown_name(label)}: {spec.idea}" if spec else shown_name(label)


def at_steps(kind: str, part: pd.DataFrame, field: str) -> list[float]:
    """Where each step stands on a chart's x axis; none on the roofline's and the ladder's."""
    return [] if kind in ("roofline", "ladder") else sizes(part, field)
