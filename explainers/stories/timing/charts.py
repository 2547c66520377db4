"""The charts of times: lines over a swept size, the roofline and the ladder.

A line breaks at each size without a time. Each chart shows the spread from the 10th to the 90th percentile. A rule
follows the clock, whose steps are the sizes. The parameter `step` counts the steps from 1.
"""

import math
from collections.abc import Hashable, Mapping

import altair as alt
import pandas as pd

from explainers.charts.layers import Inline, decades, named_ends, ratios, spread_out
from explainers.charts.palette import AXIS
from explainers.models.recorded_times import shown_name, size_axis
from explainers.stories.timing.shown import Shown
from explainers.stories.timing.sweeps import FAR_BEHIND, GROWING, WORDS, crossings, growth, left_out, why
from explainers.story.glossary import microseconds, short
from kernels import catalog
from kernels.measure.bench_rows import arithmetic_roofs, arithmetic_title, tensor_products
from kernels.measure.datasheets import peaks

HEIGHT = 400
SIZE_GAP = 0.1  # share of the roofline's axis between two points with the text of one size
AXES = WORDS.table("axes")
MEASURES = {  # kind -> column, columns of the spread's low and high end
    "latency": ("median_us", "p10_us", "p90_us"),
    "speedup": ("speedup", "speedup_low", "speedup_high"),
    "tflops": ("tflops", "tflops_low", "tflops_high"),
    "bandwidth": ("gb_per_s", "gb_per_s_low", "gb_per_s_high"),
    "memory": ("peak_bytes", None, None),
}
TICKS = {  # kind -> text of a tick
    "latency": "datum.value >= 999999 ? datum.value / 1e6 + ' s' : datum.value >= 999 ? datum.value / 1000 + ' ms' "
    ": datum.value + ' µs'",
    "speedup": "format(datum.value, '~g') + '×'",
    "memory": "format(datum.value, '~s') + 'B'",
}
COLUMNS = (
    *("line", "label", "kind", "source", "device", "step", "median_us", "p10_us", "p90_us"),
    *("speedup", "speedup_low", "speedup_high", "peak_bytes", "intensity", "tflops", "tflops_low", "tflops_high"),
    *("gb_per_s", "gb_per_s_low", "gb_per_s_high", "said_size", "said_time", "said_beside", "said_rate", "said_from"),
)  # columns of the points next to the size


def chart(shown: Shown, kind: str) -> alt.LayerChart:
    """One of the charts in words.toml."""
    of = {"roofline": _roofline, "ladder": _ladder}
    return of[kind](shown) if kind in of else _over_sizes(shown, kind)


