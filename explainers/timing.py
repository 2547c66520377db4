"""Times: latency, throughput, bandwidth, speed-up, memory and the roofline of a table of kernels/bench.py, their sentences, and a report.

Rows carry `source` ("recorded" or "measured"), `device` and `date`, so that a point says where it comes from. The spread is drawn everywhere:
from the 10th to the 90th percentile of the runs.
"""

import altair as alt
import numpy as np
import pandas as pd

from explainers.glossary import count
from explainers.palette import AXIS, OKABE_ITO
from kernels import bench
from kernels.catalog import KERNELS
from kernels.peers import PEERS

FIXED_COLOURS = {"01_naive": "grey", "02_tiled": "orange", "03_flash": "green", "04_flash_registers": "vermillion", "paged_v1": "orange",
                 "paged_v2": "vermillion", "sdpa_math": "purple", "sdpa_efficient": "blue", "sdpa_flash": "sky", "sdpa_cudnn": "yellow"}
LOG = alt.Scale(type="log", nice=False, padding=12)
CHARTS = {"latency": "Latency", "speedup": "Speed-up", "tflops": "TFLOP/s", "bandwidth": "Bandwidth", "memory": "Memory", "roofline": "Roofline"}
HEIGHT = 400


def prepared(table, where, source):
    """A bench table with its device, date and source, as the charts take it."""
    return table.assign(device=where["device"], date=where["date"], source=source)


def sweeps(table):
    """The sweeps that a table holds: {key: (field, {other size: value})}, the longest first. A key is a text that stays the same."""
    sized = table[table.seq_len.notna() & (table.status == "ok")]
    found = {}
    for field in ("seq_len", "batch", "heads"):
        others = [name for name in bench.SIZES if name not in (field, *(["kv_heads"] if field == "heads" else []))]
        for values, part in sized.groupby(others, dropna=False):
            if part[field].nunique() > 1:
                fixed = dict(zip(others, values))
                found[f"{field} " + " ".join(f"{name}={_plain(value)}" for name, value in fixed.items())] = (field, fixed)
    length = {key: sized[_fixed(sized, fixed)][field].nunique() for key, (field, fixed) in found.items()}
    return dict(sorted(found.items(), key=lambda item: -length[item[0]]))


def _fixed(table, fixed):
    keep = pd.Series(True, index=table.index)
    for name, value in fixed.items():
        keep &= table[name] == value
    return keep


def sweep_title(table, field, fixed):
    """A sweep in words: what runs, from where to where, and what stays."""
    values = table[_fixed(table, fixed) & (table.status == "ok")][field]
    kind = "Decoding, paged KV cache" if fixed["dtype"] == "float16" or fixed.get("kv_heads", fixed.get("heads")) != fixed.get("heads") else "Attention"
    stays = [f"{name} {_plain(fixed[name])}" for name in ("seq_len", "batch", "heads", "kv_heads", "head_dim") if name in fixed
             and not (name == "kv_heads" and fixed.get("heads") == fixed[name])]
    mask = ", causal" if fixed["causal"] else ""
    if field == "heads":
        mask = f" (width {_plain(values.min() * fixed['head_dim'])} to {_plain(values.max() * fixed['head_dim'])}){mask}"
    return f"{kind}: {field} {_plain(values.min())} to {_plain(values.max())} at {', '.join(stays)}{mask}, {fixed['dtype']}"


def slice_of(table, field, fixed):
    """The rows of one sweep with their labels, sorted by the field; those without a time too."""
    part = table[_fixed(table, fixed) & table.seq_len.notna()]
    return bench.labelled(part).sort_values([field, "name"], kind="stable").reset_index(drop=True)


def labels(part):
    """The labels that have a time, kernels first, in the catalogue's order."""
    order = [*KERNELS, *PEERS]
    timed = part[part.status == "ok"].drop_duplicates("label")
    return sorted(timed.label, key=lambda label: (order.index(label.split()[0]), label))


def colours(names):
    """label -> colour: a kernel's own; further settings of it take what is left."""
    spare = iter(dict.fromkeys([*(c for c in OKABE_ITO if c not in {FIXED_COLOURS.get(n.split()[0]) for n in names}), *OKABE_ITO]))
    found = {}
    for name in names:
        own = FIXED_COLOURS.get(name.split()[0], "grey")
        found[name] = OKABE_ITO[own if OKABE_ITO[own] not in found.values() else next(spare, "grey")]
    return found


# ---- sentences ----


