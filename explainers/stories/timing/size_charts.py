"""The charts of times: lines over a swept size, the roofline and the ladder.

A line breaks at each size without a time. Each chart shows the spread from the 10th to the 90th percentile. A rule
follows the clock, whose steps are the sizes. The parameter `step` counts the steps from 1.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline
from explainers.charts.line_ends import decades, named_ends, ratios, spread_out
from explainers.charts.palette import AXIS
from explainers.models.recorded_times import shown_name, size_axis, sizes
from explainers.stories.timing.sweep_rows import FAR_BEHIND, GROWING, colours, crossings, growth, labels, left_out
from explainers.stories.timing.wording import TimedRow, as_fast, times_said, title_of, why
from explainers.story.glossary import microseconds, short
from kernels import catalog
from kernels.measure.bench_rows import arithmetic_roofs, arithmetic_title, tensor_products
from kernels.measure.datasheets import Peaks

HEIGHT = 400
SIZE_GAP = 0.1  # share of the roofline's axis between two points with the text of one size
Roofs = Mapping[str, Mapping[str, float]]  # source of times -> its measured roofs, from protocol.roofs
Sheets = Mapping[str, Peaks]  # a GPU's name -> its datasheet

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
_COLUMNS = (
    *("line", "label", "kind", "source", "device", "step", "median_us", "p10_us", "p90_us"),
    *("speedup", "speedup_low", "speedup_high", "peak_bytes", "intensity", "tflops", "tflops_low", "tflops_high"),
    *("gb_per_s", "gb_per_s_low", "gb_per_s_high", "said_size", "said_time", "said_beside", "said_rate", "said_from"),
)  # columns of the points next to the size


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
    """One of the charts.

    kind: a chart in words.toml.
    rows: the shown rows, from sweep_rows.compared.
    field: the swept field.
    baseline: a label, or sweep_rows.ITSELF.
    roofs: the measured roofs of each source.
    part: all rows of the sweep. A row without a time becomes a gap.
    name: the baseline in words.
    sheets: the peaks of the datasheets, for the roofline.
    """
    part = rows if part is None else part
    name = name or shown_name(baseline, title_of(part))
    if kind == "roofline":
        return _roofline(rows, field, roofs, part, name, sheets or {})
    if kind == "ladder":
        return _ladder(rows, field, roofs, part, name)
    return _over_sizes(kind, rows, field, roofs, part, name)


# ---- the parts of all charts ----


@dataclass(frozen=True)
class _Sheet:
    """The common parts of a chart's layers.

    data: the tables of the chart.
    points: the drawn rows, with line, step, spread of rates, and the texts of the tooltip. A row without values breaks
        a line at each size without a time.
    part: all rows of the sweep over `field`.
    name: the baseline in words.
    colour: the colour of the lines, independent of hidden lines.
    """

    data: Inline
    points: pd.DataFrame
    part: pd.DataFrame
    field: str
    name: str
    colour: alt.Color


def _new_sheet(rows: pd.DataFrame, field: str, part: pd.DataFrame, name: str) -> _Sheet:
    names = labels(part)
    chosen = colours(names)
    scale = alt.Scale(domain=names, range=[chosen[n] for n in names])
    at, spread = sizes(part, field), dict[str, pd.Series]()
    for rate in ("tflops", "gb_per_s"):  # a slower run has a lower rate
        spread |= {f"{rate}_low": rows[rate] * rows.median_us / rows.p90_us}
        spread |= {f"{rate}_high": rows[rate] * rows.median_us / rows.p10_us}
    several = rows[["device", "source"]].drop_duplicates().shape[0] > 1
    each = list(rows.itertuples())
    rows = rows.assign(
        **spread,
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
    points = points.reindex(columns=[field, *_COLUMNS]).sort_values(["line", field], kind="stable")
    data = Inline()
    data.chart("points", points)
    return _Sheet(data, points, part, field, name, alt.Color("label:N", legend=None, scale=scale))


def _rate(r: TimedRow) -> str:
    if pd.isna(r.tflops):
        return "" if pd.isna(r.gb_per_s) else f"{short(r.gb_per_s)} GB/s"
    return f"{short(r.tflops, 3)} TFLOP/s, {short(r.roof_percent, 3)} % of {r.roof}"


def _lines(
    sheet: _Sheet, x: alt.X, y: alt.Y, low: str | None, high: str | None, clip: bool = True, **more: object
) -> list[alt.Chart]:
    """The lines, their spread and their points. The points of the step are larger. more: encodings of the lines."""
    base = sheet.data.chart("points")
    dash = alt.StrokeDash("kind:N", title=None, legend=None)
    dash = dash.scale(alt.Scale(domain=["kernel", "peer"], range=[[1, 0], [5, 3]]))
    line, spread = base.mark_line(strokeWidth=1.5, opacity=0.7), base.mark_rule(strokeWidth=5, opacity=0.45)
    if clip:
        line = base.mark_line(strokeWidth=2, clip=True)
        spread = base.mark_rule(strokeWidth=5, opacity=0.45, clip=True)
    layers = [line.encode(x=x, y=y, color=sheet.colour, strokeDash=dash, detail="line:N", **more)]
    if low:
        low_end = alt.Y(f"{low}:Q", scale=y["scale"])
        layers.append(spread.encode(x=x, y=low_end, y2=f"{high}:Q", color=sheet.colour))
    size = alt.when("datum.step == step").then(alt.value(170)).otherwise(alt.value(55))
    several = sheet.points.source.nunique() > 1
    legend = alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if several else None
    shapes = alt.Scale(domain=["recorded", "measured"], range=["circle", "diamond"])
    shape = alt.Shape("source:N", title=None, legend=legend, scale=shapes)
    dots = base.mark_point(filled=True, opacity=1, clip=True)
    return [*layers, dots.encode(x=x, y=y, size=size, color=sheet.colour, shape=shape, tooltip=_tips(sheet))]


def _tips(sheet: _Sheet) -> list[alt.Tooltip]:
    titles = {  # six lines
        "line": "kernel", "said_size": sheet.field, "said_time": "median (p10 to p90)",
        "said_beside": f"beside {sheet.name}", "said_rate": "rate", "said_from": "from",
    }  # fmt: skip
    return [alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()]


def _line_ends(
    sheet: _Sheet, x: alt.X, y: alt.Y, bounds: tuple[float, float], grows: Mapping[str, float]
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


# ---- over sizes ----


def _over_sizes(
    kind: str, rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str
) -> alt.LayerChart:
    value, title, low, high = _MEASURES[kind]
    rows = rows[~rows.label.isin(left_out(kind, rows, field))]
    sheet = _new_sheet(rows[rows[value].notna()], field, part, name)
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
    steps = pd.DataFrame([{"step": n, field: v} for n, v in enumerate(sizes(part, field), 1)])
    layers = [sheet.data.step_rule(steps, x), *_lines(sheet, x, y, low, high)]
    if kind == "latency":
        layers += _rings(sheet, rows, x, scale)
    if extra:
        fixed = sheet.data.chart("fixed", pd.DataFrame({"at": extra})).mark_rule(color=AXIS, strokeDash=[4, 4])
        layers.append(fixed.encode(y=alt.Y("at:Q", scale=scale)))
    if kind in ("speedup", "latency"):
        layers += _best(sheet, kind, x, y)
    grows = growth(rows, field, value) if kind == "memory" else {}
    return sheet.data.layered([*layers, *_gaps(sheet, x), *_line_ends(sheet, x, y, bounds, grows)], HEIGHT)


def _best(sheet: _Sheet, kind: str, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The figure of our fastest kernel at each size: its ratio above its point, or its time below."""
    ours = sheet.points[(sheet.points.kind == "kernel") & sheet.points[_MEASURES[kind][0]].notna()]
    if ours.empty or kind == "latency" and sheet.field in GROWING:
        return []
    best = ours.loc[ours.groupby(sheet.field).median_us.idxmin()]
    said = [f"{r.speedup:.2f}×" if kind == "speedup" else microseconds(r.median_us) for r in best.itertuples()]
    base = sheet.data.chart("best", best.assign(said=said)).encode(x=x, y=y, text="said:N")
    dy = -16 if kind == "speedup" else 18
    ground = base.mark_text(style="halo", dy=dy, fontWeight=600)  # of the page's colour
    return [ground, base.mark_text(dy=dy, fontWeight=600)]


