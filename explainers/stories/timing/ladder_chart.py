"""The ladder: a bar for each kernel at one size, with the kernel's idea."""

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS
from explainers.stories.timing.chart_layers import HEIGHT, Roofs, new_sheet, tips
from explainers.stories.timing.sweep_rows import labels, sizes
from explainers.stories.timing.wording import shown_name
from explainers.story.glossary import short
from kernels import catalog
from kernels.measure.bench_rows import arithmetic_roofs


def ladder(rows: pd.DataFrame, field: str, roofs: Roofs, part: pd.DataFrame, name: str) -> alt.LayerChart:
    """Returns the chart with a bar for each kernel at the size of the step, in the catalogue's order.

    The kernel's idea is above its bar. Its TFLOP/s and the share of its roof follow the bar. Lines across show torch
    and the roofs of these kernels.
    """
    rows = rows[rows.tflops.notna()]
    sheet = new_sheet(rows, field, part, name)
    points = sheet.points[sheet.points.tflops.notna()]
    own = points[points.kind == "kernel"]
    bars = own.assign(idea=[_idea(label) for label in own.label])
    across = _across(points[points.kind != "kernel"], rows, roofs, len(sizes(part, field)))
    high = max([*bars.tflops, *across.tflops, 1e-3]) * 1.02
    near, far = 0.15 * high, 0.75 * high  # near the left edge a name follows its line, and a long bar contains its rate
    x = alt.X("tflops:Q", title="TFLOP/s", scale=alt.Scale(domain=[0, high], nice=False), axis=alt.Axis(grid=False))
    position = {label: n for n, label in enumerate(labels(part))}
    order = sorted(dict(zip(bars.line, bars.label)).items(), key=lambda pair: position[pair[1]])
    y = alt.Y("line:N", axis=None, scale=alt.Scale(domain=["", *(line for line, _ in order)]))
    base = sheet.data.chart("bars", bars).transform_filter("datum.step == step")
    bar = base.mark_bar(height={"band": 0.3}, yOffset=8).encode(x=x, y=y, color=sheet.colour, tooltip=tips(sheet))
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
    """Returns the lines across the ladder, for every step.

    Columns: tflops, said, step, kind (torch or roof), level (pixels from the top to the name).
    """
    found = [{"tflops": r.tflops, "said": r.line, "step": r.step, "kind": "torch"} for r in peers.itertuples()]
    for roof in roofs.values():
        for title, tflops in arithmetic_roofs(roof).items():
            if title in set(rows.roof):
                said = {"tflops": tflops, "said": f"{title}: {short(tflops)} TFLOP/s", "kind": "roof"}
                found += [{**said, "step": step} for step in range(1, steps + 1)]
    lines = pd.DataFrame(found, columns=["tflops", "said", "step", "kind"]).sort_values(["step", "tflops"])
    return lines.assign(level=8 + 13 * (lines.groupby("step").cumcount() % 4))


def _idea(label: str) -> str:
    """Returns a kernel's name and idea. The label starts with the name."""
    spec = catalog.current().kernels.get(label.split(" ")[0])
    return f"{shown_name(label)}: {spec.idea}" if spec else shown_name(label)
