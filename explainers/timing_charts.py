"""The charts of times: latency, speed-up, throughput, bandwidth and memory against a swept size, and the roofline.

The spread is drawn everywhere: from the 10th to the 90th percentile of the runs.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from explainers.palette import AXIS
from explainers.timing import colours, labels
from kernels.catalog import KERNELS
from kernels.timing.peers import TENSOR_PRODUCTS
from kernels.timing.rows import arithmetic_roofs

LOG = alt.Scale(type="log", nice=False, padding=12)
HEIGHT = 400
CHARTS = {
    "latency": "Latency",
    "speedup": "Speed-up",
    "tflops": "TFLOP/s",
    "bandwidth": "Bandwidth",
    "memory": "Memory",
    "roofline": "Roofline",
}
ALT = {
    "latency": "Median time of one run against the size, per kernel, with p10 to p90",
    "speedup": "Speed-up against the baseline, per kernel, with its spread",
    "tflops": "TFLOP/s against the size, per kernel",
    "bandwidth": "Bandwidth of the bytes that must move, under the measured copy",
    "memory": "Bytes allocated for one run against the size",
    "roofline": "Each point's TFLOP/s against its FLOP per byte, under the measured roofs",
}
Roofs = Mapping[str, Mapping[str, float]]  # device -> its roofs, as protocol.roofs gives them


def _made_of_products() -> str:
    """Which kernels and peers make an fp32 product of several 16-bit ones, in words."""
    ours = {name: spec.tensor_products for name, spec in KERNELS.items() if spec.tensor_products > 1}
    said = [f"{name} takes {n}" for name, n in ours.items()]
    return ", ".join([*said, *(f"{name} as much time as {n}" for name, n in TENSOR_PRODUCTS.items())])


NOTES = {
    "latency": "Device time of one run, median of the runs; the thick rule goes from p10 to p90. Dashed: torch.",
    "speedup": "The baseline's median over the kernel's; the spread goes from its p10 over the kernel's p90 "
    "to its p90 over the kernel's p10.",
    "tflops": "4 FLOP per score and dim, whatever the kernel does, over the median.",
    "bandwidth": "Bytes that must move at least (each launch reads or writes each of its arrays once) over the median: "
    "a bound, not a count.",
    "memory": "Allocated on the GPU for one run, inputs and output included, as the allocator counted it. "
    "A kernel that keeps S and P grows as seq_len^2.",
    "roofline": "The roofs were measured on the same GPU: a device-to-device copy, a kernel of multiply-adds, "
    "torch's fp16 matrix product. "
    f"A part of the last bounds fp32 products that are made of several 16-bit ones: {_made_of_products()}.",
}
_MEASURES = {  # kind -> column, title, column of the spread's low end and of its high end
    "latency": ("median_us", "microseconds", "p10_us", "p90_us"),
    "speedup": ("speedup", "times as fast as {}", "speedup_low", "speedup_high"),
    "tflops": ("tflops", "TFLOP/s", "tflops_low", "tflops_high"),
    "bandwidth": ("gb_per_s", "GB/s, the least that must move", "gb_per_s_low", "gb_per_s_high"),
    "memory": ("peak_bytes", "bytes allocated for one run", None, None),
}


def chart(kind: str, compared: pd.DataFrame, field: str, baseline: str, roofs: Roofs) -> alt.LayerChart:
    """One of CHARTS as an Altair chart. compared: timing.compare.speedups of the shown rows."""
    if kind == "roofline":
        return roofline(compared, roofs)
    value, title, low, high = _MEASURES[kind]
    rows = _with_rate_spread(compared[compared[value].notna()])
    y = alt.Y(
        f"{value}:Q", title=title.format(baseline), scale=LOG, axis=alt.Axis(format="~g" if kind == "speedup" else "~s")
    )
    made = _lines(rows, field, y, f"{low}:Q" if low else None, f"{high}:Q" if high else None)
    if kind == "speedup":
        made += equal_line()
    if kind == "bandwidth" and len(rows):
        copies = pd.DataFrame([{"gb": r["copy_gb_per_s"]} for r in roofs.values()]).drop_duplicates()
        tip = [alt.Tooltip("gb:Q", title="measured copy, GB/s")]
        made += alt.Chart(copies).mark_rule(color=AXIS, strokeDash=[4, 4]).encode(y="gb:Q", tooltip=tip)
    return made.properties(height=HEIGHT)


def _with_rate_spread(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the spread of their rates: the slower the run, the lower the rate."""
    ends = [("low", "p90_us"), ("high", "p10_us")]
    spread = {
        f"{name}_{end}": rows[name] * rows.median_us / rows[time]
        for name in ("tflops", "gb_per_s")
        for end, time in ends
    }
    return rows.assign(**spread)


def size_axis(rows: pd.DataFrame, field: str) -> alt.X:
    """The x axis of a size that doubles, a tick at each that was timed."""
    scale = alt.Scale(type="log", base=2, nice=False, padding=14)
    ticks = alt.Axis(values=sorted(rows[field].unique()), format="d", grid=False)
    return alt.X(f"{field}:Q", title=field, scale=scale, axis=ticks)


def equal_line() -> alt.Chart:
    """A rule where the ratio is 1."""
    return alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=AXIS, strokeDash=[4, 4]).encode(y="one:Q")