def _rings(sheet: _Sheet, rows: pd.DataFrame, x: alt.X, scale: alt.Scale) -> list[alt.Chart]:
    """A ring at each crossing of two lines."""
    field, found = sheet.field, crossings(rows, sheet.field)
    if found.empty:
        return []
    said = [f"{shown_name(r.faster)} overtakes {shown_name(r.slower)}" for r in found.itertuples()]
    at = alt.Tooltip(f"{field}:Q", title=f"at about {field}", format=",.0f")
    ring = sheet.data.chart("crossings", found.assign(said=said)).mark_point(
        filled=False, size=200, strokeWidth=1.5, color=AXIS, opacity=1
    )
    tips = [alt.Tooltip("said:N", title="crossing"), at]
    return [ring.encode(x=x, y=alt.Y("median_us:Q", scale=scale), tooltip=tips)]


def _gaps(sheet: _Sheet, x: alt.X) -> list[alt.Chart]:
    """A cross at the foot of each size without a time. The note below the chart has the reasons."""
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


# ---- ladder ----


def _ladder(rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str) -> alt.LayerChart:
    """The chart with a bar for each kernel at the size of the step, in the catalogue's order, then for each peer.

    The kernel's idea is above its bar. Its rate and the share of its roof follow the bar. Lines across show the roofs.
    The rate is TFLOP/s, or GB/s if memory is the roof of every row.
    """
    copies = bool(len(rows)) and (rows.roof == "copy").all()
    rate, unit = ("gb_per_s", "GB/s, the least that must move") if copies else ("tflops", "TFLOP/s")
    rows = rows[rows[rate].notna()]
    sheet = _new_sheet(rows, field, part, name)
    points = sheet.points[sheet.points[rate].notna()]
    said = [f"{short(r.gb_per_s)} GB/s" if copies else r.said_rate for r in points.itertuples()]
    specs = [catalog.current().kernels.get(label.split(" ")[0]) for label in points.label]  # a label starts with a name
    ideas = [f"{line}: {spec.idea}" if spec else line for line, spec in zip(points.line, specs)]
    bars = points.assign(idea=ideas, said_rate=said)
    lines = []
    for roof in roofs.values():
        known = {} if copies else {t: rate for t, rate in arithmetic_roofs(roof).items() if t in set(rows.roof)}
        lines += [{"rate": tflops, "said": f"{title}: {short(tflops)} TFLOP/s"} for title, tflops in known.items()]
        if copies:
            lines.append({"rate": roof["copy_gb_per_s"], "said": f"copy: {roof['copy_gb_per_s']:,.0f} GB/s"})
    across = pd.DataFrame(lines, columns=["rate", "said"]).sort_values("rate", ignore_index=True)
    across = across.assign(level=[8 + 13 * n for n in range(len(across))])  # pixels from the top to the name
    high = max([*bars[rate], *across.rate, 1e-3]) * 1.02
    near, far = 0.15 * high, 0.75 * high  # near the left edge a name follows its line, and a long bar contains its rate
    scale = alt.Scale(domain=[0, high], nice=False)
    x = alt.X(f"{rate}:Q", title=unit, scale=scale, axis=alt.Axis(grid=False))
    at = alt.X("rate:Q", title=unit, scale=scale)
    position = {label: n for n, label in enumerate(labels(part))}
    order = sorted(dict(zip(bars.line, bars.label)).items(), key=lambda pair: position[pair[1]])
    y = alt.Y("line:N", axis=None, scale=alt.Scale(domain=["", *(line for line, _ in order)]))
    base = sheet.data.chart("bars", bars).transform_filter("datum.step == step")
    bar = base.mark_bar(height={"band": 0.42}, yOffset=8).encode(x=x, y=y, color=sheet.colour, tooltip=_tips(sheet))
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, limit=1000)
    fixed = sheet.data.chart("across", across)
    short_bars, long_bars = (base.transform_filter(f"datum.{rate} {test} {far}") for test in ("<", ">="))
    told = {"x": x, "y": y, "text": "said_rate:N"}
    left, right = (fixed.transform_filter(f"datum.rate {test} {near}") for test in ("<", ">="))
    named = {"x": at, "y": alt.Y("level:Q", axis=None, scale=None), "text": "said:N"}
    layers = [
        fixed.mark_rule(color=AXIS, opacity=0.6, strokeWidth=1.5).encode(x=at),
        bar,
        text.encode(x=alt.XDatum(0), y=y, text="idea:N"),
        short_bars.mark_text(align="left", baseline="middle", dx=6, dy=8).encode(**told),
        long_bars.mark_text(align="right", baseline="middle", dx=-6, dy=8, color="white").encode(**told),
        right.mark_text(color=AXIS, align="right", dx=-4).encode(**named),
        left.mark_text(color=AXIS, align="left", dx=4).encode(**named),
    ]
    return sheet.data.layered(layers, HEIGHT)


