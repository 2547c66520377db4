"""The controls of a sweep on this GPU, and the sweep itself: one point after another, each a task of the GPU's
worker."""

import time
from typing import Any

import streamlit as st

from app import frame, runs
from app.choices.pages import TWO_RUNGS
from kernels.catalog import KERNELS
from kernels.core.fields import fields_of, write_value
from kernels.errors import ProblemError, WarpglassError
from kernels.timing import sweeps
from kernels.timing.protocol import Point
from kernels.timing.sweeps import Skipped

VALUES = {  # of well-known sizes, to begin with
    "seq_len": "128, 256, 512, 1024, 2048, 4096",
    "width": "512, 768, 1024, 2048",
    "num_heads": "8, 12, 16, 32",
    "batch": "1, 4, 8, 16, 32",
    "head_dim": "32, 64, 128",
}


def show(mine: list[dict[str, Any]]) -> None:
    """mine: the rows measured in this session; what is timed is added to them."""
    with st.expander("Time on this GPU", icon=":material/speed:", expanded=not mine):
        left, right = st.columns(2)
        names = left.multiselect("Kernels", list(KERNELS), default=list(dict.fromkeys(TWO_RUNGS)), key="timing_names")
        about = "problem fields and constants that hold for every point"
        chosen = right.text_input("Set", key="timing_set", placeholder="seq_len=1024, head_dim=64", help=about)
        fields = sweepable(names)
        field = left.selectbox(
            "Sweep", list(fields), key="timing_field", help="a size, a field of the problem or a constant"
        )
        values = right.text_input("Values", fields.get(field, ""), key=f"timing_values_{field}")
        peers = left.toggle("With torch's SDPA", True, key="timing_peers")
        about = "the same arrays in every run, instead of an L2 that holds none of them"
        warm = right.toggle("Warm L2", False, key="timing_warm", help=about)
        go, clear = left.columns(2)
        started = go.button("Run the sweep", icon=":material/play_arrow:", type="primary", disabled=not names)
        if mine and clear.button("Clear what was measured", icon=":material/delete:"):
            mine.clear()
            st.rerun()
        if started:
            try:
                held = [sweeps.set_field(part) for part in chosen.split(",") if part.strip()]
                _measure(sweeps.points(names, [sweeps.sweep_field(f"{field}={values}")], held, peers, not warm), mine)
            except ProblemError as error:
                frame.cannot(error, "This sweep cannot run.")
            except WarpglassError as error:
                st.error(f"**The sweep ended.** {error} What was measured by then is shown.", icon=":material/error:")


def sweepable(names: list[str]) -> dict[str, str]:
    """What every one of these kernels can be swept over -> values to begin with: sizes, fields of the problem,
    constants."""
    found: dict[str, str] = {}
    for spec in (KERNELS[name] for name in names):
        kind = spec.problem_type
        known = {name: "" for name in kind.derived_fields}
        known |= {name: _values(f) for name, f in fields_of(kind).items() if not isinstance(f.default, tuple)}
        known |= {c.name: ", ".join(map(str, c.values)) for c in spec.constants}
        found = {name: text for name, text in found.items() if name in known} if found else known
    return {name: text for name, text in VALUES.items() if name in found} | {
        name: text for name, text in found.items() if name not in VALUES
    }


def _values(field: Any) -> str:
    return ", ".join(write_value(value) for value in field.metadata["allowed"] or (field.default,))


def _measure(points: list[Point | Skipped], mine: list[dict[str, Any]]) -> None:
    bar = st.progress(0.0, "Measuring the roofs")
    st.button("Stop", icon=":material/stop:")  # any click ends this run of the page; the points so far are kept
    st.session_state.timing_roofs = runs.roofs()
    begun = time.monotonic()
    for number, point in enumerate(points):
        said = f"{number} of {len(points)}, now {point.name}; {time.monotonic() - begun:.0f} s so far"
        bar.progress(number / len(points), said)
        mine.append(runs.timed(point))
    bar.empty()
    st.rerun()
