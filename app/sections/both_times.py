"""The times of two kernels on the same problems: recorded ones, and both at once on this GPU."""

from dataclasses import fields, replace
from typing import Any

import pandas as pd
import streamlit as st

from app import runs
from app.choices.choice import of_field
from explainers import compare_times, timing
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.run.backends import Survey
from kernels.timing import bench, rows
from kernels.timing.protocol import Point
from kernels.timing.tables import Provenance

ASKED = ("seq_len", "num_heads", "head_dim")  # sizes that a larger problem of the same kind may have


def show(requests: list[Request], survey: Survey) -> None:
    tables = [timing.prepared(table, where, "recorded") for table, where in bench.recorded().values()]
    here: list[dict[str, Any]] = st.session_state.setdefault("compare_rows", [])  # of A and B, as last timed
    if "gpu" in survey.devices:
        _time_both(requests, here)
    else:
        reason = survey.reasons.get("gpu", "")
        st.caption(f"This machine has no GPU, so the times are recorded ones, of the bench's own constants. {reason}")
    if here:
        tables.insert(
            0, timing.prepared(rows.table(here), Provenance(survey.devices["gpu"].name, "", "now"), "measured")
        )
        for row in here:
            if row["status"] != "ok":
                st.error(f"**{row['name']} has no time.** {row['reason']}", icon=":material/error:")
    empty = rows.table([]).assign(device="", date="", source="")
    found = compare_times.times(pd.concat(tables, ignore_index=True) if tables else empty, requests)
    names = [request.kernel.name for request in requests]
    said = compare_times.times_sentence(found, [f"A, {names[0]}", f"B, {names[1]}"])
    (st.success if len(found) else st.info)(said)
    if not len(found):
        st.caption(" ".join(bench.not_recorded()))
        return
    left, right = st.columns([11, 9], gap="large")
    with left:
        st.dataframe(compare_times.times_table(found, names), hide_index=True, width="stretch")
    with right:
        about = "A's time over B's, with its spread, against seq_len"
        st.altair_chart(compare_times.ratio_chart(found), key="ratios", width="stretch", alt=about)
        st.caption(
            "A's median over B's, above 1 where B is faster; the rule goes from A's p10 over B's p90 to A's p90 over "
            "B's p10."
        )


def _time_both(requests: list[Request], here: list[dict[str, Any]]) -> None:
    st.markdown("Both at once on this GPU, on the problem above or on a larger one of the same kind:")
    problem = requests[0].problem
    begin, known = type(problem).bench_begin(), {f.name: of_field(f) for f in fields(problem)}
    asked = [name for name in ASKED if name in known]
    *columns, button = st.columns([*(1 for _ in asked), 2], vertical_alignment="bottom")
    sizes = {}
    for column, name in zip(columns, asked):
        choice, value, key = known[name], getattr(begin, name), f"compare_time_{name}"
        if choice.allowed:
            sizes[name] = column.selectbox(
                f"{name} to time", choice.allowed, index=choice.allowed.index(value), key=key
            )
        else:
            sizes[name] = column.number_input(f"{name} to time", choice.low, choice.high, value, key=key)
    if button.button("Time both", icon=":material/speed:", type="primary"):
        try:
            with st.spinner("Timing A and B"):
                larger = replace(problem, **sizes)
                here[:] = [runs.timed(Point(request.kernel.name, larger, request.settings)) for request in requests]
        except WarpglassError as error:
            st.error(f"**Nothing was timed.** {error}", icon=":material/error:")