# ---- roofline ----


def _roofline(
    rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str, sheets: Sheets
) -> alt.LayerChart:
    """The chart of TFLOP/s against FLOP per byte, a line for each kernel through its sizes.

    Solid: the measured roofs. Dotted: the peaks of the datasheets.
    """
    sheet = _new_sheet(rows[rows.tflops.notna()], field, part, name)
    points, wide = sheet.points, (1.0, 100.0)
    if len(points):
        wide = points.intensity.min() / 1.6, points.intensity.max() * 1.6
    used = {  # 16-bit products for a multiply-add of these rows, 0 for fp32
        tensor_products(name, kind == "peer", dtype)
        for name, kind, dtype in set(zip(rows["name"], rows.kind, rows["dtype"]))
        if kind == "peer" or name in catalog.current().kernels
    }
    corners = _roof_corners(*wide, roofs, sheets, {arithmetic_title(n): n for n in sorted(used)})
    high = max([*corners.tflops, *points.tflops_high.dropna(), 1.0]) * 2
    low = min([*points.tflops_low.dropna(), high / 10]) / 1.3
    scales = [alt.Scale(type="log", domain=list(ends), nice=False) for ends in (wide, (low, high))]
    across, up = (alt.Axis(values=decades(*ends), format=",~g", grid=False) for ends in (wide, (low, high)))
    x = alt.X("intensity:Q", title="FLOP per byte that must move", scale=scales[0], axis=across)
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=scales[1], axis=up)
    measured = sheet.data.chart("roofs", corners[~corners.datasheet.astype(bool)])
    stated = sheet.data.chart("datasheet", corners[corners.datasheet.astype(bool)])
    solid = measured.mark_line(color=AXIS, strokeWidth=2, strokeDash=[1, 0])
    dotted = stated.mark_line(color=AXIS, strokeWidth=1.5, strokeDash=[2, 4])
    names = _roof_names(sheet, corners, x, y, (low, high))
    lines = _lines(sheet, x, y, "tflops_low", "tflops_high", False, order=alt.Order(f"{field}:Q"))
    gap = SIZE_GAP * math.log(wide[1] / wide[0])
    kept: dict[Hashable, tuple[int, float]] = {}  # the lowest point of each size and place: step, log of intensity
    for row in points[points.tflops.notna()].sort_values("tflops", kind="stable").itertuples():
        place = math.log(row.intensity)
        if all(row.step != step or abs(place - other) > gap for step, other in kept.values()):
            kept[row.Index] = row.step, place
    lowest = points.loc[list(kept), ["intensity", "tflops", "said_size", "step"]]
    texts = sheet.data.chart("sizes", lowest).mark_text(dy=16).encode(x=x, y=y, text="said_size:N")
    layers = [line.encode(x=x, y=y, detail="roof:N", tooltip=["said:N"]) for line in (solid, dotted)]
    layers += [*names, *lines, texts.transform_filter("datum.step == step")]
    return sheet.data.layered([*layers, *_line_ends(sheet, x, y, (low, high), {})], HEIGHT)


