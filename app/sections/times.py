"""Where the times of the timing page come from, and how they are taken along."""

import datetime
import io
import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app import frame, kept
from app.choices import Page
from explainers import timing, timing_charts
from kernels.run.backends import Survey
from kernels.timing import bench, compare, rows
from kernels.timing.peers import PEERS
from kernels.timing.tables import Provenance

NOW = "this GPU, now"
Where = dict[str, Provenance]


def sources(page: Page, mine: list[dict[str, Any]], survey: Survey) -> tuple[pd.DataFrame, Where, list[str]]:
    """(the chosen tables together, the Provenance of each of them by its name, the names of all there are)."""
    recorded = bench.recorded()
    names = [*([NOW] if mine else []), *recorded]
    tables, where = [], {}
    for name in several(page, "Times from", names, "gpus"):
        if name == NOW:
            device, today = survey.devices["gpu"], datetime.date.today().isoformat()
            where[name] = Provenance(device.name, device.driver, today, roofs=st.session_state.timing_roofs)
            tables.append(timing.prepared(rows.table(mine), where[name], "measured"))
        else:
            table, where[name] = recorded[name]
            tables.append(timing.prepared(table, where[name], "recorded"))
    nothing = timing.prepared(rows.table([]), Provenance("", "", ""), "recorded")
    return pd.concat(tables, ignore_index=True) if tables else nothing, where, names


def several(page: Page, label: str, options: list[str], name: str, hidden: bool = False) -> list[str]:
    """A choice of several of the options, all of them to begin with. The page's choice `name` holds those chosen, or
    those hidden, with | between them; nothing if that is all, or none."""
    named = [one for one in page[name].split("|") if one]
    page.tell_lost(name, [one for one in named if one not in options])
    begin = [one for one in options if not named or (one in named) != hidden]
    key = kept.restore(page.key(name), begin or options)
    st.session_state[key] = [one for one in st.session_state[key] if one in options]
    chosen = st.multiselect(label, options, key=key)
    told = [one for one in options if (one in chosen) != hidden]
    page.state[name] = "|".join(told) if 0 < len(chosen) < len(options) else ""
    return chosen or options


def preferred(names: list[str]) -> str:
    """The baseline to begin with: torch's fastest that there is, else the first."""
    return next((name for name in ("sdpa_efficient", "sdpa_cudnn", *PEERS) if name in names), names[0])


def badges(where: Where) -> None:
    for name, entry in where.items():
        label = "measured" if name == NOW else "recorded"
        st.badge(label, color=frame.BADGE_COLOURS[label])
        torch = f", torch {entry.torch}" if entry.torch else ""
        roofs = compare.roofs_said(entry.roofs)
        st.caption(f"{entry.device}, driver {entry.driver}{torch}, {entry.date}. Roofs measured there: {roofs}.")


def downloads(compared: pd.DataFrame, report: str, baseline: str, where: Where, charts: Mapping[str, Any]) -> None:
    """The shown rows as CSV and JSON, the report, and any of the charts as an image."""
    shown = compared.drop(columns=["problem"]).reset_index(drop=True)
    provenance = {name: entry.as_json() for name, entry in where.items()}
    text = json.dumps({"provenance": provenance, "baseline": baseline, "rows": compare.records(shown)}, indent=1)
    columns = st.columns([1, 1, 1.4, 1.4, 1, 1], vertical_alignment="bottom")
    titles = timing_charts.CHARTS
    kind = columns[3].selectbox("Chart", list(titles), format_func=titles.__getitem__, key="timing_image")
    files = (
        ("CSV", shown.to_csv(index=False), "times.csv", "text/csv"),
        ("JSON", text, "times.json", "application/json"),
        ("Report (Markdown)", report, "report.md", "text/markdown"),
        ("PNG", lambda: _image(charts[kind], "png"), f"{kind}.png", "image/png"),
        ("SVG", lambda: _image(charts[kind], "svg"), f"{kind}.svg", "image/svg+xml"),
    )
    for column, (label, data, file, mime) in zip((*columns[:3], *columns[4:]), files):
        name = f"warpglass-{file}"
        column.download_button(label, data, name, mime, icon=":material/download:", on_click="ignore", width="stretch")
    with st.expander("The report"):
        st.markdown(report.replace("# ", "#### ", 1).replace("\n## ", "\n##### "))


def _image(chart: Any, form: str) -> Any:
    buffer = io.BytesIO() if form == "png" else io.StringIO()
    chart.properties(width=640).save(buffer, format=form, **({"scale_factor": 2} if form == "png" else {}))
    return buffer.getvalue()


def others(table: pd.DataFrame) -> None:
    """The kernels that have a time and no sizes to be compared by, folded."""
    rest = table[table.seq_len.isna() & (table.status == "ok")]
    if not len(rest):
        return
    names = [
        "name",
        "median_us",
        "p10_us",
        "p90_us",
        "gb_per_s",
        "roof_percent",
        "tokens_per_s",
        "l2",
        "source",
        "device",
        "date",
    ]
    with st.expander("Kernels that are no attention"):
        st.dataframe(rest[names].dropna(axis=1, how="all"), hide_index=True, width="stretch")
        st.caption(
            "Microseconds; GB/s of the bytes that must move. The lab's kernels at their smallest, where a launch costs "
            "more than the work."
        )