def sentence(compared, field, baseline):
    """The largest place of the sweep at which the fastest kernel of ours and the baseline were timed, with their numbers."""
    ours = compared[(compared.kind == "kernel") & compared.speedup.notna()]
    ours = ours[ours.label != baseline] if (ours.label != baseline).any() else ours
    if ours.empty:
        return f"{baseline} has a time here, and no other kernel has one at the same place."
    best = ours[ours[field] == ours[field].max()].sort_values(["source", "median_us"]).iloc[0]  # measured before recorded
    return (f"At {field} {_plain(best[field])}, {best.label} takes {microseconds(best.median_us)} ({microseconds(best.p10_us)} to "
            f"{microseconds(best.p90_us)}): {best.speedup:.3g} times ({best.speedup_low:.3g} to {best.speedup_high:.3g}) as fast as {baseline} "
            f"({best.source}, {best.device}).")


def exponent_sentence(part, field):
    """How each label's time grows with the field, where there are enough sizes."""
    found = bench.exponents(part, field)
    if not found:
        return ""
    said = ", ".join(f"{label} {field}^{slope:.2f}" for label, (slope, _) in sorted(found.items(), key=lambda item: -item[1][0]))
    used = next(iter(found.values()))[1]
    return f"Time grows as {said}: the slope over the {used} largest sizes on logarithmic axes."


def microseconds(value):
    """A time of microseconds with its unit: 84.7 us, 13.9 ms."""
    return f"{value / 1000:.4g} ms" if value >= 1000 else f"{value:.4g} us"


def _plain(value):
    return str(value) if isinstance(value, (str, bool, np.bool_)) else f"{float(value):g}"


def without_time(part):
    """What has no time, and why: label, where, status, reason, one row per reason."""
    rows = part[part.status != "ok"]
    if rows.empty:
        return pd.DataFrame(columns=["name", "status", "places", "reason"])
    field = next((name for name in ("seq_len", "batch", "heads") if rows[name].nunique() > 1), "seq_len")
    grouped = rows.assign(place=rows[field].map(_plain)).groupby(["name", "status", "reason"], sort=False).place
    return grouped.agg(lambda places: f"{field} {', '.join(dict.fromkeys(places))}").rename("places").reset_index()[["name", "status", "places", "reason"]]


def figures_table(compared, field):
    """Every figure of the shown points as a table of texts."""
    rows = []
    for r in compared.sort_values([field, "median_us"]).itertuples():
        said = {"speed-up": (r.speedup, "{:.3g} ({:.3g} to {:.3g})", r.speedup_low, r.speedup_high), "TFLOP/s": (r.tflops, "{:.4g}"),
                "tokens/s": (r.tokens_per_s, "{:,.0f}"), "GB/s": (r.gb_per_s, "{:,.4g}"), "of the roof": (r.roof_percent, "{:.3g} % of {}", r.roof)}
        rows.append({field: _plain(getattr(r, field)), "kernel": r.label, "median": microseconds(r.median_us),
                     "p10 to p90": f"{microseconds(r.p10_us)} to {microseconds(r.p90_us)}",
                     **{name: "" if pd.isna(value) else form.format(value, *more) for name, (value, form, *more) in said.items()},
                     "memory": "" if pd.isna(r.peak_bytes) else megabytes(r.peak_bytes), "from": f"{r.source}, {r.device}, {r.date}"})
    return pd.DataFrame(rows)


def megabytes(value):
    return f"{value / 2**30:.3g} GiB" if value >= 2**30 else f"{value / 2**20:.3g} MiB"


# ---- charts ----


def chart(kind, compared, field, baseline, roofs):
    """One of CHARTS as an Altair chart. compared: bench.speedups of the shown rows; roofs: device -> the roofs of bench."""
    if kind == "roofline":
        return roofline(compared, roofs)
    value, title, low, high = {
        "latency": ("median_us", "microseconds", "p10_us", "p90_us"),
        "speedup": ("speedup", f"times as fast as {baseline}", "speedup_low", "speedup_high"),
        "tflops": ("tflops", "TFLOP/s", "tflops_low", "tflops_high"),
        "bandwidth": ("gb_per_s", "GB/s, the least that must move", "gb_per_s_low", "gb_per_s_high"),
        "memory": ("peak_bytes", "bytes allocated for one run", None, None)}[kind]
    rows = _with_rate_spread(compared[compared[value].notna()])
    y_axis = alt.Axis(format="~s") if kind != "speedup" else alt.Axis(format="~g")
    y = alt.Y(f"{value}:Q", title=title, scale=LOG, axis=y_axis)
    made = _lines(rows, field, y, f"{low}:Q" if low else None, f"{high}:Q" if high else None)
    if kind == "speedup":
        made += equal_line()
    if kind == "bandwidth" and len(rows):
        copies = pd.DataFrame([{"gb": r["copy_gb_per_s"]} for r in roofs.values()]).drop_duplicates()
        made += alt.Chart(copies).mark_rule(color=AXIS, strokeDash=[4, 4]).encode(y="gb:Q", tooltip=[alt.Tooltip("gb:Q", title="measured copy, GB/s")])
    return made.properties(height=HEIGHT)