class _Sheet:
    """The common parts of a chart's layers.

    data: the tables of the chart.
    points: the drawn points. A row without values breaks a line at each size without a time.
    colour: the colour of the lines, independent of hidden lines.
    tips: the six lines of a point.
    """

    def __init__(self, shown: Shown, rows: pd.DataFrame) -> None:
        """rows: of shown.points."""
        field, gaps = shown.field, []
        for _, own in rows.groupby("line", sort=False):
            timed, same = {float(v) for v in own[field]}, own.iloc[0][["line", "label", "kind", "source", "device"]]
            gaps += [{**same, field: v} for v in shown.sweep.sizes if min(timed) < v < max(timed) and v not in timed]
        points = pd.concat([rows, pd.DataFrame(gaps)], ignore_index=True) if gaps else rows
        self.shown, self.data = shown, Inline()
        self.points = points.reindex(columns=[field, *COLUMNS]).sort_values(["line", field], kind="stable")
        self.data.chart("points", self.points)
        colours = shown.sweep.colours
        scale = alt.Scale(domain=[*colours], range=[*colours.values()])
        self.colour = alt.Color("label:N", legend=None, scale=scale)
        titles = {"line": "kernel", "said_size": field, "said_time": "median (p10 to p90)"}
        titles |= {"said_beside": f"beside {shown.name}", "said_rate": "rate", "said_from": "from"}
        self.tips = [alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()]

    def lines(
        self, x: alt.X, y: alt.Y, low: str | None, high: str | None, clip: bool = True, **more: object
    ) -> list[alt.Chart]:
        """The lines, their spread and their points. The points of the step are larger. more: encodings of the lines."""
        base = self.data.chart("points")
        dash = alt.StrokeDash("kind:N", title=None, legend=None)
        dash = dash.scale(alt.Scale(domain=["kernel", "peer"], range=[[1, 0], [5, 3]]))
        line = base.mark_line(strokeWidth=2, clip=True) if clip else base.mark_line(strokeWidth=1.5, opacity=0.7)
        layers = [line.encode(x=x, y=y, color=self.colour, strokeDash=dash, detail="line:N", **more)]
        if low:
            spread = base.mark_rule(strokeWidth=5, opacity=0.45, clip=clip)
            ends = {"y": alt.Y(f"{low}:Q", scale=y["scale"]), "y2": f"{high}:Q"}
            layers.append(spread.encode(x=x, color=self.colour, **ends))
        size = alt.when("datum.step == step").then(alt.value(170)).otherwise(alt.value(55))
        several = self.points.source.nunique() > 1
        legend = alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if several else None
        shapes = alt.Scale(domain=["recorded", "measured"], range=["circle", "diamond"])
        shape = alt.Shape("source:N", title=None, legend=legend, scale=shapes)
        dots = base.mark_point(filled=True, opacity=1, clip=True)
        return [*layers, dots.encode(x=x, y=y, size=size, color=self.colour, shape=shape, tooltip=self.tips)]

    def line_ends(self, x: alt.X, y: alt.Y, bounds: tuple[float, float], grows: Mapping[str, float]) -> list[alt.Chart]:
        value = str(y["shorthand"]).split(":")[0]
        last = self.points[self.points[value].notna()].sort_values(self.shown.field)
        last = last.groupby("line", sort=False).tail(1)
        last = last.assign(**{value: last[value].clip(*bounds)})  # a line may leave the chart at its foot
        ours = last[last.kind == "kernel"].sort_values("median_us").label.head(1).tolist()
        notes = {label: " (baseline)" for label in last.label[last.line == self.shown.name]}
        notes |= {label: " (our fastest)" for label in ours}
        notes |= {label: f" \u00d7{times:.1f}" for label, times in grows.items()}
        said = [line + notes.get(label, "") for line, label in zip(last.line, last.label)]
        return named_ends(self.data, last.assign(said=said), x, y, bounds, self.colour)


# ---- over sizes ----


def _over_sizes(shown: Shown, kind: str) -> alt.LayerChart:
    (value, low, high), field = MEASURES[kind], shown.field
    rows = shown.points[~shown.points.label.isin(left_out(kind, shown.rows, field))]
    sheet = _Sheet(shown, rows[rows[value].notna()])
    roofs = [entry.roofs for entry in shown.where.values() if entry.roofs]
    across = sorted({roof["copy_gb_per_s"] for roof in roofs}) if kind == "bandwidth" else []
    across += [1.0] if kind == "speedup" else []
    edges = [v for column in (low, value, high) if column for v in sheet.points[column].dropna()] or [1.0]
    edges += across
    bounds = (min(edges) / 1.15, max(edges) * 1.15)
    if kind == "latency" and field not in GROWING:
        bounds = (min(edges) / 1.05, max(edges) * 1.03)
    if kind == "speedup":  # lines that are slower at some sizes leave the chart at its foot
        best = rows[rows.kind == "kernel"].groupby(field).speedup.max().min() if (rows.kind == "kernel").any() else 1.0
        bounds = (max(min(edges), min(FAR_BEHIND, best)) / 1.05, max(edges) * 1.08)
    scale = alt.Scale(type="log", domain=list(bounds), nice=False, clamp=False)
    ticks = ratios(*bounds) if kind == "speedup" else decades(*bounds)
    axis = alt.Axis(values=ticks, labelExpr=TICKS.get(kind, "format(datum.value, '~g')"))
    x = size_axis(shown.sweep.part, field)
    y = alt.Y(f"{value}:Q", title=AXES[kind].format(shown.name), scale=scale, axis=axis)
    steps = pd.DataFrame([{"step": n, field: v} for n, v in enumerate(shown.sweep.sizes, 1)])
    layers = [sheet.data.step_rule(steps, x), *sheet.lines(x, y, low, high)]
    if kind == "latency":
        layers += _rings(sheet, rows, x, scale)
    if across:
        fixed = sheet.data.chart("fixed", pd.DataFrame({"at": across})).mark_rule(color=AXIS, strokeDash=[4, 4])
        layers.append(fixed.encode(y=alt.Y("at:Q", scale=scale)))
    if kind == "speedup" or kind == "latency" and field not in GROWING:
        layers += _best(sheet, kind, x, y)
    grows = growth(rows, field, value) if kind == "memory" else {}
    return sheet.data.layered([*layers, *_gaps(sheet, x), *sheet.line_ends(x, y, bounds, grows)], HEIGHT)