def _lines(rows: pd.DataFrame, field: str, y: alt.Y, low: str | None, high: str | None) -> alt.LayerChart:
    x, base = size_axis(rows, field), alt.Chart(rows)
    colour = _colour(labels(rows))
    line = base.mark_line(strokeWidth=2)
    layers = [line.encode(x=x, y=y, color=colour, strokeDash=_dash(), detail=["source:N", "device:N"])]
    if low:
        spread = base.mark_rule(strokeWidth=5, opacity=0.45)
        layers.append(spread.encode(x=x, y=alt.Y(low, scale=LOG), y2=high, color=colour))
    points = base.mark_point(filled=True, size=55, opacity=1)
    layers.append(points.encode(x=x, y=y, color=colour, shape=_shape(rows), tooltip=_tips()))
    return alt.LayerChart(layer=layers)


def _colour(names: list[str]) -> alt.Color:
    chosen = colours(names)
    legend = alt.Legend(orient="top", columns=3, labelLimit=260, symbolOpacity=1)
    scale = alt.Scale(domain=names, range=[chosen[n] for n in names])
    return alt.Color("label:N", title=None, legend=legend, scale=scale)


def _dash() -> alt.StrokeDash:
    scale = alt.Scale(domain=["kernel", "peer"], range=[[1, 0], [5, 3]])
    return alt.StrokeDash("kind:N", title=None, legend=None, scale=scale)


def _shape(rows: pd.DataFrame) -> alt.Shape:
    several = rows.source.nunique() > 1
    legend = alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if several else None
    scale = alt.Scale(domain=["recorded", "measured"], range=["circle", "diamond"])
    return alt.Shape("source:N", title=None, legend=legend, scale=scale)


def _tips() -> list[Any]:
    plain = ["label:N", "seq_len:Q", "batch:Q", "num_heads:Q", "head_dim:Q", "causal:N", "dtype:N", "settings:N"]
    formats = {
        "median_us": ("median us", ",.5g"),
        "p10_us": ("p10 us", ",.5g"),
        "p90_us": ("p90 us", ",.5g"),
        "runs": ("runs", "d"),
        "speedup": ("speed-up", ".4g"),
        "speedup_low": ("speed-up, low", ".4g"),
        "speedup_high": ("speed-up, high", ".4g"),
        "tflops": ("TFLOP/s", ".4g"),
        "tokens_per_s": ("tokens/s", ",.0f"),
        "bytes": ("bytes, at least", ","),
        "gb_per_s": ("GB/s", ",.4g"),
        "intensity": ("FLOP per byte", ".4g"),
        "roof_percent": ("% of the roof", ".3g"),
        "peak_bytes": ("bytes allocated", ","),
        "max_abs_error": ("largest error", ".3g"),
    }
    numbers = [alt.Tooltip(f"{name}:Q", title=title, format=form) for name, (title, form) in formats.items()]
    state = [alt.Tooltip("clock_after:Q", title="clock MHz"), alt.Tooltip("temperature_after:Q", title="temperature C")]
    return [*plain, alt.Tooltip("l2:N", title="L2"), *numbers, *state, "source:N", "device:N", "date:N"]


def roofline(rows: pd.DataFrame, roofs: Roofs) -> alt.LayerChart:
    """Every kernel and problem as a point: FLOP per byte that must move, and TFLOP/s, under the measured roofs."""
    rows = _with_rate_spread(rows[rows.tflops.notna()])
    lines = pd.DataFrame(_roof_lines(rows.intensity.min() / 2, rows.intensity.max() * 2, roofs))
    scale, axis = alt.Scale(type="log", nice=False), alt.Axis(format="~g", grid=False)
    x = alt.X("intensity:Q", title="FLOP per byte that must move", scale=scale, axis=axis)
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=LOG, axis=alt.Axis(format="~g"))
    roof = alt.Chart(lines).mark_line(color=AXIS, strokeWidth=2).encode(x=x, y=y, detail="roof:N", tooltip=["said:N"])
    ends = lines.sort_values("intensity").groupby("roof").tail(1)
    said = alt.Chart(ends).mark_text(color=AXIS, align="right", dy=-8, fontSize=11).encode(x=x, y=y, text="said:N")
    names = labels(rows)
    spread = alt.Chart(rows).mark_rule(strokeWidth=5, opacity=0.45)
    spread = spread.encode(x=x, y=alt.Y("tflops_low:Q", scale=LOG), y2="tflops_high:Q", color=_colour(names))
    points = alt.Chart(rows).mark_point(filled=True, size=50, opacity=0.9)
    points = points.encode(x=x, y=y, color=_colour(names), shape=_shape(rows), tooltip=_tips())
    return alt.LayerChart(layer=[roof, said, spread, points]).properties(height=HEIGHT)


def _roof_lines(low: float, high: float, roofs: Roofs) -> list[dict[str, Any]]:
    """The corners of each device's roofs between two intensities: intensity, tflops, roof, said."""
    lines = []
    for device, roof in roofs.items():
        for title, tflops in arithmetic_roofs(roof).items():
            corner = 1000 * tflops / roof["copy_gb_per_s"]
            for at in sorted({low, min(max(corner, low), high), high}):
                height = min(at * roof["copy_gb_per_s"] / 1000, tflops)
                said = f"{title} {tflops:.4g} TFLOP/s"
                lines.append({"intensity": at, "tflops": height, "roof": f"{title}, {device}", "said": said})
    return lines
