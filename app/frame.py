"""What every story page shares: title, provenance badge, clock and sentence on top; registers and download below."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app import runs
from app.choices import show_ignored
from app.clock import components
from explainers.glossary import PROVENANCE
from kernels.build import DEFAULT_ARCH
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.run.backends import PROVENANCE as LABEL_OF
from kernels.run.backends import Device
from kernels.run.results import Run

BADGE_COLOURS: dict[str, Any] = {
    "measured": "green",
    "executed": "blue",
    "recorded": "violet",
    "derived": "gray",
    "modelled": "orange",
}


def headline(kernel: KernelSpec, side: str = "") -> str:
    """A kernel's name, title and idea, in a line. side: which of two kernels it is."""
    return f"**{side}{kernel.name}** {kernel.title}. {kernel.idea[0].upper()}{kernel.idea[1:]}"


def title(text: str, kernel: KernelSpec) -> None:
    """The page's title with the kernel's idea, and what the link could not say."""
    st.header(text, anchor=False)
    st.markdown(headline(kernel))
    show_ignored()


def cannot(error: Exception, said: str = "This cannot run.") -> None:
    """The reason why a page shows nothing."""
    st.error(f"**{said}** {error}".replace("`", "'"), icon=":material/block:")


def badge(run: Run) -> None:
    """The provenance of the run's values in a line, and how far its worst output is from float64."""
    compiler = f", {run.compiler}" if run.compiler else ""
    st.badge(run.provenance, color=BADGE_COLOURS[run.provenance], help=PROVENANCE[run.provenance])
    error = worst(runs.errors(run))
    said = f"largest error against float64 {error.largest:.2g} ({error.output}), torch's own {error.yardstick:.2g}"
    said = f"{said}, allowed {error.allowed:.2g}"
    where = f"on {run.device}, {run.date}{compiler}"
    st.caption(f"Values and addresses {run.provenance} {where}. {run.trace.table.num_rows:,} records; {said}.")
    if run.trace.lost:
        st.warning(
            f"The trace was cut: {run.trace.lost:,} records did not fit, so later steps are incomplete. Choose a "
            f"smaller problem."
        )
    if not error.ok and not run.request.broken:
        st.error(
            f"The output {error.output} misses float64 by more than is allowed: twice torch's own error and a "
            f"rounding. Do not trust this run."
        )


def clock(frames: Sequence[Any], run: Any, step: int = 0) -> None:
    """The clock, at the step of the link the first time, at `step` for every other `run` (anything hashable)."""
    components.clock(frames, run_id=str(hash(run)), step=st.session_state.pop("first_step", step))
    components.narration(frames)


def steps(frames: Sequence[Any], run: Any, kernel: KernelSpec, view: Callable[[], None], step: int = 0) -> None:
    """The clock, and below it the dense view (`view`, a function that mounts it) beside the kernel's source."""
    clock(frames, run, step)
    left, right = st.columns([11, 9], gap="medium")
    with left:
        view()
    with right:
        components.code(kernel, frames)


def builds(request: Request, device: Device) -> None:
    """Registers, shared memory and spills of both builds: the observer effect, visible."""
    arch = device.target if device.backend == "gpu" else DEFAULT_ARCH
    builds_of(request.kernel, request.problem, request.settings, arch)


def builds_of(kernel: KernelSpec, problem: Any, settings: runs.Settings, arch: str) -> None:
    """The same for any architecture."""
    facts, reason = runs.facts(kernel, problem, settings, arch)
    st.markdown("**The two builds**")
    if facts is None:
        st.caption(f"Not known here: {reason}")
        return
    rows = [
        {
            "build": mode,
            "kernel": e["entry"],
            "registers": e["registers"],
            "shared bytes": e["shared_bytes"],
            "spilled bytes": e["spill_bytes"],
        }
        for mode, made in facts["builds"].items()
        for e in made["entries"]
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption(
        f"From {facts['builds']['timed']['compiler']} for {arch}. The trace comes from the probed build; probes cost "
        f"registers, so times are "
        "only ever taken from the timed one."
    )


def download(run: Run) -> None:
    """The trace as Parquet."""
    st.download_button(
        "Download the trace (Parquet)",
        data=lambda: _parquet(run),
        file_name=f"{run.request.kernel.name}-trace.parquet",
        mime="application/vnd.apache.parquet",
        icon=":material/download:",
        on_click="ignore",
    )


def _parquet(run: Run) -> bytes:
    buffer = io.BytesIO()
    run.trace.save(buffer)  # type: ignore[arg-type]  # pyarrow writes to a buffer as to a path
    return buffer.getvalue()


def labels() -> None:
    """What the provenance labels mean, folded."""
    with st.expander("What the labels mean"):
        for name in dict.fromkeys([*LABEL_OF.values(), *PROVENANCE]):
            st.markdown(f":{BADGE_COLOURS[name]}-badge[{name}] {PROVENANCE[name]}")
