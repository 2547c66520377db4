"""Timing: sweeps of times, live on this GPU or recorded on named ones: latency, throughput, speed-up, memory, roofline, a report."""

import datetime
import io
import json
import time

import pandas as pd
import streamlit as st

from app import frame, kept, runs
from app.choices import show_ignored, write_url
from explainers import timing
from kernels import bench
from kernels.catalog import ATTENTION, PAGED
from kernels.errors import ProblemError, WarpglassError

NOW = "this GPU, now"
FIELDS = {"seq_len": "128, 256, 512, 1024, 2048, 4096", "width": "512, 768, 1024, 2048", "heads": "8, 12, 16, 32", "batch": "1, 4, 8, 16, 32",
          "BLOCK_Q": "16, 32", "BLOCK_KV": "16, 32", "head_dim": "32, 64, 128"}

survey = runs.survey()
mine = st.session_state.setdefault("timing_rows", [])  # rows measured in this session, as bench.row makes them
st.session_state.setdefault("timing_url", {k: v for k, v in st.query_params.to_dict().items() if k in ("gpus", "sweep", "baseline", "hide")})
asked = st.session_state.timing_url
chosen_before = st.session_state.setdefault("timing_chosen", {})  # key -> what the sidebar's widget held when last drawn
st.header("Timing", anchor=False)
st.markdown("How long each kernel takes, next to torch's own attention on the same inputs. Only a timed build whose output passed against float64 gets a time.")
show_ignored()


def live():
    """The controls of a sweep on this GPU, and the sweep itself: one point after another, each a task of the GPU's worker."""
    with st.expander("Time on this GPU", icon=":material/speed:", expanded=not mine):
        left, right = st.columns(2)
        names = left.multiselect("Kernels", [*ATTENTION, *PAGED], default=["03_flash", "04_flash_registers"], key="timing_names")
        chosen = right.text_input("Set", key="timing_set", placeholder="seq_len=1024, head_dim=64",
                                  help="problem fields and constants that hold for every point")
        field = left.selectbox("Sweep", list(FIELDS), key="timing_field", help="width is heads x head_dim; paged kernels take seq_len and batch")
        values = right.text_input("Values", FIELDS[field], key=f"timing_values_{field}")
        peers = left.toggle("With torch's SDPA", True, key="timing_peers")
        warm = right.toggle("Warm L2", False, key="timing_warm", help="the same arrays in every run, instead of an L2 that holds none of them")
        go, clear = left.columns(2)
        started = go.button("Run the sweep", icon=":material/play_arrow:", type="primary", disabled=not names)
        if mine and clear.button("Clear what was measured", icon=":material/delete:"):
            mine.clear()
            st.rerun()
        if started:
            try:
                held = [bench.set_field(part) for part in chosen.split(",") if part.strip()]
                _measure(bench.points(names, [bench.sweep_field(f"{field}={values}")], held, peers, not warm))
            except ProblemError as error:
                st.error(f"**This sweep cannot run.** {error}".replace("`", "'"), icon=":material/block:")
            except WarpglassError as error:
                st.error(f"**The sweep ended.** {error} What was measured by then is shown.", icon=":material/error:")


def _measure(points):
    bar = st.progress(0.0, "Measuring the roofs")
    st.button("Stop", icon=":material/stop:")  # any click ends this run of the page; the points so far are kept
    st.session_state.timing_roofs = runs.roofs()
    begun = time.monotonic()
    for number, point in enumerate(points):
        bar.progress(number / len(points), f"{number} of {len(points)}, now {point.name}; {time.monotonic() - begun:.0f} s so far")
        mine.append(bench.skipped_row(point) if isinstance(point, bench.Skipped) else runs.timed(point, st.session_state.timing_roofs))
    bar.empty()
    st.rerun()


def sources():
    """(the chosen tables together, provenance of each of them by its name, the names of all there are)."""
    recorded = bench.recorded()
    names = [*([NOW] if mine else []), *recorded]
    asked_for = [name for name in asked.get("gpus", "").split("|") if name in names]
    chosen = several("Times from", names, f"timing_from_{len(mine) > 0}", asked_for or names)
    tables, where = [], {}
    for name in chosen or names[-1:]:
        if name == NOW:
            device = survey.devices["gpu"]
            where[name] = {"device": device.name, "driver": device.driver, "date": datetime.date.today().isoformat(), "roofs": st.session_state.timing_roofs}
            tables.append(timing.prepared(bench.table(mine), where[name], "measured"))
        else:
            table, where[name] = recorded[name]
            tables.append(timing.prepared(table, where[name], "recorded"))
    return pd.concat(tables, ignore_index=True) if tables else timing.prepared(bench.table([]), {"device": "", "date": ""}, "recorded"), where, names


def pick(label, options, name, first=None, **more):
    """A select box that begins at what was chosen before, else at what the link asks for, else at `first`, else at the first option."""
    key = f"timing_{name}"
    value = next(value for value in (chosen_before.get(key), asked.get(name), first, options[0]) if value in options)
    if st.session_state[kept.restore(key, value)] not in options:
        st.session_state[key] = value
    chosen_before[key] = st.selectbox(label, options, key=key, **more)
    return chosen_before[key]


def several(label, options, key, first):
    """A choice of several of the options that begins at what was chosen before, else at `first`."""
    kept.restore(key, [name for name in chosen_before.get(key, first) if name in options])
    chosen_before[key] = st.multiselect(label, options, key=key)
    return chosen_before[key]