def _best(sheet: _Sheet, kind: str, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The figure of our fastest kernel at each size: its ratio above its point, or its time below."""
    ours = sheet.points[(sheet.points.kind == "kernel") & sheet.points[MEASURES[kind][0]].notna()]
    if ours.empty:
        return []
    best = ours.loc[ours.groupby(sheet.shown.field).median_us.idxmin()]
    said = [f"{r.speedup:.2f}×" if kind == "speedup" else microseconds(r.median_us) for r in best.itertuples()]
    base = sheet.data.chart("best", best.assign(said=said)).encode(x=x, y=y, text="said:N")
    dy = -16 if kind == "speedup" else 18
    ground = base.mark_text(style="halo", dy=dy, fontWeight=600)  # of the page's colour
    return [ground, base.mark_text(dy=dy, fontWeight=600)]


def _rings(sheet: _Sheet, rows: pd.DataFrame, x: alt.X, scale: alt.Scale) -> list[alt.Chart]:
    """A ring at each crossing of two lines."""
    field = sheet.shown.field
    found = crossings(rows, field)
    if found.empty:
        return []
    said = [f"{shown_name(r.faster)} overtakes {shown_name(r.slower)}" for r in found.itertuples()]
    tips = [alt.Tooltip("said:N", title="crossing")]
    tips += [alt.Tooltip(f"{field}:Q", title=f"at about {field}", format=",.0f")]
    ring = sheet.data.chart("crossings", found.assign(said=said))
    ring = ring.mark_point(filled=False, size=200, strokeWidth=1.5, color=AXIS, opacity=1)
    return [ring.encode(x=x, y=alt.Y("median_us:Q", scale=scale), tooltip=tips)]


def _gaps(sheet: _Sheet, x: alt.X) -> list[alt.Chart]:
    """A cross at the foot of each size without a time. The note below the chart has the reasons."""
    part, field = sheet.shown.sweep.part, sheet.shown.field
    missing = part[(part.status != "ok") & part.label.isin(sheet.points.label)]
    if missing.empty:
        return []
    lines = [sheet.shown.sweep.named(label) for label in missing.label]
    rows = missing[[field, "label", "reason"]].assign(line=lines, why=[why(r) for r in missing.itertuples()])
    tips = [alt.Tooltip("line:N", title="no time"), alt.Tooltip(f"{field}:Q", format=",d"), "why:N", "reason:N"]
    cross = sheet.data.chart("gaps", rows)
    cross = cross.mark_point(shape="cross", size=90, filled=True, angle=45, yOffset=-9, opacity=1)
    return [cross.encode(x=x, y=alt.YValue("height"), color=sheet.colour, tooltip=tips)]


# ---- ladder ----


def _ladder(shown: Shown) -> alt.LayerChart:
    """The chart with a bar for each kernel at the size of the step, in the catalogue's order, then for each peer.

    The kernel's idea is above its bar. Its rate and the share of its roof follow the bar. Lines across show the roofs.
    The rate is TFLOP/s, or GB/s if memory is the roof of every row.
    """
    copies = bool(len(shown.rows)) and (shown.rows.roof == "copy").all()
    rate, unit = ("gb_per_s", AXES["bandwidth"]) if copies else ("tflops", AXES["tflops"])
    rows = shown.points[shown.points[rate].notna()]
    sheet = _Sheet(shown, rows)
    points = sheet.points[sheet.points[rate].notna()]
    said = [f"{short(r.gb_per_s)} GB/s" if copies else r.said_rate for r in points.itertuples()]
    specs = [catalog.current().kernels.get(label.split(" ")[0]) for label in points.label]  # a label starts with a name
    ideas = [f"{line}: {spec.idea}" if spec else line for line, spec in zip(points.line, specs)]
    bars, lines = points.assign(idea=ideas, said_rate=said), []
    for roof in (entry.roofs for entry in shown.where.values() if entry.roofs):
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
    order = sorted(dict(zip(bars.line, bars.label)).items(), key=lambda pair: shown.sweep.labels.index(pair[1]))
    y = alt.Y("line:N", axis=None, scale=alt.Scale(domain=["", *(line for line, _ in order)]))
    base, fixed = (
        sheet.data.chart("bars", bars).transform_filter("datum.step == step"),
        sheet.data.chart("across", across),
    )
    short_bars, long_bars = (base.transform_filter(f"datum.{rate} {test} {far}") for test in ("<", ">="))
    left, right = (fixed.transform_filter(f"datum.rate {test} {near}") for test in ("<", ">="))
    told = {"x": x, "y": y, "text": "said_rate:N"}
    named = {"x": at, "y": alt.Y("level:Q", axis=None, scale=None), "text": "said:N"}
    idea = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, limit=1000)
    bar = base.mark_bar(height={"band": 0.42}, yOffset=8)
    layers = [
        fixed.mark_rule(color=AXIS, opacity=0.6, strokeWidth=1.5).encode(x=at),
        bar.encode(x=x, y=y, color=sheet.colour, tooltip=sheet.tips),
        idea.encode(x=alt.XDatum(0), y=y, text="idea:N"),
        short_bars.mark_text(align="left", baseline="middle", dx=6, dy=8).encode(**told),
        long_bars.mark_text(align="right", baseline="middle", dx=-6, dy=8, color="white").encode(**told),
        right.mark_text(color=AXIS, align="right", dx=-4).encode(**named),
        left.mark_text(color=AXIS, align="left", dx=4).encode(**named),
    ]
    return sheet.data.layered(layers, HEIGHT)


# ---- roofline ----


def _roofline(shown: Shown) -> alt.LayerChart:
    """The chart of TFLOP/s against FLOP per byte, a line for each kernel through its sizes.

    Solid: the measured roofs. Dotted: the peaks of the datasheets.
    """
    rows = shown.points[shown.points.tflops.notna()]
    sheet = _Sheet(shown, rows)
    points, wide = sheet.points, (1.0, 100.0)
    if len(points):
        wide = points.intensity.min() / 1.6, points.intensity.max() * 1.6
    used = {  # 16-bit products for a multiply-add of these rows, 0 for fp32
        tensor_products(name, kind == "peer", dtype)
        for name, kind, dtype in set(zip(rows["name"], rows.kind, rows["dtype"]))
        if kind == "peer" or name in catalog.current().kernels
    }
    corners = _roof_corners(shown, *wide, {arithmetic_title(n): n for n in sorted(used)})
    high = max([*corners.tflops, *points.tflops_high.dropna(), 1.0]) * 2
    low = min([*points.tflops_low.dropna(), high / 10]) / 1.3
    scales = [alt.Scale(type="log", domain=list(ends), nice=False) for ends in (wide, (low, high))]
    across, up = (alt.Axis(values=decades(*ends), format=",~g", grid=False) for ends in (wide, (low, high)))
    x = alt.X("intensity:Q", title=AXES["intensity"], scale=scales[0], axis=across)
    y = alt.Y("tflops:Q", title=AXES["tflops"], scale=scales[1], axis=up)
    measured = sheet.data.chart("roofs", corners[~corners.datasheet.astype(bool)])
    stated = sheet.data.chart("datasheet", corners[corners.datasheet.astype(bool)])
    solid = measured.mark_line(color=AXIS, strokeWidth=2, strokeDash=[1, 0])
    dotted = stated.mark_line(color=AXIS, strokeWidth=1.5, strokeDash=[2, 4])
    layers = [line.encode(x=x, y=y, detail="roof:N", tooltip=["said:N"]) for line in (solid, dotted)]
    # the names of the roofs at their right ends. The measured copy's name is below its slope
    ends = corners.sort_values("intensity").groupby("roof").tail(1).drop_duplicates("named").sort_values("tflops")
    ends = ends.assign(beside=spread_out(list(ends.tflops), (low, high)))
    ends = ends.assign(under=~ends.datasheet.astype(bool) & ends.named.str.startswith("copy"))
    names = sheet.data.chart("roof_names", ends)
    for under, at, dy in (("false", "beside", -8), ("true", "tflops", 16)):
        text = names.transform_filter(f"datum.under == {under}").mark_text(color=AXIS, align="right", dy=dy, dx=-4)
        layers.append(text.encode(x=x, y=alt.Y(f"{at}:Q", scale=y["scale"]), text="named:N"))
    layers += sheet.lines(x, y, "tflops_low", "tflops_high", False, order=alt.Order(f"{shown.field}:Q"))
    gap = SIZE_GAP * math.log(wide[1] / wide[0])
    kept: dict[Hashable, tuple[int, float]] = {}  # the lowest point of each size and place: step, log of intensity
    for row in points[points.tflops.notna()].sort_values("tflops", kind="stable").itertuples():
        place = math.log(row.intensity)
        if all(row.step != step or abs(place - other) > gap for step, other in kept.values()):
            kept[row.Index] = row.step, place
    lowest = points.loc[list(kept), ["intensity", "tflops", "said_size", "step"]]
    texts = sheet.data.chart("sizes", lowest).mark_text(dy=16).encode(x=x, y=y, text="said_size:N")
    layers.append(texts.transform_filter("datum.step == step"))
    return sheet.data.layered([*layers, *sheet.line_ends(x, y, (low, high), {})], HEIGHT)


def _roof_corners(shown: Shown, low: float, high: float, used: Mapping[str, int]) -> pd.DataFrame:
    """The corners of the roofs between two intensities: the slope of the memory, then a flat line. The last corner of a
    roof has the name of its part.

    used: title of an arithmetic -> 16-bit products for a multiply-add.
    """
    found: list[tuple[str, str, str, float, float, bool]] = []  # line, flat part, slope, GB/s, TFLOP/s, datasheet
    roofs = {source: entry.roofs for source, entry in shown.where.items() if entry.roofs}
    for source, rates in roofs.items():
        where, copy = f", {source}" if len(roofs) > 1 else "", rates["copy_gb_per_s"]
        for title, tflops in arithmetic_roofs(rates).items():
            if title in used or not used:
                flat, slope = f"{title}: {short(tflops)} TFLOP/s{where}", f"copy: {copy:,.0f} GB/s{where}"
                found.append((f"{title}, {source}", flat, slope, copy, tflops, False))
    sheets = {entry.device: sheet for entry in shown.where.values() if (sheet := peaks(entry.device))}
    for device, sheet in sheets.items():
        where = f", {device}" if len(sheets) > 1 else ""
        slope = f"datasheet, {sheet.memory}: {sheet.tb_per_s:g} TB/s{where}"
        for products in filter(None, used.values()):
            arithmetic, tflops = "fp16 or bf16" if products == 1 else f"fp16 / {products}", sheet.half_tflops / products
            flat = f"datasheet, {arithmetic}: {tflops:,.0f} TFLOP/s{where}"
            found.append((flat, flat, slope, 1000 * sheet.tb_per_s, tflops, True))
    corners = []
    for roof, flat, slope, gb_per_s, tflops, datasheet in found:
        for at in sorted({low, min(max(1000 * tflops / gb_per_s, low), high), high}):
            rate = min(at * gb_per_s / 1000, tflops)
            named = None if at < high else flat if rate == tflops else slope
            corner = {"intensity": at, "tflops": rate, "roof": roof, "said": flat}
            corners.append(corner | {"named": named, "datasheet": datasheet})
    return pd.DataFrame(corners, columns=["intensity", "tflops", "roof", "said", "named", "datasheet"])