def _with_rate_spread(rows):
    """The rows with the spread of their rates: the slower the run, the lower the rate."""
    return rows.assign(**{f"{name}_{end}": rows[name] * rows.median_us / rows[time]
                          for name in ("tflops", "gb_per_s") for end, time in (("low", "p90_us"), ("high", "p10_us"))})


def size_axis(rows, field):
    """The x axis of a size that doubles, a tick at each that was timed."""
    values = sorted(rows[field].unique())
    return alt.X(f"{field}:Q", title=field, scale=alt.Scale(type="log", base=2, nice=False, padding=14), axis=alt.Axis(values=values, format="d", grid=False))


def equal_line():
    """A rule where the ratio is 1."""
    return alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=AXIS, strokeDash=[4, 4]).encode(y="one:Q")


def _lines(rows, field, y, low, high):
    x = size_axis(rows, field)
    colour = _colour(labels(rows))
    base = alt.Chart(rows)
    layers = [base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=_dash(), detail=["source:N", "device:N"])]
    if low:
        layers.append(base.mark_rule(strokeWidth=5, opacity=0.45).encode(x=x, y=alt.Y(low, scale=LOG), y2=high, color=colour))
    layers.append(base.mark_point(filled=True, size=55, opacity=1).encode(x=x, y=y, color=colour, shape=_shape(rows), tooltip=_tips()))
    return alt.layer(*layers)


def _colour(names):
    chosen = colours(names)
    return alt.Color("label:N", title=None, legend=alt.Legend(orient="top", columns=3, labelLimit=260, symbolOpacity=1),
                     scale=alt.Scale(domain=names, range=[chosen[n] for n in names]))


def _dash():
    return alt.StrokeDash("kind:N", title=None, legend=None, scale=alt.Scale(domain=["kernel", "peer"], range=[[1, 0], [5, 3]]))


def _shape(rows):
    legend = alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if rows.source.nunique() > 1 else None
    return alt.Shape("source:N", title=None, legend=legend, scale=alt.Scale(domain=["recorded", "measured"], range=["circle", "diamond"]))


def _tips():
    plain = ["label:N", "seq_len:Q", "batch:Q", "heads:Q", "head_dim:Q", "causal:N", "dtype:N", "settings:N", alt.Tooltip("l2:N", title="L2")]
    formats = {"median_us": ("median us", ",.5g"), "p10_us": ("p10 us", ",.5g"), "p90_us": ("p90 us", ",.5g"), "runs": ("runs", "d"),
               "speedup": ("speed-up", ".4g"), "speedup_low": ("speed-up, low", ".4g"), "speedup_high": ("speed-up, high", ".4g"), "tflops": ("TFLOP/s", ".4g"),
               "tokens_per_s": ("tokens/s", ",.0f"), "bytes": ("bytes, at least", ","), "gb_per_s": ("GB/s", ",.4g"), "intensity": ("FLOP per byte", ".4g"),
               "roof_percent": ("% of the roof", ".3g"), "peak_bytes": ("bytes allocated", ","), "max_abs_error": ("largest error", ".3g")}
    numbers = [alt.Tooltip(f"{name}:Q", title=title, format=form) for name, (title, form) in formats.items()]
    state = [alt.Tooltip("clock_after:Q", title="clock MHz"), alt.Tooltip("temperature_after:Q", title="temperature C")]
    return [*plain, *numbers, *state, "source:N", "device:N", "date:N"]