def badges(where):
    for name, entry in where.items():
        label = "measured" if name == NOW else "recorded"
        st.badge(label, color=frame.BADGE_COLOURS[label])
        torch = f", torch {entry['torch']}" if "torch" in entry else ""
        st.caption(f"{entry['device']}, driver {entry['driver']}{torch}, {entry['date']}. Roofs measured there: {bench.roofs_said(entry['roofs'])}.")


def downloads(compared, part, field, title, baseline, where, charts):
    """The shown rows as CSV and JSON, the report, and any of the charts as an image."""
    rows = compared.drop(columns=["problem"]).reset_index(drop=True)
    report = timing.report(compared, part, field, title, baseline, list(where.values()))
    text = json.dumps({"provenance": where, "baseline": baseline, "rows": bench.records(rows)}, indent=1)
    columns = st.columns([1, 1, 1.4, 1.4, 1, 1], vertical_alignment="bottom")
    kind = columns[3].selectbox("Chart", list(timing.CHARTS), format_func=timing.CHARTS.get, key="timing_image")
    files = (("CSV", rows.to_csv(index=False), "times.csv", "text/csv"), ("JSON", text, "times.json", "application/json"),
             ("Report (Markdown)", report, "report.md", "text/markdown"), ("PNG", lambda: _image(charts[kind], "png"), f"{kind}.png", "image/png"),
             ("SVG", lambda: _image(charts[kind], "svg"), f"{kind}.svg", "image/svg+xml"))
    for column, (label, data, file, mime) in zip((*columns[:3], *columns[4:]), files):
        column.download_button(label, data, f"warpglass-{file}", mime, icon=":material/download:", on_click="ignore", width="stretch")
    with st.expander("The report"):
        st.markdown(report.replace("# ", "#### ", 1).replace("\n## ", "\n##### "))


def _image(chart, form):
    buffer = io.BytesIO() if form == "png" else io.StringIO()
    chart.properties(width=640).save(buffer, format=form, **({"scale_factor": 2} if form == "png" else {}))
    return buffer.getvalue()


if "gpu" in survey.devices:
    live()
else:
    st.info(f"This machine has no GPU, so the times are recorded ones. {survey.reasons.get('gpu', '')}", icon=":material/info:")

with st.sidebar:
    table, where, every = sources()
    found = timing.sweeps(table)
    titles = {key: timing.sweep_title(table, field, fixed) for key, (field, fixed) in found.items()}
if not found:
    st.warning("No sweep has two sizes yet: what was measured is in the table below." if len(table) else "Nothing is recorded and nothing was measured yet.")
    st.dataframe(table.dropna(axis=1, how="all"), hide_index=True, width="stretch")
    st.stop()
with st.sidebar:
    key = pick("Sweep", list(found), "sweep", format_func=titles.get)
    field, fixed = found[key]
    part = timing.slice_of(table, field, fixed)
    names = timing.labels(part)
    preferred = next((name for name in ("sdpa_efficient", "sdpa_cudnn", "paged_v1") if name in names), names[0])
    baseline = pick("Baseline of the speed-ups", names, "baseline", first=preferred)
    hidden = [name for name in asked.get("hide", "").split("|") if name in names]
    shown = several("Shown", names, f"timing_shown_{key}", [name for name in names if name not in hidden])
compared = bench.speedups(part, baseline)
compared = compared[compared.label.isin(shown or names)]
hide = [name for name in names if name not in shown] if shown else []
write_url({"sweep": key, "baseline": baseline, **({"hide": "|".join(hide)} if hide else {}), **({"gpus": "|".join(where)} if len(where) < len(every) else {})})

st.subheader(titles[key], anchor=False)
st.success(timing.sentence(compared, field, baseline))
st.caption(timing.exponent_sentence(part[part.label.isin(compared.label)], field))
charts = {kind: timing.chart(kind, compared, field, baseline, {e["device"]: e["roofs"] for e in where.values()}) for kind in timing.CHARTS}
for first in range(0, len(charts), 2):
    for column, kind in zip(st.columns(2, gap="large"), list(charts)[first:first + 2]):
        with column:
            st.markdown(f"**{timing.CHARTS[kind]}**")
            st.altair_chart(charts[kind], key=f"chart_{kind}", width="stretch", alt=timing.ALT[kind])
            st.caption(timing.NOTES[kind])
badges(where)
st.subheader("Every figure", anchor=False)
st.dataframe(timing.figures_table(compared, field), hide_index=True, width="stretch", key="timing_table")
missing = timing.without_time(part)
if len(missing):
    st.markdown("**No time, and why**")
    st.dataframe(missing, hide_index=True, width="stretch")
st.subheader("Take it along", anchor=False)
downloads(compared, part, field, titles[key], baseline, where, charts)
rest = table[table.seq_len.isna() & (table.status == "ok")]
if len(rest):
    with st.expander("Kernels that are no attention"):
        columns = ["name", "median_us", "p10_us", "p90_us", "gb_per_s", "roof_percent", "tokens_per_s", "l2", "source", "device", "date"]
        st.dataframe(rest[columns].dropna(axis=1, how="all"), hide_index=True, width="stretch")
        st.caption("Microseconds; GB/s of the bytes that must move. The lab's kernels at their smallest, where a launch costs more than the work.")
frame.labels()
