"""The ladder: a bar for each kernel at one size, with the kernel's idea."""

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS
from explainers.stories.timing.chart_layers import HEIGHT, Roofs, new_sheet, tips
from explainers.stories.timing.sweep_rows import labels
from explainers.story.glossary import short
from kernels import catalog
from kernels.measure.bench_rows import arithmetic_roofs


def ladder(rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str) -> alt.LayerChart:
    """Returns the chart with a bar for each kernel at the size of the step, in the catalogue's order, then for each
    peer.

    The kernel's idea is above its bar. Its rate and the share of its roof follow the bar. Lines across show the roofs.
    The rate is TFLOP/s, or GB/s if memory is the roof of every row.
    """
    copies = bool(len(rows)) and (rows.roof == "copy").all()
    rate, unit = ("gb_per_s", "GB/s, the least that must move") if copies else ("tflops", "TFLOP/s")
    rows = rows[rows[rate].notna()]
    sheet = new_sheet(rows, field, part, name)
    points = sheet.points[sheet.points[rate].notna()]
    said = [f"{short(r.gb_per_s)} GB/s" if copies else r.said_rate for r in points.itertuples()]
    bars = points.assign(idea=[_idea(r.label, r.line) for r in points.itertuples()], said_rate=said)
    across = _roofs(rows, roofs, copies)
    high = max([*bars[rate], *across.rate, 1e-3]) * 1.02
    near, far = 0.15 * high, 0.75 * high  # near the left edge a name follows its line, and a long bar contains its rate
    scale = alt.Scale(domain=[0, high], nice=False)
    x = alt.X(f"{rate}:Q", title=unit, scale=scale, axis=alt.Axis(grid=False))
    at = alt.X("rate:Q", title=unit, scale=scale)
    position = {label: n for n, label in enumerate(labels(part))}
    order = sorted(dict(zip(bars.line, bars.label)).items(), key=lambda pair: position[pair[1]])
    y = alt.Y("line:N", axis=None, scale=alt.Scale(domain=["", *(line for line, _ in order)]))
    base = sheet.data.chart("bars", bars).transform_filter("datum.step == step")
    bar = base.mark_bar(height={"band": 0.42}, yOffset=8).encode(x=x, y=y, color=sheet.colour, tooltip=tips(sheet))
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, limit=1000)
    fixed = sheet.data.chart("across", across)
    within, told = base.transform_filter, {"x": x, "y": y, "text": "said_rate:N"}
    lines, named = fixed.transform_filter, {"x": at, "y": alt.Y("level:Q", axis=None, scale=None), "text": "said:N"}
    layers = [
        fixed.mark_rule(color=AXIS, opacity=0.6, strokeWidth=1.5).encode(x=at),
        bar,
        text.encode(x=alt.XDatum(0), y=y, text="idea:N"),
        within(f"datum.{rate} < {far}").mark_text(align="left", baseline="middle", dx=6, dy=8).encode(**told),
        within(f"datum.{rate} >= {far}")
        .mark_text(align="right", baseline="middle", dx=-6, dy=8, color="white")
        .encode(**told),
        lines(f"datum.rate >= {near}").mark_text(color=AXIS, align="right", dx=-4).encode(**named),
        lines(f"datum.rate < {near}").mark_text(color=AXIS, align="left", dx=4).encode(**named),
    ]
    return sheet.data.layered(layers, HEIGHT)


def _roofs(rows: pd.DataFrame, roofs: Roofs, copies: bool) -> pd.DataFrame:
    """Returns the lines across the ladder. Columns: rate, said, level (pixels from the top to the name)."""
    found = []
    for roof in roofs.values():
        if copies:
            found.append({"rate": roof["copy_gb_per_s"], "said": f"copy: {roof['copy_gb_per_s']:,.0f} GB/s"})
            continue
        for title, tflops in arithmetic_roofs(roof).items():
            if title in set(rows.roof):
                found.append({"rate": tflops, "said": f"{title}: {short(tflops)} TFLOP/s"})
    lines = pd.DataFrame(found, columns=["rate", "said"]).sort_values("rate", ignore_index=True)
    return lines.assign(level=[8 + 13 * n for n in range(len(lines))])


def _idea(label: str, line: str) -> str:
    """Returns a kernel's name and idea, or a peer's name. The label starts with the name."""
    spec = catalog.current().kernels.get(label.split(" ")[0])
    return f"{line}: {spec.idea}" if spec else line