def roofline(rows, roofs):
    """Every kernel and problem as a point: FLOP per byte that must move, and TFLOP/s, under the measured roofs."""
    rows = _with_rate_spread(rows[rows.tflops.notna()])
    low, high = rows.intensity.min() / 2, rows.intensity.max() * 2
    lines = []
    for device, roof in roofs.items():
        for title, tflops in bench.arithmetic_roofs(roof).items():
            corner = 1000 * tflops / roof["copy_gb_per_s"]
            for at in sorted({low, min(max(corner, low), high), high}):
                lines.append({"intensity": at, "tflops": min(at * roof["copy_gb_per_s"] / 1000, tflops), "roof": f"{title}, {device}",
                              "said": f"{title} {tflops:.4g} TFLOP/s"})
    x = alt.X("intensity:Q", title="FLOP per byte that must move", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~g", grid=False))
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=LOG, axis=alt.Axis(format="~g"))
    roof = alt.Chart(pd.DataFrame(lines)).mark_line(color=AXIS, strokeWidth=2).encode(x=x, y=y, detail="roof:N", tooltip=["said:N"])
    ends = pd.DataFrame(lines).sort_values("intensity").groupby("roof").tail(1)
    said = alt.Chart(ends).mark_text(color=AXIS, align="right", dy=-8, fontSize=11).encode(x=x, y=y, text="said:N")
    names = labels(rows)
    spread = alt.Chart(rows).mark_rule(strokeWidth=5, opacity=0.45).encode(x=x, y=alt.Y("tflops_low:Q", scale=LOG), y2="tflops_high:Q", color=_colour(names))
    points = alt.Chart(rows).mark_point(filled=True, size=50, opacity=0.9).encode(x=x, y=y, color=_colour(names), shape=_shape(rows), tooltip=_tips())
    return alt.layer(roof, said, spread, points).properties(height=HEIGHT)


ALT = {"latency": "Median time of one run against the size, per kernel, with p10 to p90",
       "speedup": "Speed-up against the baseline, per kernel, with its spread",
       "tflops": "TFLOP/s against the size, per kernel", "bandwidth": "Bandwidth of the bytes that must move, under the measured copy",
       "memory": "Bytes allocated for one run against the size", "roofline": "Each point's TFLOP/s against its FLOP per byte, under the measured roofs"}
NOTES = {
    "latency": "Device time of one run, median of the runs; the thick rule goes from p10 to p90. Dashed: torch.",
    "speedup": "The baseline's median over the kernel's; the spread is its p10 over the kernel's p90, to its p90 over the kernel's p10.",
    "tflops": "4 FLOP per score and dim, whatever the kernel does, over the median.",
    "bandwidth": "Bytes that must move at least (each launch reads or writes each of its arrays once) over the median: a bound, not a count.",
    "memory": "Allocated on the GPU for one run, inputs and output included, as the allocator counted it. A kernel that keeps S and P grows as seq_len^2.",
    "roofline": "The roofs were measured on the same GPU: a device-to-device copy, lab_fma's multiply-adds, torch's fp16 matrix product. "
                "A sixth of that bounds fp32 products made of 16-bit ones: six in 04_flash_registers; in sdpa_efficient three of TF32, at half the rate.",
}


# ---- the report ----


def report(compared, part, field, title, baseline, provenance):
    """One page of Markdown: what was measured where, the comparison, what has no time, how it was measured."""
    lines = [f"# {title}", ""]
    for where in provenance:
        made_with = [f"driver {where['driver']}", *([f"torch {where['torch']}", where["compiler"]] if "torch" in where else []), where["date"]]
        lines += [f"{where['device']}, {', '.join(made_with)}. Roofs measured there: {bench.roofs_said(where['roofs'])}.", ""]
    lines += [sentence(compared, field, baseline), exponent_sentence(part, field), "", f"Speed-ups are against {baseline}, with their spread.", ""]
    table = figures_table(compared, field)
    lines += ["| " + " | ".join(table.columns) + " |", "| " + " | ".join("---" for _ in table.columns) + " |"]
    lines += ["| " + " | ".join(str(v).replace("|", "/") for v in row) + " |" for row in table.itertuples(index=False)]
    missing = without_time(part)
    if len(missing):
        lines += ["", "## No time", ""] + [f"- {r.name} ({r.status}, {r.places}): {r.reason}" for r in missing.itertuples(index=False)]
    cache = "an L2 that holds none of the inputs" if (compared.l2 == "cold").all() else "an L2 that holds what the run before left"
    runs = f"{count(int(compared.runs.min()), 'run')} to {int(compared.runs.max())} per point"
    lines += ["", "## How", "", f"{runs} between device events, after the timed build's output had passed against float64 (at most twice torch's own error); "
              f"warmed up; {cache}; random inputs.", ""]
    return "\n".join(lines)