def _roof_names(
    sheet: _Sheet, corners: pd.DataFrame, x: alt.X, y: alt.Y, bounds: tuple[float, float]
) -> list[alt.Chart]:
    """The names of the roofs at their right ends. The measured copy's name is below its slope."""
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


def _roof_corners(low: float, high: float, roofs: Roofs, sheets: Sheets, used: Mapping[str, int]) -> pd.DataFrame:
    """The corners of the roofs between two intensities: the slope of the memory, then a flat line. The last corner of a
    roof has the name of its part.

    used: title of an arithmetic -> 16-bit products for a multiply-add.
    """
    found: list[tuple[str, str, str, float, float, bool]] = []  # line, flat part, slope, GB/s, TFLOP/s, datasheet
    for source, rates in roofs.items():
        where, copy = f", {source}" if len(roofs) > 1 else "", rates["copy_gb_per_s"]
        for title, tflops in arithmetic_roofs(rates).items():
            if title in used or not used:
                flat, slope = f"{title}: {short(tflops)} TFLOP/s{where}", f"copy: {copy:,.0f} GB/s{where}"
                found.append((f"{title}, {source}", flat, slope, copy, tflops, False))
    for device, peaks in sheets.items():
        where = f", {device}" if len(sheets) > 1 else ""
        slope = f"datasheet, {peaks.memory}: {peaks.tb_per_s:g} TB/s{where}"
        for products in filter(None, used.values()):
            arithmetic, tflops = "fp16 or bf16" if products == 1 else f"fp16 / {products}", peaks.half_tflops / products
            flat = f"datasheet, {arithmetic}: {tflops:,.0f} TFLOP/s{where}"
            found.append((flat, flat, slope, 1000 * peaks.tb_per_s, tflops, True))
    corners = []
    for roof, flat, slope, gb_per_s, tflops, datasheet in found:
        at = sorted({low, min(max(1000 * tflops / gb_per_s, low), high), high})
        rates_at = [min(intensity * gb_per_s / 1000, tflops) for intensity in at]
        for intensity, rate in zip(at, rates_at):
            named = None if intensity < high else flat if rate == tflops else slope
            corner = {"intensity": intensity, "tflops": rate, "roof": roof, "said": flat}
            corners.append(corner | {"named": named, "datasheet": datasheet})
    return pd.DataFrame(corners, columns=["intensity", "tflops", "roof", "said", "named", "datasheet"])
